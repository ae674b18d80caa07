package config

// Addresses of sockets: PARAMmailqsock, PARAMnotifysock, PARAMmetrics, and option -p of mailq.

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Socket is an address to listen on. The zero value means none.
type Socket struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port; without a host, all addresses
}

// MailqPort is the port of the query protocol where the system has no service "mailq".
const MailqPort = 174

// maxSocketPath is the longest path of a socket, in bytes (unix(7)).
const maxSocketPath = 107

// socketForm says which addresses a socket may have.
const socketForm = "UNIX:/path, TCP:port, TCP:service or TCP:host:port"

// socket is the address of a socket, in which ${NAME} is expanded. The argument is the host of an
// address without one.
func socket(host ...string) kind {
	return kindOf(socketForm, func(text string, r *reader) (Socket, error) {
		return ParseSocket(r.expand(text), host[0], r.system.Port)
	})
}

// sockets is one or several addresses with blanks between them. A service that this machine does not
// know stands for MailqPort.
var sockets = kindOf(socketForm+", or several of them", func(text string, r *reader) ([]Socket, error) {
	lookup := func(service string) (int, error) {
		if port, err := r.system.Port(service); err == nil {
			return port, nil
		}
		return MailqPort, nil
	}
	return parseList(strings.Fields(text), func(word string) (Socket, error) { return ParseSocket(r.expand(word), "", lookup) })
})

// unixSocket is the path of a UNIX socket.
var unixSocket = kindOf("UNIX:/path", func(text string, r *reader) (Socket, error) { return parseUNIX(r.expand(text)) })

// ParseSocket reads an address: /path or UNIX:/path; a port or the name of a TCP service, also after
// TCP:; or host:port. host is that of an address without one, and lookup returns the port of a
// service.
func ParseSocket(text, host string, lookup func(service string) (int, error)) (Socket, error) {
	if _, unix := cutPrefixFold(text, "UNIX:"); unix || strings.HasPrefix(text, "/") {
		return parseUNIX(text)
	}
	service, _ := cutPrefixFold(text, "TCP:")
	// ZMailer accepted an address after "@" and did not use it.
	service, _, _ = strings.Cut(service, "@")
	if h, p, err := net.SplitHostPort(service); err == nil {
		host, service = h, p
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		port, err = lookup(service)
	}
	_, udp := cutPrefixFold(text, "UDP:")
	switch {
	case err != nil, service == "", udp:
		return Socket{}, fmt.Errorf("%q is neither a port, nor a TCP service that is known on this machine, nor the path of a socket", service)
	case port < 1 || port > 65535:
		return Socket{}, errors.New("a port must be from 1 to 65535")
	}
	return Socket{"tcp", net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

func parseUNIX(text string) (Socket, error) {
	path, _ := cutPrefixFold(text, "UNIX:")
	if !strings.HasPrefix(path, "/") {
		return Socket{}, errors.New(`must be UNIX:/path: the path of a socket begins with "/"`)
	}
	if len(path) > maxSocketPath {
		return Socket{}, fmt.Errorf("the path of a socket must not be longer than %d bytes", maxSocketPath)
	}
	return Socket{"unix", path}, nil
}

func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}
