package config

// Addresses of sockets: PARAMmailqsock, PARAMnotifysock, PARAMmetrics.

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// SocketsFile is the file in POSTOFFICE in which the scheduler writes the
// addresses at which it answers queries, one a line, as in PARAMmailqsock.
const SocketsFile = ".mailq.sockets"

// Socket is an address to listen on. The zero value means none.
type Socket struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port; without a host, all addresses
}

func (s Socket) String() string {
	switch s.Network {
	case "":
		return ""
	case "unix":
		return "UNIX:" + s.Address
	}
	return "TCP:" + strings.TrimPrefix(s.Address, ":")
}

// Sockets are addresses to listen on, in the order of the file.
type Sockets []Socket

func (s Sockets) String() string {
	words := make([]string, len(s))
	for i := range s {
		words[i] = s[i].String()
	}
	return strings.Join(words, " ")
}

// sockets is one or several socket addresses with blanks between them.
type sockets[T any] struct {
	field func(*T) *Sockets
	socket[T]
}

func (k sockets[T]) String() string { return k.socket.String() + ", or several of them" }

func (k sockets[T]) read(text string, r *reader) (func(*T), error) {
	var all Sockets
	for word := range strings.FieldsSeq(text) {
		s, err := k.parse(r.expand(word), r)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return func(v *T) { *k.field(v) = all }, nil
}

func (k sockets[T]) show(v *T) string { return k.field(v).String() }

// mailqPort is the port of the query protocol.
const mailqPort = 174

// maxSocketPath is the longest path of a socket, in bytes (unix(7)).
const maxSocketPath = 107

// socket is UNIX:/path, /path, TCP:port, TCP:service, TCP:host:port or these
// without "TCP:". ${NAME} is expanded.
type socket[T any] struct {
	field func(*T) *Socket
	local bool   // only UNIX:/path is accepted
	host  string // for a port without a host
	port  int    // for a service that this machine does not know; 0: an error
}

func (k socket[T]) String() string {
	if k.local {
		return "UNIX:/path"
	}
	return "UNIX:/path, TCP:port, TCP:service or TCP:host:port"
}

func (k socket[T]) read(text string, r *reader) (func(*T), error) {
	s, err := k.parse(r.expand(text), r)
	if err != nil {
		return nil, err
	}
	return func(v *T) { *k.field(v) = s }, nil
}

func (k socket[T]) show(v *T) string { return k.field(v).String() }

func (k socket[T]) parse(text string, r *reader) (Socket, error) {
	path, unix := cutPrefixFold(text, "UNIX:")
	if unix || strings.HasPrefix(text, "/") {
		return localSocket(path)
	}
	if _, udp := cutPrefixFold(text, "UDP:"); udp || k.local {
		return Socket{}, errors.New("must be UNIX:/path")
	}
	service, _ := cutPrefixFold(text, "TCP:")
	// ZMailer accepted an address after "@" and did not use it.
	service, _, _ = strings.Cut(service, "@")
	host := k.host
	if h, p, err := net.SplitHostPort(service); err == nil {
		host, service = h, p
	}
	port, err := k.number(service, r)
	if err != nil {
		return Socket{}, err
	}
	return Socket{"tcp", net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

func localSocket(path string) (Socket, error) {
	if !strings.HasPrefix(path, "/") {
		return Socket{}, errors.New(`the path of a socket must begin with "/"`)
	}
	if len(path) > maxSocketPath {
		return Socket{}, fmt.Errorf("the path of a socket must not be longer than %d bytes", maxSocketPath)
	}
	return Socket{"unix", path}, nil
}

func (k socket[T]) number(service string, r *reader) (int, error) {
	if port, err := strconv.Atoi(service); err == nil {
		if port < 1 || port > 65535 {
			return 0, errors.New("a port must be from 1 to 65535")
		}
		return port, nil
	}
	if port, err := r.system.Port(service); err == nil && port > 0 {
		return port, nil
	}
	if k.port == 0 || service == "" {
		return 0, fmt.Errorf("the TCP service %q is not known on this machine; give the port number", service)
	}
	if !strings.EqualFold(service, "mailq") {
		r.warn("the TCP service %q is not known on this machine; port %d is used", service, k.port)
	}
	return k.port, nil
}

func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}
