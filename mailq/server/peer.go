package server

// Peers: who a client is.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"zsched/internal/process"
)

// Peer is the other end of a connection: an address over TCP, or the credentials
// of a process on a UNIX socket.
type Peer struct {
	// Addr is the address over TCP. The zero value means a UNIX socket.
	Addr netip.Addr
	// UID and User are the credentials on a UNIX socket. User is the name, or ""
	// if the system has no name for UID.
	UID  int
	User string
}

// PeerOf returns the peer of an accepted connection. Over a UNIX socket its
// credentials are those that the kernel recorded when the peer connected.
func PeerOf(conn net.Conn) (Peer, error) {
	switch c := conn.(type) {
	case *net.TCPConn:
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			return Peer{Addr: a.AddrPort().Addr().Unmap()}, nil
		}
	case *net.UnixConn:
		uid, err := process.PeerUID(c)
		if err != nil {
			return Peer{}, err
		}
		p := Peer{UID: uid}
		if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
			p.User = u.Username
		}
		return p, nil
	}
	return Peer{}, fmt.Errorf("a %T has neither an address nor credentials", conn)
}

func (p Peer) unix() bool { return !p.Addr.IsValid() }

// String returns the address, or "uid 0".
func (p Peer) String() string {
	if p.unix() {
		return "uid " + strconv.Itoa(p.UID)
	}
	return p.Addr.Unmap().String()
}

// group returns what counts as one peer where peers have a part of the sessions. A local
// user has all addresses of the loopback network, and perhaps subordinate uids.
func (p Peer) group() string {
	if p.Addr.IsLoopback() {
		return "loopback"
	}
	p.UID = process.UserOf(p.UID)
	return p.String()
}

// name returns the user's name, or "uid 0".
func (p Peer) name() string {
	if p.User != "" {
		return p.User
	}
	return p.String()
}

// whileConnected returns a context that is done when the peer has closed the connection, also if
// nothing is written to it. Until stop is called, nobody else may read from the connection.
func whileConnected(ctx context.Context, conn net.Conn) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return ctx, cancel
	}
	_ = conn.SetReadDeadline(time.Time{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		if process.AwaitHangup(socket) == nil {
			cancel()
		}
	}()
	return ctx, func() {
		_ = conn.SetReadDeadline(time.Now())
		<-over
		cancel()
	}
}

// addresses returns the addresses to look for in the auth file. A peer on a UNIX
// socket is on this host, so it counts as the loopback address of both families.
func (p Peer) addresses() []netip.Addr {
	if p.unix() {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return []netip.Addr{p.Addr.Unmap().WithZone("")}
}
