package process

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A connection has the user of its other end, also after that end is closed.
func TestPeerUIDIsTheUserOfTheOtherEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for range 2 {
		if uid, err := PeerUID(server.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
			t.Errorf("uid %d, %v", uid, err)
		}
		client.Close()
	}
}
