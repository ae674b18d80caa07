package server

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

func TestAddressLists(t *testing.T) {
	const (
		everybody = "127.0.0.1 10.1.2.3 255.255.255.255 ::1 2001:db8::1"
		nobody    = ""
	)
	tests := []struct{ list, accepts string }{
		{"", everybody},
		{"   ", everybody},
		{" [127.0.0.0]/8 [ipv6.0::1]/128", "127.0.0.1 ::1"},
		{" [0.0.0.0]/0   [ipv6.0::0]/0", everybody},
		{"[10.1.2.3]", "10.1.2.3"},
		{"[IPv6:2001:db8::1]", "2001:db8::1"},
		{"[iPV6.2001:db8::]/32", "2001:db8::1"},
		{"[10.1.2.99]/24", "10.1.2.3"},
		{"[0.0.0.0]/0", "127.0.0.1 10.1.2.3 255.255.255.255"},
		{"[ipv6.::]/0", "::1 2001:db8::1"},
		{"[10.0.0.0]/8,[127.0.0.1]", "127.0.0.1 10.1.2.3"},
		{"[10.0.0.0]/8[127.0.0.1]", "127.0.0.1 10.1.2.3"},
		{"junk [10.0.0.0]/8 junk", nobody},
		{"[10.0.0.0]/8\r", "10.1.2.3"},
		{"![10.0.0.0]/8 [0.0.0.0]/0", "127.0.0.1 255.255.255.255"},
		{"! [10.0.0.0]/8 [0.0.0.0]/0", "127.0.0.1 255.255.255.255"},
		{"[127.0.0.1] ![0.0.0.0]/0 [10.0.0.0]/8", "127.0.0.1"},
		// The old program held "!" in force for the next element too.
		{"![10.0.0.0]/8 [127.0.0.0]/8", "127.0.0.1"},
		{"![10.0.0.0]/8  [127.0.0.0]/8", "127.0.0.1"},
		{"![10.0.0.0]/8,[127.0.0.0]/8", "127.0.0.1"},
		// It let everybody of a family in for an address that is none.
		{"[localhost]", nobody},
		{"[]", nobody},
		{"[10.0.0]", nobody},
		{"[ipv6.localhost]", nobody},
		{"[ipv6.10.1.2.3]", nobody},
		{"[2001:db8::1]", nobody},
		{"[fe80::1%eth0]", nobody},
		{"[10.1.2.3", nobody},
		{"10.1.2.3", nobody},
		{"127.0.0.0/8 ::1", nobody},
		{"ALL", nobody},
		{"\t", nobody},
		{"\r", nobody},
		// Widths are in range.
		{"[10.1.2.3]/", nobody},
		{"[10.1.2.3]/33", nobody},
		{"[10.1.2.3]/-1", nobody},
		{"[10.1.2.3]/99999999999999999999", nobody},
		{"[ipv6.::1]/129", nobody},
		{"[10.1.2.3]/32", "10.1.2.3"},
		// What cannot be read accepts nobody.
		{"![10.0.0.0]/99 [0.0.0.0]/0", nobody},
		{"!10.0.0.0/8 [0.0.0.0]/0", nobody},
		{"[127.0.0.1] ![localhost] [0.0.0.0]/0", nobody},
		{"!", nobody},
		{"[0.0.0.0]/0 !", nobody},
	}
	for _, tt := range tests {
		list, err := parseAddresses(tt.list)
		var accepts []string
		for peer := range strings.FieldsSeq(everybody) {
			if list.accepts(netip.MustParseAddr(peer)) {
				accepts = append(accepts, peer)
			}
		}
		if got := strings.Join(accepts, " "); got != tt.accepts {
			t.Errorf("%q accepts %q, want %q", tt.list, got, tt.accepts)
		}
		if tt.accepts == nobody && err == nil {
			t.Errorf("%q: no problem was reported", tt.list)
		}
	}
	list, _ := parseAddresses("[10.0.0.0]/8")
	if !list.accepts(netip.MustParseAddr("::ffff:10.1.2.3")) {
		t.Error("an IPv4 address in IPv6's clothes is not IPv4")
	}
	list, _ = parseAddresses("[ipv6.::]/0")
	if list.accepts(netip.MustParseAddr("::ffff:10.1.2.3")) {
		t.Error("an IPv4 address in IPv6's clothes is IPv6")
	}
}

