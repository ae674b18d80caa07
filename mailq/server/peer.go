package server

import (
	"net/netip"
	"strconv"
)

// Peer is who is at the other end of a connection.
type Peer struct {
	// Addr is the address over TCP. The zero value: a UNIX socket.
	Addr netip.Addr
	// UID and User are the credentials on a UNIX socket. User is the name,
	// or "" if the system knows none.
	UID  int
	User string
}

func (p Peer) unix() bool { return !p.Addr.IsValid() }

// String is the address, or "uid 0".
func (p Peer) String() string {
	if p.unix() {
		return "uid " + strconv.Itoa(p.UID)
	}
	return p.Addr.Unmap().String()
}

// name is the user's, or "uid 0".
func (p Peer) name() string {
	if p.User != "" {
		return p.User
	}
	return p.String()
}

// addresses are those that the auth file is asked for: a UNIX peer is on this
// machine, and so counts as loopback of either family.
func (p Peer) addresses() []netip.Addr {
	if p.unix() {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return []netip.Addr{p.Addr.Unmap().WithZone("")}
}
