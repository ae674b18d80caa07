package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/internal/process"
	"zsched/mailq"
)

// daemonUID is the user that the server under test runs as: the owner of the test's
// files, or another user if that is root.
func daemonUID() int {
	if uid := os.Getuid(); uid != 0 {
		return uid
	}
	return 4711
}

func newServer(t *testing.T, q Queue, change ...func(*Settings)) *Server {
	t.Helper()
	set := Settings{Version: 2, AuthFile: authFile(t, users), UID: daemonUID()}
	for _, c := range change {
		c(&set)
	}
	return New(q, set)
}

func TestCommandsWithoutLoginEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, newServer(t, &fakeQueue{}), loopback)
		start := time.Now()
		for range maxFailures {
			if r := k.reply("NOOP"); r != "-BAD; USER MUST AUTHENTICATE" {
				t.Error(r)
			}
		}
		if !k.ends() || time.Since(start) > 0 {
			t.Errorf("open for %v more", time.Since(start))
		}
	})
}

// TestIdleCountsFromTheLastCommand: the old server closed every session 90
// seconds after its start.
func TestIdleCountsFromTheLastCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeQueue{})
		k := dial(t, s, loopback)
		k.login("nobody", "nobody")
		start := time.Now()
		for range 10 {
			time.Sleep(idleTimeout - time.Second)
			if r := k.reply("NOOP"); !strings.HasPrefix(r, "-MAILQ2") {
				t.Fatal(r)
			}
		}
		last := time.Now()
		if last.Sub(start) < 10*time.Minute {
			t.Fatal("no time passed")
		}
		if !k.ends() {
			t.Error("more than silence at the end")
		}
		if got := time.Since(last); got != idleTimeout {
			t.Errorf("closed after %v", got)
		}
	})
}

// TestDribblingIsIdling: bytes without a line end do not keep a session open.
func TestDribblingIsIdling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, newServer(t, &fakeQueue{}), loopback)
		start := time.Now()
		for range 1000 {
			if _, err := io.WriteString(k.conn, "S"); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		<-k.over
		if got := time.Since(start); got > idleTimeout+time.Second {
			t.Errorf("open for %v", got)
		}
	})
}

// TestReaderThatStopsIsLeft: the queue is not read on, and the session times out.
func TestReaderThatStopsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &endlessQueue{}
		s := newServer(t, q)
		k := dial(t, s, loopback)
		k.login("nobody", "nobody")
		k.send("SHOW QUEUE THREADS2\n")
		start := time.Now()
		<-k.over
		if got := time.Since(start); got != idleTimeout {
			t.Errorf("left after %v", got)
		}
		if q.given > 10000 {
			t.Errorf("%d threads taken for nobody", q.given)
		}
	})
}

func TestStopEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			newServer(t, &fakeQueue{}).Serve(ctx, server, loopback)
		}()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		<-over
		if got := time.Since(start); got > time.Second {
			t.Errorf("a session lasted %v after the end", got)
		}
	})
}

func TestLinesOfAClient(t *testing.T) {
	unknown := "-MAILQ2 Unknown command, or refused by access control; VERB='%s' REST='%s'"
	tests := []struct {
		name, send string
		answers    []string
	}{
		{"CRLF", "ETRN\r\n", []string{"+OK; an ETRN didn't start anything."}},
		{"CR anywhere", "E\rT\rRN\n", []string{"+OK; an ETRN didn't start anything."}},
		{"NUL ends the meaning", "ETRN\x00 SHOW SNMP\n", []string{"+OK; an ETRN didn't start anything."}},
		{"only NUL", "\x00ETRN\n", []string{fmt.Sprintf(unknown, "", "")}},
		{"empty", "\n", []string{fmt.Sprintf(unknown, "", "")}},
		{"blank first", " ETRN x\n", []string{fmt.Sprintf(unknown, "", "ETRN x")}},
		{"TAB between", "ETRN\t \tx\n", []string{"+OK; an ETRN didn't start anything."}},
		{"pipelined", "ETRN\nFOO\nETRN x\n", []string{
			"+OK; an ETRN didn't start anything.", fmt.Sprintf(unknown, "FOO", ""), "+OK; an ETRN didn't start anything."}},
		{"lower case", "etrn x\n", []string{fmt.Sprintf(unknown, "etrn", "x")}},
		{"bytes", "\xff\xfe\x01 \x7f\n", []string{fmt.Sprintf(unknown, "\xff\xfe\x01", "\x7f")}},
		{"again AUTH", "AUTH nobody x\n", []string{fmt.Sprintf(unknown, "AUTH", "nobody x")}},
		{"as long as may be", strings.Repeat("X", mailq.MaxLine) + "\r\n", []string{fmt.Sprintf(unknown, strings.Repeat("X", mailq.MaxLine), "")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := dial(t, newServer(t, &fakeQueue{}), loopback)
			k.login("nobody", "nobody")
			go func() { _, _ = io.WriteString(k.conn, tt.send+"QUIT\n") }()
			for _, want := range tt.answers {
				if got := k.line(); got != want {
					t.Errorf("got %.100q, want %.100q", got, want)
				}
			}
			if got := k.line(); got != "+Bye bye" {
				t.Errorf("then %.100q", got)
			}
		})
	}
}

