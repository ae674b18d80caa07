package daemon

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
)

// metricsName is what the service manager calls the socket for metrics.
const metricsName = "metrics"

// openDoors opens all sockets that the configuration names or the service
// manager has opened.
func (d *Daemon) openDoors(doors *doors) {
	if d.server != nil {
		serve := func(l net.Listener) error { return doors.accept(l, d.serveMailq) }
		d.openDoor(doors, "mailq", d.Queries, d.inheritedForQueries(), serve)
	}
	d.openDoor(doors, metricsName, d.Metrics, d.Inherited[metricsName], d.serveHTTP)
}

// inheritedForQueries are all listeners but those for metrics.
func (d *Daemon) inheritedForQueries() (all []net.Listener) {
	for _, name := range slices.Sorted(maps.Keys(d.Inherited)) {
		if name != metricsName {
			all = append(all, d.Inherited[name]...)
		}
	}
	return all
}

func (d *Daemon) openDoor(doors *doors, what string, s Socket, handed []net.Listener, serve func(net.Listener) error) {
	for _, listener := range handed {
		doors.open(inherited(what, listener, serve))
	}
	if len(handed) > 0 {
		return
	}
	for _, in := range doorsFor(what, s, d.BindAddr, serve) {
		doors.open(in)
	}
}

// doorsFor returns the doors of a socket: one, or where it is a port without a
// host, one for each family. bindAddr is what IPv4 listens at then.
func doorsFor(what string, s Socket, bindAddr string, serve func(net.Listener) error) []door {
	make := func(network string, bind func() (net.Listener, error)) door {
		return door{name: what + " " + network + " " + s.Address, bind: bind, serve: serve}
	}
	switch {
	case s.Network == "":
		return nil
	case s.Network == "unix":
		return []door{make("unix", func() (net.Listener, error) { return bindUnix(s.Address) })}
	case !strings.HasPrefix(s.Address, ":"):
		return []door{make("tcp", func() (net.Listener, error) { return net.Listen("tcp", s.Address) })}
	}
	return []door{
		make("tcp6", func() (net.Listener, error) { return net.Listen("tcp6", s.Address) }),
		make("tcp4", func() (net.Listener, error) {
			host, err := bindHost(bindAddr)
			if err != nil {
				return nil, err
			}
			return net.Listen("tcp4", host+s.Address)
		}),
	}
}

// bindHost reads a BINDADDR (zmailer.conf(5)): [a.b.c.d] with or without the
// brackets, iface:name, any, or nothing, which is any too. An interface is
// looked up each time, as it may come up later than the scheduler.
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
		return "", fmt.Errorf("BINDADDR %q is no IPv4 address", text)
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

// inherited is the door of a socket that the service manager handed over. It
// cannot be bound again.
func inherited(what string, listener net.Listener, serve func(net.Listener) error) door {
	return door{
		name: what + " handed over",
		bind: func() (net.Listener, error) {
			l := listener
			listener = nil
			if l == nil {
				return nil, errors.New("the socket was handed over once and is lost")
			}
			return l, nil
		},
		serve: serve,
	}
}
