package process

// Peers: who is at the other end of a connection on this machine.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeerUID returns the uid of the process at the other end of a connection on this machine.
// At a UNIX socket the kernel recorded it when the connection was made. Over TCP it is that of
// the process's socket, which must not be closed yet.
func PeerUID(conn net.Conn) (uid int, err error) {
	own, ok1 := conn.LocalAddr().(*net.TCPAddr)
	peer, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	unixConn, ok3 := conn.(*net.UnixConn)
	switch {
	case ok1 && ok2:
		uid, err = socketUID(unmapped(peer), unmapped(own))
	case ok3:
		uid, err = unixPeerUID(unixConn)
	default:
		err = fmt.Errorf("a %T has none", conn)
	}
	if err != nil {
		return -1, fmt.Errorf("user of the peer: %w", err)
	}
	return uid, nil
}

func unmapped(a *net.TCPAddr) netip.AddrPort {
	at := a.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func unixPeerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return -1, err
	}
	return int(peer.Uid), nil
}

// These are the structures of sock_diag(7), with the header of netlink(7). Numbers are in the
// machine's byte order, addresses and ports in the network's.
type (
	// tcpSocket is struct inet_diag_sockid.
	tcpSocket struct {
		Port, PeerPort       [2]byte
		Address, PeerAddress [16]byte // IPv4: the first 4 bytes
		Interface            uint32
		Cookie               [2]uint32
	}
	// socketRequest is struct inet_diag_req_v2.
	socketRequest struct {
		Header                                unix.NlMsghdr
		Family, Protocol, Extensions, Padding uint8
		States                                uint32
		Socket                                tcpSocket
	}
	// socketReply is struct inet_diag_msg, without the attributes that follow it.
	socketReply struct {
		Header                            unix.NlMsghdr
		Family, State, Timer, Retransmits uint8
		Socket                            tcpSocket
		Expires, ReadQueue, WriteQueue    uint32
		UID, Inode                        uint32
	}
)

// anyCookie is INET_DIAG_NOCOOKIE.
const anyCookie = 0xffffffff

// socketUID returns the uid of a process's TCP socket on this machine, by its own address and
// that of its peer. The kernel finds it without a search through all sockets.
func socketUID(own, peer netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	request := socketRequest{
		Header: unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST},
		Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: 0xffffffff,
		Socket: tcpSocket{Cookie: [2]uint32{anyCookie, anyCookie}},
	}
	if own.Addr().Is4() {
		request.Family = unix.AF_INET
	}
	copy(request.Socket.Address[:], own.Addr().AsSlice())
	copy(request.Socket.PeerAddress[:], peer.Addr().AsSlice())
	binary.BigEndian.PutUint16(request.Socket.Port[:], own.Port())
	binary.BigEndian.PutUint16(request.Socket.PeerPort[:], peer.Port())
	request.Header.Len = uint32(binary.Size(request))
	message, _ := binary.Append(nil, binary.NativeEndian, request)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return -1, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT) // the kernel answers before Sendto returns
	if err != nil {
		return -1, err
	}
	var reply socketReply
	_, err = binary.Decode(answer[:n], binary.NativeEndian, &reply)
	// Where the connection is gone, the kernel may find a listener, which has no peer. A socket
	// without an inode belongs to no process any more, and its uid says nothing.
	if err != nil || reply.Header.Type != unix.SOCK_DIAG_BY_FAMILY || reply.Inode == 0 ||
		reply.Socket.Port != request.Socket.Port || reply.Socket.PeerPort != request.Socket.PeerPort {
		return -1, fmt.Errorf("no process has a socket %v with the peer %v", own, peer)
	}
	return int(reply.UID), nil
}

// AwaitHangup returns nil once the process at the other end of a connection has closed it; one that
// has only ended what it sends has not. Over TCP, that shows when a probe (SO_KEEPALIVE) fails. The
// error is that of a read that cannot begin or whose deadline has passed. Nothing is read.
func AwaitHangup(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { // called at first, and whenever something has happened
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0)
		return n > 0
	})
}
