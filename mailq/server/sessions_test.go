package server

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
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

func TestTwentySessionsAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused := countFull(t)
		var open []*testClient
		for i := range maxOrdinary {
			k := dial(t, s, address(i%2+1))
			k.login("nobody", "nobody")
			open = append(open, k)
		}
		// Another peer takes the place of one of those that have the most.
		dial(t, s, address(3)).login("nobody", "nobody")
		open[0], open = open[2], open[2:]
		for _, peer := range []Peer{address(1), address(2)} {
			k := dial(t, s, peer)
			r := k.reply("AUTH nobody " + mailq.Digest(k.challenge, "nobody"))
			if r != "-BAD; TOO MANY SESSIONS" || !k.ends() {
				t.Errorf("a login beyond the limit: %q", r)
			}
		}
		if len(*refused) != 2 {
			t.Errorf("%d notes of too many sessions", len(*refused))
		}
		if r := open[0].reply("QUIT"); r != "+Bye bye" {
			t.Errorf("QUIT: %q", r)
		}
		<-open[0].over
		k := dial(t, s, loopback)
		if r := k.reply("exit"); r != "+Bye bye" || !k.ends() {
			t.Errorf("a session in the place that became free: %q", r)
		}
	})
}

// TestSilentStrangersKeepNobodyOut: twenty connections that never log in took
// every session for 90 seconds.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused := countFull(t)
		var strangers []*testClient
		for i := range maxSessions {
			strangers = append(strangers, dial(t, s, address(i+1)))
		}
		start := time.Now()
		k := dial(t, s, address(100))
		k.login("nobody", "nobody")
		if time.Since(start) > 0 {
			t.Errorf("a user waited for %v", time.Since(start))
		}
		if !strangers[0].ends() || strings.Join(*refused, " ") != "192.0.2.1" {
			t.Errorf("the oldest stranger is not closed; refused: %q", *refused)
		}
		<-strangers[0].over
		if n := s.sessions.count(); n != maxSessions {
			t.Errorf("%d sessions", n)
		}
		// More strangers push out strangers, not the user.
		for i := range 2 * maxSessions {
			dial(t, s, address(101+i))
		}
		if r := k.reply("ETRN"); r != "+OK; an ETRN didn't start anything." {
			t.Error(r)
		}
	})
}

// TestOneAddressPushesOutItself: many connections from one address do not close
// the one of another.
func TestOneAddressPushesOutItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused := countFull(t)
		k := dial(t, s, address(100))
		for range 3 * maxSessions {
			dial(t, s, address(1))
		}
		k.login("nobody", "nobody")
		for _, peer := range *refused {
			if peer != "192.0.2.1" {
				t.Errorf("refused: %s", peer)
			}
		}
		if len(*refused) != 2*maxSessions+1 {
			t.Errorf("%d refused", len(*refused))
		}
	})
}

// TestUsersWithoutKillLeavePlaces: users who log in as nobody again and again do not
// keep out one who may give orders, even from the same address.
func TestUsersWithoutKillLeavePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeQueue{}, func(set *Settings) {
			set.AuthFile = authFile(t, "nobody:nobody:TT ETRN:\npostmaster:secret:ALL:\n")
		})
		for range 3 * maxSessions {
			k := dial(t, s, loopback)
			k.reply("AUTH nobody " + mailq.Digest(k.challenge, "nobody"))
		}
		dial(t, s, loopback).login("postmaster", "secret")
	})
}

// TestIdleUsersGiveWay: users who log in and then say nothing keep nobody out
// for long. One who gives commands stays.
func TestIdleUsersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := countFull(t)
		var users []*testClient
		for range maxOrdinaryOfPeer {
			k := dial(t, s, loopback)
			k.login("nobody", "nobody")
			users = append(users, k)
		}
		time.Sleep(stallTime)
		users[0].reply("ETRN")
		dial(t, s, loopback).login("nobody", "nobody")
		if !users[1].ends() {
			t.Error("the oldest idle session is not closed")
		}
		users[0].reply("ETRN")
	})
}

// TestRootHasPlacesOfHisOwn: whoever takes the other sessions does not keep the
// administrator out.
func TestRootHasPlacesOfHisOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := countFull(t)
		for range maxOrdinaryOfPeer {
			dial(t, s, loopback).login("nobody", "nobody")
		}
		for range 2*maxSessions - maxOrdinaryOfPeer {
			dial(t, s, Peer{UID: 0})
		}
		start := time.Now()
		if k := connect(t, s, Peer{UID: 0}); !k.ends() || time.Since(start) > 0 {
			t.Error("the number of root's sessions is not limited")
		}
	})
}

// TestOneUserKeepsNobodyOut: a local user who has busy sessions on the UNIX socket and from
// several addresses of the loopback network does not keep other users out.
func TestOneUserKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused := countFull(t)
		fromLoopback := func(n int) *testClient { return dial(t, s, Peer{Addr: netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})}) }
		for i := range maxOrdinaryOfPeer {
			dial(t, s, Peer{UID: 1001})
			fromLoopback(i+1).login("nobody", "nobody")
		}
		dial(t, s, Peer{UID: 1001})
		k := fromLoopback(maxOrdinaryOfPeer + 1)
		k.reply("AUTH nobody " + mailq.Digest(k.challenge, "nobody"))
		if want := fmt.Sprint("uid 1001 127.0.0.", maxOrdinaryOfPeer+1); strings.Join(*refused, " ") != want {
			t.Errorf("refused: %q, want %q", *refused, want)
		}
		for _, peer := range []Peer{{UID: 1002}, address(1)} {
			dial(t, s, peer).login("nobody", "nobody")
		}
	})
}
