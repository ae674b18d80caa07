package client

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	dialer := net.Dialer{Timeout: d.Timeout}
	if to.Path != "" {
		conn, err := dialer.DialContext(ctx, "unix", to.Path)
		if err != nil {
			return nil, errorf(Unavailable, "connect failed to %s: %w", to, cause(err))
		}
		return conn, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", to.Host)
	if err != nil {
		return nil, errorf(Unavailable, "cannot find address of %s: %w", to.Host, err)
	}
	var failed []string
	for _, first := range []bool{true, false} {
		for _, a := range addresses {
			if (a.Unmap().Is4() == (d.Prefer == 4)) != first {
				continue
			}
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), strconv.Itoa(to.Port)))
			if err == nil {
				return conn, nil
			}
			failed = append(failed, fmt.Sprintf("%s: %v", a.Unmap(), cause(err)))
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
