package smtpserver

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"
)

// Where all sessions are taken, the block that has most gives the one that was idle longest to
// another block.
func TestIdleSessionMakesRoom(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSessions = 4 })
	s.roundTrip = 0
	hello := func(address string) *dialog {
		d := s.dialFrom(address)
		d.say("EHLO x", "250 ")
		return d
	}
	begun, first, second, other := hello("127.1.2.9"), hello("127.1.2.10"), hello("127.1.2.11"), hello("127.1.3.9")
	s.awaitIdle(4) // otherwise one that has its reply may count as idle later than one that speaks again
	begun.say("MAIL FROM:<a@far.example>", "250 ")
	begun.say("RCPT TO:<b@ours.example>", "250 ")
	begun.say("DATA", "354 ")
	second.say("NOOP", "250 ")
	begun.send("x\r\n")
	s.awaitIdle(4)
	newcomer := hello("127.1.4.9") // there are 3, 1 and 0 sessions
	first.expect("421 4.3.2")
	first.ended()
	begun.send(".\r\n")
	begun.expect("250 ")
	s.awaitIdle(4)
	last := hello("127.1.5.9") // there are 2, 1, 1 and 0 sessions
	second.expect("421 4.3.2")
	s.awaitIdle(4)
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 3, 10)}}).Dial("tcp", s.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	newDialog(t, conn).expect("421 4.3.2") // its block has as many as each other
	for _, d := range []*dialog{begun, other, newcomer, last} {
		d.say("NOOP", "250 ")
	}
	if c := s.Counts(); c.Open != 4 || c.Refused["idle"] != 2 || c.Refused["sessions"] != 1 {
		t.Errorf("%+v", c)
	}
}

// Clients of many blocks that send a byte again and again keep no other client out: the one that
// has gone longest without a message gives way.
func TestSessionThatSendsNoMessageMakesRoom(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSessions = 3 })
	s.roundTrip = time.Hour
	hello := func(block int) *dialog {
		d := s.dialFrom(fmt.Sprintf("127.1.%d.9", block))
		d.say("EHLO x", "250 ")
		return d
	}
	message := func(d *dialog) {
		d.say("MAIL FROM:<a@far.example>", "250 ")
		d.say("RCPT TO:<b@ours.example>", "250 ")
		d.say("DATA", "354 ")
		d.say("x\r\n.", "250 ")
	}
	sender, drip, second := hello(1), hello(2), hello(3)
	message(sender)
	drip.say("NOOP", "250 ")
	s.awaitIdle(3)
	newcomer := hello(4)
	drip.expect("421 4.3.2")
	s.awaitIdle(3)
	hello(5)
	second.expect("421 4.3.2")
	message(newcomer)
	message(sender)
}

// Users of this machine have half of the sessions together. The one who has most gives one to
// another user.
func TestIdleSessionOfAUserMakesRoomForAnother(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSessions = 6 })
	enter := func(user string) (*session, bool) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		one := newSession(s.Server, ours, SMTP)
		one.client.block = user
		one.waitsSince.Store(int64(len(s.sessions) + 1))
		ok := s.enter(one)
		if ok {
			t.Cleanup(func() { s.leave(one) })
		}
		return one, ok
	}
	first, _ := enter("uid:1")
	_, _ = enter("uid:1")
	_, _ = enter("uid:1")
	if _, ok := enter("uid:1"); ok {
		t.Error("a user has more than half of the sessions")
	}
	if _, ok := enter("uid:2"); !ok || s.sessions[first] || s.local != 3 {
		t.Errorf("another user comes in: %v; the idlest session is there: %v; %d of this machine", ok, s.sessions[first], s.local)
	}
}

// awaitIdle returns when so many sessions wait for their clients.
func (s *started) awaitIdle(number int) {
	for idle := 0; idle < number; runtime.Gosched() {
		idle = 0
		s.mu.Lock()
		for c := range s.sessions {
			if c.waitsSince.Load() != 0 {
				idle++
			}
		}
		s.mu.Unlock()
	}
}

// A client with TLS from the start that gets no session is counted, although nothing can be said to it.
func TestRefusedSessionWithTLSIsCounted(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSessions = 1 })
	s.dial()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go s.Serve(l, SMTPS)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	newDialog(t, conn).ended()
	if c := s.Counts(); c.Open != 1 || c.Refused["sessions"] != 1 {
		t.Errorf("%+v", c)
	}
}
