// This file makes connections, with the local address of option -L.

package smtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Dialer makes connections.
type Dialer struct {
	Local []netip.Addr // local addresses to use, of either family; none: any
}

// ParseLocal reads the operand of -L: "iface:name", an address with or without
// brackets, or the name of a host.
func ParseLocal(ident string, r Resolver) ([]netip.Addr, error) {
	if name, ok := cutPrefixFold(ident, "iface:"); ok {
		return interfaceAddresses(name)
	}
	if addr, err := parseLiteral(ident); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	found, err := r.Addresses(ctx, strings.ToLower(strings.TrimSuffix(ident, ".")))
	if err != nil {
		return nil, fmt.Errorf("local address %q: %w", ident, err)
	}
	return found, nil
}

func interfaceAddresses(name string) (found []netip.Addr, err error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("local interface %q: %w", name, err)
	}
	list, err := iface.Addrs()
	if err != nil {
		return nil, fmt.Errorf("local interface %q: %w", name, err)
	}
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && (!prefix.Addr().IsLinkLocalUnicast() || prefix.Addr().Is4()) {
			found = append(found, prefix.Addr().Unmap())
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("local interface %q has no address", name)
	}
	return found, nil
}

// dial connects to one address of a target.
func (d *Dialer) dial(network, address string, limit time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: limit, KeepAlive: -1}
	if network == "unix" {
		return dialer.Dial(network, address)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	from, ok := d.from(to.Addr())
	if !ok {
		return nil, errors.New("no local address of that family")
	}
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return dialer.Dial(network, address)
}

// from returns the local address for a connection to an address. The zero value
// means any. ok is false if the Dialer has addresses but none of that family.
func (d *Dialer) from(to netip.Addr) (local netip.Addr, ok bool) {
	for _, a := range d.Local {
		if a.Is4() == to.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, len(d.Local) == 0
}
