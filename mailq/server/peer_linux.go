package server

import (
	"errors"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"syscall"
)

// PeerOf says who is at the other end of an accepted connection: the address
// over TCP, over a UNIX socket the credentials that the kernel noted at
// connect.
func PeerOf(conn net.Conn) (Peer, error) {
	switch c := conn.(type) {
	case *net.TCPConn:
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			return Peer{Addr: a.AddrPort().Addr().Unmap()}, nil
		}
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return Peer{}, fmt.Errorf("credentials of the peer: %w", err)
		}
		var cred *syscall.Ucred
		var failed error
		err = raw.Control(func(fd uintptr) {
			cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
		if err = errors.Join(err, failed); err != nil {
			return Peer{}, fmt.Errorf("credentials of the peer: %w", err)
		}
		p := Peer{UID: int(cred.Uid)}
		if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
			p.User = u.Username
		}
		return p, nil
	}
	return Peer{}, fmt.Errorf("a %T has no peer that could be judged", conn)
}
