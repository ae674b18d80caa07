package config

// Addresses of sockets: PARAMmailqsock, PARAMnotifysock, PARAMmetrics.

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

// mailqPort is the port of the query protocol.
const mailqPort = 174

// maxSocketPath is the longest path of a socket, in bytes (unix(7)).
const maxSocketPath = 107

// socketForm says which addresses a socket may have: UNIX:/path, /path, TCP:port,
// TCP:service, TCP:host:port or these without "TCP:". ${NAME} is expanded.
type socketForm struct {
	local bool   // only UNIX:/path is accepted
	host  string // for a port without a host
	port  int    // for a service that this machine does not know; 0: an error
}

func (f socketForm) String() string {
	if f.local {
		return "UNIX:/path"
	}
	return "UNIX:/path, TCP:port, TCP:service or TCP:host:port"
}

// socket is the address of a socket.
func socket(form socketForm) kind { return kindOf(form.String(), form.parse, Socket.String) }

// sockets is one or several addresses with blanks between them.
func sockets(form socketForm) kind {
	parse := func(text string, r *reader) (Sockets, error) {
		return parseList(strings.Fields(text), func(word string) (Socket, error) { return form.parse(word, r) })
	}
	return kindOf(form.String()+", or several of them", parse, Sockets.String)
}

func (f socketForm) parse(text string, r *reader) (Socket, error) {
	text = r.expand(text)
	path, unix := cutPrefixFold(text, "UNIX:")
	if unix || strings.HasPrefix(text, "/") {
		return localSocket(path)
	}
	if _, udp := cutPrefixFold(text, "UDP:"); udp || f.local {
		return Socket{}, errors.New("must be UNIX:/path")
	}
	service, _ := cutPrefixFold(text, "TCP:")
	// ZMailer accepted an address after "@" and did not use it.
	service, _, _ = strings.Cut(service, "@")
	host := f.host
	if h, p, err := net.SplitHostPort(service); err == nil {
		host, service = h, p
	}
	port, err := f.number(service, r)
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

func (f socketForm) number(service string, r *reader) (int, error) {
	port, err := strconv.Atoi(service)
	if err != nil {
		port, err = r.system.Port(service)
	}
	switch {
	case err == nil && port >= 1 && port <= 65535:
		return port, nil
	case err == nil:
		return 0, errors.New("a port must be from 1 to 65535")
	case f.port == 0 || service == "":
		return 0, fmt.Errorf("the TCP service %q is not known on this machine; give the port number", service)
	}
	if !strings.EqualFold(service, "mailq") {
		r.warn("the TCP service %q is not known on this machine; port %d is used", service, f.port)
	}
	return f.port, nil
}

func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}
