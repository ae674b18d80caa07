package xfer

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/xfer"
)

// TestBothNodesNeedTheSameVersion: the agent defers mail to a node of another version, and
// says what to do; the receiver refuses a node of another version with a temporary reply.
func TestBothNodesNeedTheSameVersion(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1)
	listener, err := net.Listen("unix", p.socket)
	check(t, err)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(conn, "220 mx2 xfer 2\n")
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	const want = "has version 2 of the protocol xfer and this node has version 3: mail waits here until both nodes have the same version of these programs"
	if said := p.run(); !strings.Contains(said, "deferall no connection to node mx2: it "+want) {
		t.Errorf("the agent says\n%s", said)
	}
	listener.Close()
	if said, want := p.say("LHLO mx1 xfer 2\n"), "451 0 mx1 "+want+"\n"; said != want {
		t.Errorf("the receiver says %q, not %q", said, want)
	}
}

// say starts the receiver, sends it a text, and returns the answers after the greeting.
func (p *pair) say(lines string) string {
	p.t.Helper()
	stop, err := p.serve()
	check(p.t, err)
	defer stop()
	conn, err := net.Dial("unix", p.socket)
	check(p.t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, lines)
	check(p.t, err)
	said, err := io.ReadAll(conn)
	check(p.t, err)
	_, after, _ := strings.Cut(string(said), "\n")
	return after
}

// TestBadLineEndsTheConnection: what the receiver does not understand is answered with a
// clear error, and what it understands but cannot take is refused.
func TestBadLineEndsTheConnection(t *testing.T) {
	for lines, want := range map[string]string{
		"HELO mx1\n":                                            `550 0 "HELO mx1" instead of LHLO: not a line of the protocol`,
		"LHLO mx7 xfer 3\n":                                     `451 0 this node does not take mail from "mx7", which is not in the table of nodes`,
		"LHLO mx1 xfer 3\nDONE mx1/S1A 5\n":                     "250 mx2\n" + `550 0 "DONE mx1/S1A 5": not a line of the protocol`,
		"LHLO mx1 xfer 3\nPUSH 1 3 4 5\nabcdefgQUIT\n":          "250 mx2\n550 1 ",
		"LHLO mx1 xfer 3\n" + strings.Repeat("x", xfer.MaxLine): "250 mx2\n550 0 a line of more than 4096 bytes, which begins with ",
		"LHLO mx1 xfer 3\n" + pushed() + "QUIT\n":               "250 mx2\n550 2 recipient at ",
	} {
		p := newPair(t, t.TempDir(), t.TempDir())
		if said := p.say(lines); !strings.HasPrefix(said, want) {
			t.Errorf("to %.100q it says %q", lines, said)
		}
		if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n != 0 {
			t.Errorf("%.100q: %d messages have arrived", lines, n)
		}
	}
}

// pushed is the push of a message whose recipient has no origin.
func pushed() string {
	control, message := "i 1\no 1\ns smtp - a@x 0\nr           xfer mx2 b@x 0\nm\nSubject: x\n\n", "\nbody\n"
	push := xfer.Push{Tag: 2, Control: int64(len(control)), Message: int64(len(message))}
	return push.String() + "\n" + control + message
}

// TestRepeatedPushIsTakenOnceForAWeek: also after the receiver has been started again; after a
// week its record is gone.
func TestRepeatedPushIsTakenOnceForAWeek(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(2)
	before := map[string][]byte{}
	for _, path := range controlFiles(filepath.Join(p.source, "transport"), "") {
		text, err := os.ReadFile(filepath.Join(p.source, "transport", path))
		check(t, err)
		before[path] = text
	}
	record := filepath.Join(p.target, "transport/.xfer/taken")
	for _, c := range []struct {
		age  time.Duration // of the record
		want int           // messages at the target
	}{{0, 1}, {0, 1}, {6 * 24 * time.Hour, 1}, {8 * 24 * time.Hour, 2}} {
		if text, err := os.ReadFile(record); err == nil {
			at := strconv.FormatInt(time.Now().Add(-c.age).Unix(), 10)
			check(t, os.WriteFile(record, regexp.MustCompile(`(?m)^\d+`).ReplaceAll(text, []byte(at)), 0o600))
		}
		for path, text := range before { // as if the answer had been lost
			check(t, os.WriteFile(filepath.Join(p.source, "transport", path), text, 0o660))
		}
		stop, err := p.serve()
		check(t, err)
		if said := p.run(); strings.Count(said, "\tok3 moved to mx2") != 2 {
			t.Errorf("the agent says\n%s", said)
		}
		stop()
		if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n != c.want {
			t.Errorf("a record of %v: %d messages, want %d", c.age, n, c.want)
		}
	}
}

// TestMailWithoutAnOriginIsNotMoved: a route to channel xfer says nothing about where a
// recipient is to go.
func TestMailWithoutAnOriginIsNotMoved(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1)
	for _, path := range controlFiles(filepath.Join(p.source, "transport"), "") {
		file := filepath.Join(p.source, "transport", path)
		text, err := os.ReadFile(file)
		check(t, err)
		check(t, os.WriteFile(file, regexp.MustCompile(`(?m)^O .*\n`).ReplaceAll(text, nil), 0o660))
	}
	stop, err := p.serve()
	check(t, err)
	defer stop()
	if said := p.run(); !strings.Contains(said, "deferred mail is moved with mailq move, not by a route to channel "+ctlfile.TransferChannel) {
		t.Errorf("the agent says\n%s", said)
	}
}