// TestLongLinesEndTheSession: the old server took any length.
func TestLongLinesEndTheSession(t *testing.T) {
	for _, line := range []string{strings.Repeat("X", mailq.MaxLine+1) + "\n", strings.Repeat("X", 1<<20), strings.Repeat("\r", 1<<20) + "QUIT\n"} {
		var garbage error
		s := newServer(t, &fakeQueue{}, func(set *Settings) {
			set.Note = func(n Note) {
				if n.Kind == NoteGarbage {
					garbage = n.Err
				}
			}
		})
		other := dial(t, s, loopback)
		k := dial(t, s, loopback)
		go func() { _, _ = io.WriteString(k.conn, line) }()
		if !k.ends() {
			t.Errorf("%d bytes were answered", len(line))
		}
		<-k.over
		if !errors.Is(garbage, errLongLine) {
			t.Errorf("noted: %v", garbage)
		}
		other.login("nobody", "nobody")
	}
}

func TestEndOfFileEndsTheSession(t *testing.T) {
	q := &fakeQueue{}
	k := dial(t, newServer(t, q), loopback)
	k.login("root", "zzzzzzz")
	// What has no LF is no command.
	k.send("KILL MSG 1")
	k.conn.Close()
	<-k.over
	if len(q.orders) != 0 {
		t.Errorf("orders %v", q.orders)
	}
}

// TestBrokenListsEnd: a client that waits for the end of a list must get one, and must
// know that the list is not whole.
func TestBrokenListsEnd(t *testing.T) {
	ring := &mailq.Ring{ID: 1, Channel: "smtp", Host: "*"}
	whole := &fakeQueue{
		rows:   []threadRow{{Ring: ring, Thread: &mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: "a"}}}},
		jobs:   []*mailq.JobLine{{Name: mailq.Name{Channel: "smtp", Host: "a"}, Path: "1", Recipients: []mailq.Recipient{{Offset: 1}}}},
		broken: errors.New("the disk\nis gone"),
	}
	notes := 0
	k := dial(t, newServer(t, whole, func(s *Settings) { s.Note = func(Note) { notes++ } }), loopback)
	k.login("root", "zzzzzzz")
	for _, c := range []string{"SHOW QUEUE THREADS", "SHOW QUEUE SHORT", "SHOW THREAD smtp a"} {
		got := k.ask(c)
		if n := len(got); n < 3 || got[n-1] != "." || got[n-2] != mailq.Incomplete+"the disk is gone" {
			t.Errorf("%s: %q", c, got)
		}
		got = k.ask("JSON " + c)
		if n := len(got); n != 4 || got[2] != `{"error":"the disk\nis gone"}` {
			t.Errorf("JSON %s: %q", c, got)
		}
	}
	for _, c := range []string{"JSON SHOW COUNT reason", "JSON SHOW HELD"} {
		if got := k.reply(c); got != "-ERR; the disk is gone" {
			t.Errorf("%s: %q", c, got)
		}
	}
	if notes != 8 {
		t.Errorf("%d notes", notes)
	}
	k1 := connect(t, New(whole, Settings{Version: 1}), loopback)
	got, _ := io.ReadAll(k1.in)
	if text := string(got); !strings.Contains(text, "1:\t1\t1; 1\t#(") || !strings.HasSuffix(text, "\nEnd:\n"+mailq.Incomplete+"the disk is gone\n") {
		t.Errorf("v1: %q", text)
	}
}

// TestFaultEndsOneSession and no other.
func TestFaultEndsOneSession(t *testing.T) {
	var fault Note
	s := newServer(t, faulty{&fakeQueue{}}, func(set *Settings) { set.Note = func(n Note) { fault = n } })
	other := dial(t, s, loopback)
	k := dial(t, s, loopback)
	k.login("root", "zzzzzzz")
	k.send("KILL MSG 1\n")
	<-k.over
	if fault.Kind != NoteFault || fault.Err == nil {
		t.Errorf("note %+v", fault)
	}
	other.login("nobody", "nobody")
}

type faulty struct{ *fakeQueue }

func (faulty) Act(context.Context, mailq.Order) (mailq.Outcome, error) { panic("a fault") }

// The greeting names the postoffice to peers on this machine, and AUTH works with it.
func TestGreetingNamesThePostofficeToLocalPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newServer(t, &fakeQueue{}, func(set *Settings) { set.Postoffice = dir })
		for peer, want := range map[Peer]string{
			loopback: dir, {UID: daemonUID()}: dir, {Addr: netip.MustParseAddr("192.0.2.1")}: "",
		} {
			k := dial(t, s, peer)
			if strings.HasSuffix(k.challenge, " POSTOFFICE "+process.Identity(dir)) != (want != "") {
				t.Errorf("%v is told %s", peer, k.challenge)
			}
			if peer == loopback {
				k.login("nobody", "nobody")
			}
			k.conn.Close()
		}
	})
}
