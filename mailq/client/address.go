package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Port is the TCP port of MAILQ where the system has no service "mailq"
// (scheduler(8), "MAILQ(v1) PROTOCOL").
const Port = 174

// Address is where a server listens: a UNIX socket or a TCP port.
type Address struct {
	Path string // of a UNIX socket; "" for TCP
	Host string // name or address
	Port int
}

func (a Address) String() string {
	if a.Path != "" {
		return a.Path
	}
	if a.Port == Port {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// ParseAddress reads the value of option -p or of PARAMmailqsock: /path or
// UNIX:/path; a port or the name of a TCP service, also after TCP:; or
// host:port. What the text does not say is taken from defaults.
func ParseAddress(text string, defaults Address) (Address, error) {
	if path, ok := cutPrefixFold(text, "UNIX:"); ok || strings.HasPrefix(text, "/") {
		if !strings.HasPrefix(path, "/") {
			return Address{}, fmt.Errorf("%q: the path of a socket begins with /", text)
		}
		return Address{Path: path}, nil
	}
	service, _ := cutPrefixFold(text, "TCP:")
	at := Address{Host: defaults.Host, Port: defaults.Port}
	if host, port, err := net.SplitHostPort(service); err == nil {
		service = port
		if host != "" {
			at.Host = host
		}
	}
	port, err := lookupPort(service)
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, err)
	}
	at.Port = port
	return at, nil
}

func lookupPort(service string) (int, error) {
	if port, err := strconv.Atoi(service); err == nil {
		if port < 1 || port > 65535 {
			return 0, errors.New("a port is from 1 to 65535")
		}
		return port, nil
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil || port == 0 {
		return 0, errors.New("neither a port, nor a TCP service, nor the path of a socket")
	}
	return port, nil
}

func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// Dialer makes connections to a server.
type Dialer struct {
	// Prefer is 4 or 6, the address family to try first; 0 is 6.
	Prefer int
	// Timeout is the timeout for each address that is tried; 0: none.
	Timeout time.Duration
}

// Dial connects to the first address of a server that answers.
func (d Dialer) Dial(ctx context.Context, to Address) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.Timeout, FallbackDelay: -1}
	networks, address := []string{"tcp6", "tcp4"}, net.JoinHostPort(to.Host, strconv.Itoa(to.Port))
	switch {
	case to.Path != "":
		networks, address = []string{"unix"}, to.Path
	case d.Prefer == 4:
		slices.Reverse(networks)
	}
	var failed []string
	for _, network := range networks {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		noAddress := (*net.AddrError)(nil) // of this family
		if text := cause(err).Error(); !errors.As(err, &noAddress) && !slices.Contains(failed, text) {
			failed = append(failed, text)
		}
	}
	return nil, errorf(Unavailable, "connect failed to %s: %s", to, strings.Join(failed, "; "))
}

// cause returns a network error without the addresses, which our message names
// already.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
