package process

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// connected returns both ends of a connection to a listener of this process.
func connected(t *testing.T, network, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err) // no IPv6
	}
	t.Cleanup(func() { l.Close() })
	if client, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// A connection has the user of its other end, also after that end is closed.
func TestPeerUIDIsTheUserOfTheOtherEnd(t *testing.T) {
	client, server := connected(t, "unix", filepath.Join(t.TempDir(), "s"))
	for range 2 {
		if uid, err := PeerUID(server); err != nil || uid != os.Geteuid() {
			t.Errorf("uid %d, %v", uid, err)
		}
		client.Close()
	}
}

// Over TCP it has the one of the other end's socket, and none when that is closed: not root,
// whom the kernel names then.
func TestPeerUIDOverTCPIsTheUserOfTheOtherEnd(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			client, server := connected(t, "tcp", address)
			if uid, err := PeerUID(server); err != nil || uid != os.Geteuid() {
				t.Errorf("uid %d, %v", uid, err)
			}
			if os.Geteuid() == 0 {
				giveTo(t, client.(*net.TCPConn), 4711)
				if uid, err := PeerUID(server); err != nil || uid != 4711 {
					t.Errorf("uid %d of a user's socket, %v", uid, err)
				}
			}
			client.Close()
			if uid, err := PeerUID(server); err == nil {
				t.Errorf("uid %d of a closed socket", uid)
			}
		})
	}
}

// giveTo makes a socket a user's.
func giveTo(t *testing.T, conn *net.TCPConn, uid int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Fchown(int(fd), uid, -1) })
	if err != nil {
		t.Fatal(err)
	}
}

// A listener at the address of a connection that is gone is not its other end.
func TestPeerUIDIsNotThatOfAListener(t *testing.T) {
	client, server := connected(t, "tcp", "127.0.0.1:0")
	address := client.LocalAddr().String()
	_ = client.(*net.TCPConn).SetLinger(0) // a reset: its address is free at once
	client.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err) // another process has it
	}
	defer l.Close()
	if uid, err := PeerUID(server); err == nil {
		t.Errorf("uid %d of a listener", uid)
	}
}
