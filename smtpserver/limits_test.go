package smtpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/header"
	"zsched/internal/logs"
	"zsched/internal/process"
)

func TestEndlessLinesAreNotKept(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	go io.WriteString(d.conn, "EHLO "+strings.Repeat("x", 1<<20))
	d.expect("500 5.5.2")

	d = s.dial()
	begin(d)
	d.say("DATA", "354 ")
	d.send(strings.Repeat("x", 1<<20) + "\r\n.\r\n")
	d.expect("552 5.6.0")
	d.say("NOOP", "250 ")
	s.nothingLeft()
}

func TestMillionRecipientsEndTheSession(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxRecipients = 50 })
	for _, d := range []*dialog{s.dial(), s.stranger()} {
		d.say("EHLO x.example", "250 ")
		d.say("MAIL FROM:<a@far.example>", "250 ")
		go func() {
			for i := range 1000000 {
				if _, err := io.WriteString(d.conn, "RCPT TO:<b"+strconv.Itoa(i)+"@elsewhere.example>\r\n"); err != nil {
					return
				}
			}
		}()
		replies := 0
		for d.reply() != "" {
			replies++
		}
		if replies > 300 {
			t.Errorf("%d replies", replies)
		}
	}
	if e := &s.envelopes; e.total < 0 || e.total > 50*1000 {
		t.Errorf("%d bytes of envelopes", e.total)
	}
}

// Strangers who name recipients without end leave memory for those of another address block, and
// for a message to one recipient from their own.
func TestRecipientsLeaveMemoryToOthers(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxRecipients = 100000 })
	begun := func(address string) *dialog {
		d := s.dialFrom(address)
		d.say("EHLO x.example", "250 ")
		d.say("MAIL FROM:<a@far.example>", "250 ")
		return d
	}
	long := "RCPT TO:<" + strings.Repeat("b", 900) + "@ours.example>"
	accepted := func(d *dialog) (n int) {
		for ; ; n++ {
			d.send(long + "\r\n")
			if reply := d.reply(); !strings.HasPrefix(reply, "250 ") {
				if !strings.HasPrefix(reply, "452 4.5.3 ") {
					t.Fatalf("reply %q", reply)
				}
				return n
			}
		}
	}
	attacker, neighbour, other := begun("127.1.2.9"), begun("127.1.2.10"), begun("127.1.3.9")
	most := accepted(attacker)
	neighbour.say(long, "250 ")
	neighbour.say(long, "452 4.5.3")
	if n := accepted(other); n < most/3 || n > most {
		t.Errorf("the other block may have %d recipients, and the attacker has %d", n, most)
	}
	attacker.say("RSET", "250 ")
	neighbour.say(long, "250 ")
	for _, d := range []*dialog{attacker, neighbour, other} {
		d.say("QUIT", "221 ")
		d.ended()
	}
	if e := &s.envelopes; e.total != 0 || len(e.held) != 0 {
		t.Errorf("%d bytes are held at the end, %v", e.total, e.held)
	}
}

func TestNonsenseEndsTheSession(t *testing.T) {
	s := start(t, nil)
	for _, line := range []string{"NOOP", "FOO BAR", "\x00\x01\x02", "VRFY <a@ours.example>", "XCLIENT", "ETRN"} {
		d := s.dial()
		go io.WriteString(d.conn, strings.Repeat(line+"\r\n", 2*Default().MaxRecipients))
		replies := 0
		for d.reply() != "" {
			replies++
		}
		if replies > Default().MaxRecipients+extraCommands+1 {
			t.Errorf("%q: %d replies", line, replies)
		}
	}
}

func TestSlowMessageTimesOut(t *testing.T) {
	s := start(t, func(o *Options) { o.DataTimeout = 20 * time.Millisecond })
	d := s.dial()
	begin(d)
	d.say("DATA", "354 ")
	d.send("x")
	d.expect("421 4.4.2")
	s.nothingLeft()
}

func TestSilentClientTimesOut(t *testing.T) {
	s := start(t, func(o *Options) { o.CommandTimeout = 20 * time.Millisecond })
	s.dial().expect("421 4.4.2")
	s = start(t, func(o *Options) { o.SessionTimeout = 20 * time.Millisecond })
	s.dial().expect("421 4.4.2")
}

func TestSessionsAreLimited(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"of this machine": func(o *Options) { o.MaxSessions = 4 },
		"from an address": func(o *Options) { o.MaxFromAddress, o.Networks = 2, nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, change)
			first := s.dial()
			s.dial()
			conn, err := net.Dial("tcp", s.l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(line, "421 4.3.2 ") {
				t.Errorf("reply %q", line)
			}
			first.say("QUIT", "221 ")
			first.ended()
			for line := ""; !strings.HasPrefix(line, "220 "); { // the session ends soon
				conn, err := net.Dial("tcp", s.l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				line, _ = bufio.NewReader(conn).ReadString('\n')
			}
		})
	}
}

