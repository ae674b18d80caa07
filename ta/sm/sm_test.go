package sm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zsched/ta"
)

// harness is a postoffice with one message, and a program.
type harness struct {
	t        *testing.T
	dir      string
	agent    *Agent
	reported string // to the scheduler
}

// newHarness has a mailer with these flags, and arguments for a shell script.
func newHarness(t *testing.T, flags, script, args string) *harness {
	t.Helper()
	b := &harness{t: t, dir: t.TempDir()}
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(b.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.write("script", "cd "+b.dir+"\n"+script)
	b.agent = New(mailer(t, strings.TrimSpace("x "+flags+" /bin/sh sh "+filepath.Join(b.dir, "script")+" "+args)))
	b.agent.Now = func() time.Time { return time.Date(2026, 11, 1, 9, 8, 7, 0, time.UTC) }
	b.agent.Host = "here.example.org"
	return b
}

func (b *harness) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *harness) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// rcpt is a recipient line whose privilege is the user of the test.
func rcpt(user string) string {
	return fmt.Sprintf("r           prog h.example %s %d\n", user, os.Geteuid())
}

const alice = "s smtp mx alice@example.org 0\n"

// deliver delivers a message; the lines are those of its sender and
// recipients.
func (b *harness) deliver(lines, message string) *harness {
	b.t.Helper()
	header, body, _ := strings.Cut(message, "\n\n")
	b.write("transport/7", "@ 0x00000007\ni 7\no 3\n"+lines+"m\n"+header+"\n\n")
	b.write("queue/7", "xx\n"+body)
	var out bytes.Buffer
	s := &ta.Server{Name: "sm", Channel: "prog", Dir: filepath.Join(b.dir, "transport"),
		In: strings.NewReader("7\th.example\n"), Out: &out, Err: b.t.Output(), Deliver: b.agent.Deliver}
	if err := s.Serve(context.Background()); err != nil {
		b.t.Error(err)
	}
	b.reported = strings.TrimSuffix(strings.TrimPrefix(out.String(), "#hungry\n"), "#hungry\n")
	return b
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestMessageIsWhatTheProgramReads(t *testing.T) {
	const message = "Subject: x\nReturn-Path: <old>\n\tfolded\nX-Envelope-To: old\nTo: b\n\nFrom me\n.\nlast"
	const head = "Subject: x\nReturn-Path: <old>\n\tfolded\nX-Envelope-To: old\nTo: b\n"
	const from = "From alice@example.org Sun Nov  1 09:08:07 2026"
	uid := fmt.Sprint(os.Geteuid())
	for flags, want := range map[string]string{
		"-":  from + "\n" + head + "\nFrom me\n.\nlast\n",
		"n":  head + "\nFrom me\n.\nlast\n",
		"nE": head + "\n>From me\n.\nlast\n",
		"nX": head + "\nFrom me\n..\nlast\n",
		"ER": strings.ReplaceAll(from+"\n"+head+"\n>From me\n.\nlast\n", "\n", "\r\n"),
		"nP": "Return-Path: <alice@example.org>\nSubject: x\nX-Envelope-To: old\nTo: b\n\nFrom me\n.\nlast\n",
		"ne": "Subject: x\nReturn-Path: <old>\n\tfolded\nTo: b\nX-Envelope-To: <bob> (uid " + uid + ")\n\nFrom me\n.\nlast\n",
	} {
		b := newHarness(t, flags, "cat >got", "").deliver(alice+rcpt("bob"), message)
		if got := b.read("got"); got != want {
			t.Errorf("flags %s: %q, want\n%q", flags, got, want)
		}
		if !strings.Contains(b.reported, "\tok3 ") {
			t.Errorf("flags %s: %q", flags, b.reported)
		}
	}
}

// The mail of a mailer for UUCP or batch SMTP waits and says why; nothing is run.
func TestUnsupportedMailersDeferTheirMail(t *testing.T) {
	for flags, why := range map[string]string{"Ums": "UUCP (flag U)", "nb": "batch SMTP (flag b)", "mnBBH": "batch SMTP (flag B)"} {
		b := newHarness(t, flags, "touch ran", "").deliver(alice+rcpt("bob")+rcpt("eve"), "A: b\n\n")
		if strings.Count(b.reported, "\tdeferred mailer x of sm.conf needs "+why+", which sm does not support\n") != 2 {
			t.Errorf("flags %s: %q", flags, b.reported)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
			t.Errorf("flags %s: the program ran", flags)
		}
	}
}

// Flag s removes quotes from arguments, but not from header fields.
func TestFieldsOfTheEnvelopeKeepTheirQuotes(t *testing.T) {
	b := newHarness(t, "nsPe", "cat >got; echo \"$@\" >>got", "$g $u")
	b.deliver("s smtp mx \"alice x\"@example.org 0\n"+strings.TrimSuffix(rcpt(`"bob y"@x`), "\n")+" x)\n", "A: b\n\n")
	expect(t, b.read("got"), "Return-Path: <\"alice x\"@example.org>\nA: b\nX-Envelope-To: <\"bob y\"@x> (uid "+fmt.Sprint(os.Geteuid())+")\n\n"+
		"alice x@example.org bob y@x\n")
}

// Programs get each byte as it is, whatever flags of other times say.
func TestEightBitDataStaysAsItIs(t *testing.T) {
	const message = "Subject: ä\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4\tä\xff\n"
	for _, flags := range []string{"n", "n7", "n89"} {
		b := newHarness(t, flags, "cat >got", "").deliver(alice+rcpt("bob"), message)
		expect(t, b.read("got"), message)
	}
}

func TestRunsAndTheirRecipients(t *testing.T) {
	const log = "echo \"$@\" >>runs; cat >/dev/null"
	lines := alice + rcpt("bob") + rcpt(`"carol x"`) + "s smtp mx dave 0\n" + rcpt("eve") + rcpt("FRED") + "s error - - 0\n" + rcpt("gina")
	for _, c := range []struct{ flags, args, want string }{
		{"-", "$g $u", "alice@example.org bob\nalice@example.org \"carol x\"\ndave eve\ndave FRED\n<> gina\n"},
		{"m", "$g $u", "alice@example.org bob \"carol x\"\ndave eve FRED\n<> gina\n"},
		{"ms", "-f $g $h!$U", "-f alice@example.org h.example!bob h.example!carol x\n-f dave h.example!eve h.example!fred\n-f <> h.example!gina\n"},
		{"m", "$h", "h.example\nh.example\nh.example\n"},
	} {
		b := newHarness(t, c.flags, log, c.args).deliver(lines, "A: b\n\n")
		expect(t, b.read("runs"), c.want)
		if n := strings.Count(b.reported, "\tok3 "); n != 5 {
			t.Errorf("flags %s: %d of 5 are delivered: %q", c.flags, n, b.reported)
		}
	}
}

func TestRunsAreBounded(t *testing.T) {
	b := newHarness(t, "m", "echo $# >>runs", "$u")
	b.deliver(alice+strings.Repeat(rcpt("bob"), maxGroup+1), "A: b\n\n")
	expect(t, b.read("runs"), fmt.Sprintf("%d\n1\n", maxGroup))
	b = newHarness(t, "m", "echo $# >>runs", "$u")
	b.deliver(alice+strings.Repeat(rcpt(strings.Repeat("x", maxGroupBytes/2)), 3), "A: b\n\n")
	expect(t, b.read("runs"), "2\n1\n")
}

func TestAnAddressThatIsAnOptionFailsAlone(t *testing.T) {
	b := newHarness(t, "m", "echo \"$@\" >>runs", "$u").deliver(alice+rcpt("bob")+rcpt("-oQ/tmp")+rcpt("eve"), "A: b\n\n")
	expect(t, b.read("runs"), "bob eve\n")
	if strings.Count(b.reported, "\t\terror2 an address begins with a dash") != 1 || strings.Count(b.reported, "\tok3 ") != 2 {
		t.Errorf("%q", b.reported)
	}
}

func TestOutputIsTheDiagnostic(t *testing.T) {
	for script, want := range map[string]string{
		"echo sent as 12; exit 0":               "ok3 sent as 12\n",
		"echo who; echo else >&2; exit 67":      "error2 exit status 67 (addressee unknown)\rwho\relse\n",
		"exit 75":                               "deferred exit status 75 (temporary failure)\n",
		"printf 'a\\r\\033\\200\\n\\n'; exit 9": "deferred exit status 9 (not one of sysexits)\ra?\n",
		"kill -TERM $$":                         "deferred signal 15 (terminated)\n",
		"cat; cat; exit 68":                     "error2 exit status 68 (host name unknown)\rFrom alice@example.org Sun Nov  1 09:08:07 2026\rA: b\r\rbody\n",
	} {
		b := newHarness(t, "-", script, "").deliver(alice+rcpt("bob"), "A: b\n\nbody\n")
		_, after, _ := strings.Cut(b.reported, "\t")
		_, got, _ := strings.Cut(after, "\t")
		if got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	b := newHarness(t, "-", "yes | head -c 100000; exit 67", "").deliver(alice+rcpt("bob"), "A: b\n\n")
	if !strings.Contains(b.reported, "\r... and 96000 bytes more\n") || len(b.reported) > 5000 {
		t.Errorf("%d bytes: %q", len(b.reported), b.reported)
	}
}

func TestProgramNeedNotRead(t *testing.T) {
	b := newHarness(t, "-", "exec <&-; exit 0", "").deliver(alice+rcpt("bob"), "A: b\n\n"+strings.Repeat("x\n", 1<<20))
	if !strings.Contains(b.reported, "\tok3 ") {
		t.Errorf("%q", b.reported)
	}
}

func TestProgramMayOpenItsInputAgain(t *testing.T) {
	b := newHarness(t, "n", "cat /dev/stdin >got; cat /proc/self/fd/0 >>got", "").deliver(alice+rcpt("bob"), "A: b\n\nx\n")
	expect(t, b.read("got"), "A: b\n\nx\nA: b\n\nx\n")
}

func TestProgramThatIsNotThereIsWaitedFor(t *testing.T) {
	b := newHarness(t, "-", "", "")
	b.agent.Mailer.Program = "/nonexistent/program"
	b.deliver(alice+rcpt("bob"), "A: b\n\n")
	if !strings.Contains(b.reported, "\x01delayed\x014.3.5\x01") || !strings.Contains(b.reported, "deferred the program does not start: ") {
		t.Errorf("%q", b.reported)
	}
}

// The program starts another, and both ignore SIGTERM. Both have ended when no
// process has the fifo open for writing.
func TestLimitEndsTheWholeGroup(t *testing.T) {
	b := newHarness(t, "-", "exec 3>fifo; trap '' TERM; (exec sleep 600) & sleep 600", "")
	name := filepath.Join(b.dir, "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	b.agent.Limit, b.agent.Grace = 300*time.Millisecond, 10*time.Millisecond
	b.deliver(alice+rcpt("bob"), "A: b\n\n")
	if !strings.HasSuffix(b.reported, "\tdeferred killed after 300ms\n") {
		t.Errorf("%q", b.reported)
	}
	fifo.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.ReadAll(fifo); err != nil {
		t.Errorf("somebody is left: %v", err)
	}
}

// A program that had our terminal could write input into it, and one that had a
// descriptor of the scheduler could read or write files of root.
func TestProgramHasNeitherOurTerminalNorOurFiles(t *testing.T) {
	open, err := syscall.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(open)
	script := fmt.Sprintf("read pid comm state ppid pgrp sid rest </proc/self/stat; "+
		"test $sid = $$ || echo session $sid of $$; test ! -e /proc/self/fd/%d || echo open", open)
	b := newHarness(t, "-", script, "").deliver(alice+rcpt("bob"), "A: b\n\n")
	if !strings.HasSuffix(b.reported, "\tok3 \n") {
		t.Errorf("%q", b.reported)
	}
}

func TestControlCharactersInAddressesAreRefused(t *testing.T) {
	for _, user := range []string{"bob\r", "bob\x7f"} {
		b := newHarness(t, "n", "touch ran", "$u").deliver(alice+rcpt(user), "A: b\n\n")
		if !strings.Contains(b.reported, "\terror2 an address has a control character") {
			t.Errorf("%q: %q", user, b.reported)
		}
	}
}

func TestOutputThatStaysOpenIsNotWaitedFor(t *testing.T) {
	b := newHarness(t, "-", "sleep 600 & echo $! >pid; echo sent", "")
	b.agent.Grace = 2 * time.Second // what was written before is read meanwhile
	b.deliver(alice+rcpt("bob"), "A: b\n\n")
	var pid int
	fmt.Sscan(b.read("pid"), &pid)
	if pid < 2 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("process %d, left in the background, is gone", pid)
	}
	if !strings.HasSuffix(b.reported, "\tok3 sent\n") {
		t.Errorf("%q", b.reported)
	}
}