// refused expects that a peer is refused in the greeting.
func refused(t *testing.T, s *Server, peer Peer) {
	t.Helper()
	k := connect(t, s, peer)
	if a, b := k.line(), k.line(); a != mailq.GreetingV2 || b != "550 NO ACCESS FOR YOU" || !k.ends() {
		t.Errorf("%v: greeting %q, %q", peer, a, b)
	}
}

func TestStrangersAreTurnedAway(t *testing.T) {
	s := newServer(t, &fakeQueue{})
	path := authFile(t, "a:p:ALL:[10.0.0.0]/8\nb:p:SMTPIP NONE:\n")
	s.Configure(Settings{Version: 2, AuthFile: path, UID: daemonUID()})
	refused(t, s, loopback)
	refused(t, s, Peer{Addr: netip.MustParseAddr("2001:db8::1")})
	dial(t, s, Peer{Addr: netip.MustParseAddr("10.1.1.1")}).login("a", "p")
	dial(t, s, Peer{Addr: netip.MustParseAddr("::ffff:10.1.1.1")}).login("a", "p")
	s.Configure(Settings{Version: 2})
	refused(t, s, loopback)
}

func TestLoginIsExact(t *testing.T) {
	s := newServer(t, &fakeQueue{})
	k := dial(t, s, loopback)
	digest := mailq.Digest(k.challenge, "nobody")
	for _, c := range []struct{ give, want string }{
		{"AUTH nobody " + digest + " ", "-BAD USER OR PASSWORD"},
		{"AUTH nobody " + strings.ToUpper(digest), "-BAD USER OR PASSWORD"},
		{"AUTH nobody " + digest[:31], "-BAD USER OR PASSWORD"},
		{"AUTH nobody", "-BAD USER OR PASSWORD"},
		{"AUTH Nobody " + digest, "-BAD USER OR PASSWORD"},
		{"auth nobody " + digest, "-BAD; USER MUST AUTHENTICATE"},
		{"HELP", "-BAD; USER MUST AUTHENTICATE"},
		{"KILL MSG 1", "-BAD; USER MUST AUTHENTICATE"},
		{"JSON SHOW COUNTERS", "-BAD; USER MUST AUTHENTICATE"},
		{"AUTH  nobody\t" + digest, "+OK"},
	} {
		if got := k.reply(c.give); got != c.want {
			t.Errorf("%s: %s, want %s", c.give, got, c.want)
		}
	}
	// A login is good for its own challenge only.
	k2 := dial(t, s, loopback)
	if k2.challenge == k.challenge {
		t.Error("a challenge came twice")
	}
	if n := challengeNumber(t, k); challengeNumber(t, k2)-n <= 1000 {
		t.Errorf("challenges can be guessed: %q, then %q", k.challenge, k2.challenge)
	}
	if got := k2.reply("AUTH nobody " + digest); got != "-BAD USER OR PASSWORD" {
		t.Error(got)
	}
}

func TestGuessingEnds(t *testing.T) {
	k := dial(t, newServer(t, &fakeQueue{}), loopback)
	for range maxFailures {
		if r := k.reply("AUTH root 00"); r != "-BAD USER OR PASSWORD" {
			t.Error(r)
		}
	}
	if !k.ends() {
		t.Error("still open")
	}
}

