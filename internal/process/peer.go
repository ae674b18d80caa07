package process

// The user at the other end of a UNIX socket.

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PeerUID returns the uid of the process that made a connection, which the kernel recorded
// then.
func PeerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("user of the peer: %w", err)
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return -1, fmt.Errorf("user of the peer: %w", err)
	}
	return int(peer.Uid), nil
}
