package process

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// A connection within this machine has the user of its other end, on each kind of socket,
// until that end is closed.
func TestPeerUIDIsTheUserOfTheOtherEnd(t *testing.T) {
	for _, at := range [][2]string{
		{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"tcp", "[::]:0"}, {"unix", filepath.Join(t.TempDir(), "s")},
	} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Logf("%s is not tried: %v", at[1], err)
			continue
		}
		defer l.Close()
		to := l.Addr().String()
		if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(a.Port)).String()
		}
		client, err := net.Dial(at[0], to)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if uid, err := PeerUID(server); err != nil || uid != os.Geteuid() {
			t.Errorf("%v: uid %d, %v", at, uid, err)
		}
		client.Close()
		if uid, err := PeerUID(server); at[0] == "tcp" && err == nil {
			t.Errorf("%v: a closed client has uid %d", at, uid)
		}
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if uid, err := PeerUID(a); err == nil {
		t.Errorf("a pipe has uid %d", uid)
	}
}
