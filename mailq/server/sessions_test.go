package server

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"zsched/internal/process"
)

// address returns a peer whose address ends in n. It counts from 1.
func address(n int) Peer {
	return Peer{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})}
}

// countFull returns a server and the addresses that its notes of too many
// sessions name.
func countFull(t *testing.T) (*Server, *[]string) {
	t.Helper()
	refused := new([]string)
	return newServer(t, &fakeQueue{}, func(set *Settings) {
		set.Note = func(n Note) {
			if n.Kind == NoteFull {
				*refused = append(*refused, n.Peer)
			}
		}
	}), refused
}

// User 1000 has the uids from 50000 to 50999.
func init() { process.SubuidFile = "../../internal/process/testdata/subuid" }

// TestOnePeerKeepsNobodyOut: a peer, be it an address or a local user with all uids, or all addresses
// of the loopback network, has a quarter of the sessions at most.
func TestOnePeerKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused := countFull(t)
		for i := range maxOfPeer {
			dial(t, s, Peer{UID: 50000 + i})
			dial(t, s, address(1))
			dial(t, s, loopback)
		}
		for _, peer := range []Peer{{UID: 1000}, address(1), {Addr: netip.MustParseAddr("127.0.0.9")}} {
			if k := connect(t, s, peer); !k.ends() {
				t.Errorf("%v has more sessions", peer)
			}
		}
		if len(*refused) != 3 {
			t.Errorf("refused: %q", *refused)
		}
		k := dial(t, s, address(2))
		k.login("nobody", "nobody")
		if r := k.reply("QUIT"); r != "+Bye bye" {
			t.Error(r)
		}
		<-k.over
	})
}

// TestSessionsAreLimited: also where each peer has one. Root and the server's own user have places of their own.
func TestSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := countFull(t)
		for i := range maxSessions {
			dial(t, s, address(i+1))
		}
		if k := connect(t, s, address(100)); !k.ends() {
			t.Error("there is no limit")
		}
		for range maxSessions {
			dial(t, s, Peer{UID: 0})
		}
		if k := connect(t, s, Peer{UID: 0}); !k.ends() {
			t.Error("the number of root's sessions is not limited")
		}
	})
}

// TestSilentStrangersAreLeft: who does not log in makes room soon.
func TestSilentStrangersAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := countFull(t)
		for i := range maxSessions {
			dial(t, s, address(i+1))
		}
		time.Sleep(loginTimeout + time.Second)
		dial(t, s, address(1)).login("nobody", "nobody")
		s.sessions.mu.Lock()
		defer s.sessions.mu.Unlock()
		if n := s.sessions.all; n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}
