package process

// The user at the other end of a connection within this machine.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// PeerUID returns the uid of the process that made a connection on this machine: the
// credentials that the kernel recorded for a UNIX socket, or the owner of the other end of
// a TCP connection, which the kernel lists while that end is open. A client on another
// machine, and one that has closed its end, is an error.
func PeerUID(conn net.Conn) (int, error) {
	switch c := conn.(type) {
	case *net.UnixConn:
		return unixPeerUID(c)
	case *net.TCPConn:
		ours, ok := c.LocalAddr().(*net.TCPAddr)
		theirs, isTCP := c.RemoteAddr().(*net.TCPAddr)
		if ok && isTCP {
			return tcpPeerUID(theirs.AddrPort(), ours.AddrPort())
		}
	}
	return -1, fmt.Errorf("user of the peer: a %T has none", conn)
}

func unixPeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
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

// tcpPeerUID looks for the socket with these addresses in the kernel's tables. An IPv4
// connection is in the table of IPv6 if the client's socket is of that family.
func tcpPeerUID(from, to netip.AddrPort) (int, error) {
	from, to = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	tables := []string{"/proc/net/tcp6"}
	if from.Addr().Is4() {
		tables = []string{"/proc/net/tcp", "/proc/net/tcp6"}
	}
	for _, table := range tables {
		v6 := table == "/proc/net/tcp6"
		uid, err := findUID(table, procAddress(from, v6), procAddress(to, v6))
		if uid >= 0 || err != nil {
			return uid, err
		}
	}
	return -1, fmt.Errorf("user of the peer: no open socket %v is connected to %v on this machine", from, to)
}

// findUID returns the owner of the socket with these addresses in a table of sockets:
// proc_net_tcp(5). It returns -1 if there is none, or if no process has it open any more.
func findUID(table, local, remote string) (int, error) {
	f, err := os.Open(table)
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil // a system without IPv6
	}
	if err != nil {
		return -1, fmt.Errorf("user of the peer: %w", err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		// sl local remote st tx:rx tr:when retrnsmt uid timeout inode
		words := strings.Fields(in.Text())
		if len(words) >= 10 && words[1] == local && words[2] == remote && words[9] != "0" {
			return strconv.Atoi(words[7])
		}
	}
	return -1, in.Err()
}

// procAddress returns an address as a table of sockets has it: words of 32 bits in the
// machine's byte order, in hexadecimal.
func procAddress(a netip.AddrPort, v6 bool) string {
	address := a.Addr().AsSlice()
	if v6 {
		all := a.Addr().As16()
		address = all[:]
	}
	var text strings.Builder
	for ; len(address) > 0; address = address[4:] {
		fmt.Fprintf(&text, "%08X", binary.NativeEndian.Uint32(address))
	}
	return fmt.Sprintf("%s:%04X", text.String(), a.Port())
}