func TestPeersOnUnixSocketsAreJudgedByCredentials(t *testing.T) {
	q := &fakeQueue{outcome: mailq.Outcome{Messages: 1}}
	var by mailq.Actor
	s := newServer(t, q, func(set *Settings) {
		set.Note = func(n Note) {
			if n.Kind == NoteOrder {
				by = n.Order.By
			}
		}
	})
	root, daemon, other := Peer{UID: 0, User: "root"}, Peer{UID: daemonUID()}, Peer{UID: 1000, User: "joe"}
	for _, peer := range []Peer{root, daemon} {
		k := dial(t, s, peer)
		if r := k.reply("HOLD MSG 1 BECAUSE of tests"); !strings.HasPrefix(r, "+OK") {
			t.Errorf("%v: %s", peer, r)
		}
		// What an old client says first changes nothing.
		if r := k.reply("AUTH nobody " + mailq.Digest(k.challenge, "nobody")); r != "+OK" {
			t.Errorf("%v: %s", peer, r)
		}
		if r := k.reply("RELEASE MSG 1"); !strings.HasPrefix(r, "+OK") {
			t.Errorf("%v: %s", peer, r)
		}
		if by.User != peer.name() || by.Peer != peer.String() {
			t.Errorf("%v: by %+v", peer, by)
		}
	}
	k := dial(t, s, other)
	if r := k.ask("SHOW QUEUE SHORT"); r[0] != mailq.Until {
		t.Errorf("another user, as nobody may: %s", r)
	}
	if r := k.reply("KILL MSG 1"); r != "-No KILL allowed for you." {
		t.Errorf("another user: %s", r)
	}
	k.login("nobody", "nobody")
	k.login("root", "zzzzzzz")
	if r := k.reply("HOLD MSG 1"); !strings.HasPrefix(r, "+OK") {
		t.Errorf("another user with a password: %s", r)
	}
	// Without an auth file there are credentials still.
	s.Configure(Settings{Version: 2, UID: daemonUID()})
	if r := dial(t, s, root).reply("HOLD MSG 1"); !strings.HasPrefix(r, "+OK") {
		t.Error(r)
	}
	refused(t, s, other)
	// A file that gives nobody nothing asks others for a password.
	s.Configure(Settings{Version: 2, UID: daemonUID(), AuthFile: authFile(t, "a:p:QQ:\nnobody:x:NONE:\n")})
	k = dial(t, s, other)
	if r := k.reply("SHOW QUEUE SHORT"); r != "-BAD; USER MUST AUTHENTICATE" {
		t.Error(r)
	}
	k.login("a", "p")
}

// Passwords cannot be tried by the thousand, from however many connections, and
// the reply does not say which users there are.
func TestGuessesAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeQueue{})
		begin := time.Now()
		const guesses = 100
		for i := range guesses {
			k := dial(t, s, loopback)
			user := []string{"root", "nobody", "no-such-user"}[i%3]
			if got := k.reply("AUTH " + user + " 00"); got != "-BAD USER OR PASSWORD" {
				t.Fatalf("%s: %s", user, got)
			}
			k.conn.Close()
			synctest.Wait()
		}
		if took, least := time.Since(begin), guesses*guessInterval; took < least {
			t.Errorf("%d guesses took %v, less than %v", guesses, took, least)
		}
		begin = time.Now()
		dial(t, s, loopback).login("nobody", "nobody") // does not wait
		if took := time.Since(begin); took > 0 {
			t.Errorf("a login took %v", took)
		}
	})
}

func TestEmptyPasswordAdmitsNobody(t *testing.T) {
	list, problems := parseAccounts("root::ALL:\nroot:x:SNMP:\n")
	if len(list) != 1 || list[0].password != "x" || len(problems) != 1 || !strings.Contains(problems[0].Error(), "password is empty") {
		t.Errorf("%d lines, problems %v", len(list), problems)
	}
}

// TestTotalsHaveNoReasonsForUsersWithoutTT: a reason may have an address in it.
func TestTotalsHaveNoReasonsForUsersWithoutTT(t *testing.T) {
	q := &fakeQueue{totals: mailq.Totals{Unloaded: mailq.Kept{Count: 1, Reason: "secret@far.example"}}}
	for rights, want := range map[string]bool{"SNMP QQ ETRN": false, "SNMP QQ TT ETRN": true} {
		s := newServer(t, q, func(set *Settings) { set.AuthFile = authFile(t, "nobody:nobody:"+rights+":\n") })
		c := against(t, s, Peer{UID: 1001})
		must(t, c.Login("nobody", "nobody"))
		for _, command := range []string{"SHOW SNMP", "SHOW QUEUE SHORT"} {
			var out strings.Builder
			must(t, printAnswer(c, &client.Printer{Out: &out, Now: time.Now()}, command))
			if !strings.Contains(out.String(), "not loaded") || strings.Contains(out.String(), "secret") != want {
				t.Errorf("%s, %s: %s", rights, command, &out)
			}
		}
		for totals, err := range client.Objects[mailq.Totals](c.Show("JSON SHOW SNMP")) {
			if err != nil || totals.Unloaded.Count != 1 || totals.Unloaded.Reason != "" != want {
				t.Errorf("%s: %+v, %v", rights, totals.Unloaded, err)
			}
		}
	}
}

// challengeNumber returns the last number of a challenge, which was a counter.
func challengeNumber(t *testing.T, k *testClient) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(k.challenge[strings.LastIndexByte(k.challenge, '.')+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