func TestLocalClientsLeaveHalfOfTheSessionsToOthers(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSessions = 4 })
	for i, c := range []struct{ local, want bool }{{true, true}, {true, true}, {true, false}, {false, true}, {false, true}, {false, false}} {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		var conn net.Conn = ours
		if !c.local {
			conn = remoteConn{ours, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1025}}
		}
		one := newSession(s.Server, conn, SMTP)
		if got := s.enter(one); got != c.want {
			t.Errorf("session %d: %v", i, got)
		} else if got {
			defer s.leave(one)
		}
	}
}

func TestHeaderThatCannotBeDeliveredIsRefused(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	for _, fields := range []string{"Subject: a\x00b\r\n", strings.Repeat("X: "+strings.Repeat("x", 900)+"\r\n", 1200), strings.Repeat("a:\r\n", header.MaxFields+1)} {
		begin(d)
		d.say("DATA", "354 ")
		d.say(fields+"\r\nbody\r\n.", "554 5.6.0 ")
	}
	s.nothingLeft()
}

// The router would accept it and send a notice to whoever the sender is.
func TestLoopEndsAtTheDoor(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	hops := strings.Repeat("Received: by x\r\n", header.MaxHops)
	for fields, want := range map[string]string{"RECEIVED :\r\n" + hops: "554 5.4.6 ", "X: y\r\n Received: z\r\n" + hops: "250 "} {
		begin(d)
		d.say("DATA", "354 ")
		d.say(fields+"\r\nReceived: body\r\n.", want)
	}
	if got := s.messages(); len(got) != 1 {
		t.Errorf("messages %q", got)
	}
}

// A limit may have more than 32 bits.
func TestSizeOfMoreThan32Bits(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSize = 8 << 30 })
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.send("MAIL FROM:<a@far.example> SIZE=4294967296 BODY=8BITMIME\r\n")
	if reply := d.reply(); !strings.HasPrefix(reply, "250 ") && !strings.HasPrefix(reply, "452 4.3.1 ") { // the disk may be too small
		t.Fatalf("reply %q", reply)
	}
	d.say("RSET", "250 ")
	d.say("MAIL FROM:<a@far.example> SIZE=8589934593", "552 ")
	s.nothingLeft()
}

func TestMessageTooLargeIsRefused(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxSize = 1000 })
	d := s.dial()
	d.say("EHLO x", "250 ")
	// SIZE has up to twenty digits (RFC 1870).
	for _, size := range []string{"1001", "4294967296", "18446744073709551616", "99999999999999999999"} {
		d.say("MAIL FROM:<a@far.example> BODY=8BITMIME SIZE="+size, "552 ")
	}
	d.say("MAIL FROM:<a@far.example> SIZE=100000000000000000000", "501 ")
	begin(d)
	d.say("DATA", "354 ")
	d.say(strings.Repeat("x\r\n", 1000)+".", "552 ")
	begin(d)
	d.send("BDAT 600\r\n" + strings.Repeat("x", 598) + "\r\n")
	d.expect("250 ")
	d.send("BDAT 600\r\n" + strings.Repeat("x", 600))
	d.expect("552 ")
	d.send("BDAT 600 LAST\r\n" + strings.Repeat("x", 600)) // sent before the reply came
	d.expect("503 ")
	d.say("NOOP", "250 ")
	s.nothingLeft()
}

// A large message in chunks of a usual size is not too many commands, but one of tiny chunks is.
func TestMessageMayHaveManyChunks(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxRecipients = 1 })
	for size, want := range map[int]string{minRate: "250 ", 2: "421 4.7.0"} {
		d := s.dial()
		begin(d)
		chunk := fmt.Sprintf("BDAT %d\r\n%s\r\n", size, strings.Repeat("x", size-2))
		for range extraCommands - 2 {
			d.send(chunk)
			d.expect("250 ")
		}
		d.send(chunk + "BDAT 0 LAST\r\n")
		d.expect(want)
	}
}

func TestFullDiskIsATemporaryError(t *testing.T) {
	s := start(t, func(o *Options) { o.MinFree = 1 << 60 })
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("MAIL FROM:<a@far.example>", "452 4.3.1")
}

func TestMissingDirectoryIsATemporaryError(t *testing.T) {
	s := start(t, nil)
	if err := os.Remove(filepath.Join(s.office, "router")); err != nil {
		t.Fatal(err)
	}
	d := s.dial()
	begin(d)
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "451 ")
	s.nothingLeft()
}

