package server

import (
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

func TestPeerOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range [][2]string{{"unix", path}, {"tcp", "127.0.0.1:0"}} {
		l, err := net.Listen(at[0], at[1])
		must(t, err)
		defer l.Close()
		client, err := net.Dial(at[0], l.Addr().String())
		must(t, err)
		defer client.Close()
		server, err := l.Accept()
		must(t, err)
		defer server.Close()
		peer, err := PeerOf(server)
		must(t, err)
		want := Peer{Addr: loopback.Addr}
		if at[0] == "unix" {
			want = Peer{UID: os.Getuid()}
			if u, err := user.LookupId(strconv.Itoa(want.UID)); err == nil {
				want.User = u.Username
			}
		}
		if peer != want {
			t.Errorf("%s: %+v, want %+v", at[0], peer, want)
		}
	}
	one, other := net.Pipe()
	defer other.Close()
	if _, err := PeerOf(one); err == nil {
		t.Error("a pipe has a peer")
	}
}
