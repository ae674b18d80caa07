package listen

// This file opens the sockets at an address: PARAMmailqsock, PARAMmetrics and
// BINDADDR.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Address is an address to listen at. The zero value is none.
type Address struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port; the host may be missing
	// BindAddr is the IPv4 address used where Address has no host: BINDADDR of
	// zmailer.conf(5). "": all addresses of both families.
	BindAddr string
}

// Set reads host:port or the path of a UNIX socket.
func (a *Address) Set(text string) error {
	if strings.HasPrefix(text, "/") {
		*a = Address{Network: "unix", Address: text}
		return nil
	}
	colon := strings.LastIndexByte(text, ':')
	if _, err := strconv.ParseUint(text[colon+1:], 10, 16); colon < 0 || err != nil {
		return fmt.Errorf("address %q is not host:port or /path", text)
	}
	*a = Address{Network: "tcp", Address: text}
	return nil
}

// listen opens the socket.
func (a Address) listen() (net.Listener, error) {
	if a.Network == "unix" {
		return listenUnix(a.Address)
	}
	host := ""
	if strings.HasPrefix(a.Address, ":") {
		var err error
		if host, err = bindHost(a.BindAddr); err != nil {
			return nil, err
		}
	}
	// Each server has a time limit for a peer that says nothing.
	config := net.ListenConfig{KeepAlive: -1}
	return config.Listen(context.Background(), "tcp", host+a.Address)
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
