package listen

// This file opens the sockets at an address: PARAMmailqsock, PARAMmetrics and
// BINDADDR.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Address is an address to listen at. The zero value is none.
type Address struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port; without a host: all addresses of both families
	// BindAddr is the IPv4 address used where Address has no host: BINDADDR of
	// zmailer.conf(5).
	BindAddr string
}

// socket is one listening socket.
type socket struct {
	name   string  // for the log: "mailq tcp4 :174"
	of     string  // what it is for: "mailq"
	at     Address // zero if it was handed over
	listen func() (net.Listener, error)
}

// sockets returns the sockets of an address: one, or one for each family where
// a port has no host.
func (a Address) sockets(name string) []socket {
	make := func(network string, listen func() (net.Listener, error)) socket {
		return socket{name + " " + network + " " + a.Address, name, a, listen}
	}
	switch {
	case a.Network == "":
		return nil
	case a.Network == "unix":
		return []socket{make("unix", func() (net.Listener, error) { return listenUnix(a.Address) })}
	case !strings.HasPrefix(a.Address, ":"):
		return []socket{make("tcp", func() (net.Listener, error) { return net.Listen("tcp", a.Address) })}
	}
	return []socket{
		make("tcp6", func() (net.Listener, error) { return net.Listen("tcp6", a.Address) }),
		make("tcp4", func() (net.Listener, error) {
			host, err := bindHost(a.BindAddr)
			if err != nil {
				return nil, err
			}
			return net.Listen("tcp4", host+a.Address)
		}),
	}
}

// inheritedSocket is a socket that the service manager opened. It cannot be
// opened again.
func inheritedSocket(name string, listener net.Listener) socket {
	return socket{name + " handed over", name, Address{}, func() (net.Listener, error) {
		l := listener
		listener = nil
		if l == nil {
			return nil, errors.New("the service manager hands over a socket only once, and this one is closed")
		}
		return l, nil
	}}
}

// bindHost reads a BINDADDR (zmailer.conf(5)): [a.b.c.d] with or without the
// brackets, iface:name, any, or nothing, which means any. The interface is
// looked up at each call because it may come up later than the scheduler.
func bindHost(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || strings.EqualFold(text, "any") {
		return "", nil
	}
	if kind, name, ok := strings.Cut(text, ":"); ok && strings.EqualFold(kind, "iface") {
		return interfaceHost(name)
	}
	ip := net.ParseIP(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if ip.To4() == nil {
		return "", fmt.Errorf("BINDADDR %q is not an IPv4 address", text)
	}
	return ip.String(), nil
}

func interfaceHost(name string) (string, error) {
	in, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("BINDADDR: interface %q: %w", name, err)
	}
	addresses, err := in.Addrs()
	if err != nil {
		return "", fmt.Errorf("BINDADDR: interface %q: %w", name, err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			return n.IP.String(), nil
		}
	}
	return "", fmt.Errorf("BINDADDR: interface %q has no IPv4 address", name)
}

// listenUnix listens at a path. It replaces a socket at which no process listens,
// and nothing else.
func listenUnix(path string) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Anybody may connect; the server decides what a peer may do.
	if err := os.Chmod(path, 0o666); err != nil {
		listener.Close()
		return nil, fmt.Errorf("making the socket writable by all: %w", err)
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%q exists and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another process answers on %q", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
