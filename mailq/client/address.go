package client

// Addresses: at which sockets and ports a server is.

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usualPort is the TCP port of MAILQ (mailq(1), Which server), which errors do not name.
const usualPort = 174

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
	if a.Port == usualPort {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
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