// Where messages cannot be stored, an error says so once a minute, however many come.
func TestMailThatCannotBeStoredIsRefusedForNow(t *testing.T) {
	log := new(lockedText)
	s := start(t, func(o *Options) { o.Log = zerolog.New(log).Level(zerolog.ErrorLevel) })
	if err := os.Remove(filepath.Join(s.office, "public")); err != nil {
		t.Fatal(err)
	}
	d := s.dial()
	for range 3 {
		begin(d)
		d.say("DATA", "354 ")
		d.say("\r\nx\r\n.", "451 ")
	}
	d.say("QUIT", "221 ")
	if why := s.Unhealthy(); !strings.HasPrefix(why, "the last message could not be stored: create message") {
		t.Errorf("health: %s", why)
	}
	if text := log.String(); strings.Count(text, "mail cannot be stored") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

func TestMailIsDelayedAndThenRefusedWhereTheQueueIsLong(t *testing.T) {
	office := t.TempDir()
	f := &flow{postoffice: office, limit: 2}
	done := make(chan struct{})
	close(done) // watch counts once
	for dir, files := range map[string]int{"router/A": 3, "router/B": 2} {
		if err := os.MkdirAll(filepath.Join(office, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(office, dir), files)
	}
	f.watch(done)
	if got := f.delay(); got != 2*flowDelay || f.admit(0) != nil {
		t.Errorf("delay %v, %v", got, f.admit(0))
	}
	write(t, filepath.Join(office, "router"), 200)
	f.watch(done)
	if got := f.delay(); got != maxFlowDelay || f.admit(0) != errBusy {
		t.Errorf("delay %v, %v", got, f.admit(0))
	}
}

// User 1000 has the uids from 50000 to 50999.
func init() { process.SubuidFile = "../internal/process/testdata/subuid" }

// All sessions of a user's uids are the user's.
func TestClientIsTheUserWhoHasTheUID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a socket to another user")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := dialed.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = syscall.Fchown(int(fd), 50001, -1) })
	if err != nil {
		t.Fatal(err)
	}
	if c := clientOf(conn, new(Options)); c.block != "uid:1000" {
		t.Errorf("the block of uid 50001 is %s", c.block)
	}
}

// Names that the router never takes, and the files of users, however many, neither stop nor delay mail.
func TestFilesOfUsersDoNotStopMail(t *testing.T) {
	office, log := t.TempDir(), new(bytes.Buffer)
	router := filepath.Join(office, "router")
	if err := os.Mkdir(router, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &flow{postoffice: office, limit: 5, log: zerolog.New(log), busy: logs.Throttle{Period: busyLogPause}}
	done := make(chan struct{})
	close(done)
	for i := range 120 {
		for _, name := range []string{".z", "x", "Z"} {
			if err := os.WriteFile(filepath.Join(router, name+strconv.Itoa(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(router, strconv.Itoa(1000+i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.watch(done)
	if f.admit(0) != nil || f.delay() != 0 {
		t.Errorf("names that the router does not take: %v, delay %v", f.admit(0), f.delay())
	}
	write(t, router, 120)
	f.watch(done)
	for range 2 {
		if err := f.admit(0); err != errBusy {
			t.Errorf("120 submissions: %v", err)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"directory":"router","files":100,"limit":5`) {
		t.Errorf("log: %s", text)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	for i := range 120 {
		if err := os.Chown(filepath.Join(router, strconv.Itoa(i)), 1000+i, -1); err != nil {
			t.Fatal(err)
		}
	}
	letter := filepath.Join(router, "A")
	if err := errors.Join(os.Mkdir(letter, 0o700), os.Chown(letter, 1000, -1)); err != nil {
		t.Fatal(err)
	}
	write(t, letter, 120)
	f.watch(done)
	if f.admit(0) != nil || f.delay() != 0 {
		t.Errorf("submissions of 120 users: %v, delay %v", f.admit(0), f.delay())
	}
}

func write(t *testing.T, dir string, files int) {
	t.Helper()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStopEndsIdleSessionsAndAwaitsMessages(t *testing.T) {
	s := start(t, nil)
	idle, busy := s.dial(), s.dial()
	begin(busy)
	busy.say("DATA", "354 ")
	busy.send("x\r\n")
	s.l.Close()
	closed := make(chan error)
	go func() { closed <- s.Server.Close(t.Context()) }()
	idle.expect("421 4.3.2")
	idle.ended()
	busy.send(".\r\n")
	busy.expect("250 ")
	busy.expect("421 4.3.2")
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := s.messages(); len(got) != 1 {
		t.Errorf("messages %q", got)
	}
}
