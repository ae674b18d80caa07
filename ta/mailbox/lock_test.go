package mailbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"zsched/internal/process"
)

func TestLockOfAnotherProcessIsRespected(t *testing.T) {
	o := newTestSpool(t)
	o.write("spool/bob", "old\n\n")
	locker, said := startProcess(t, "locker", nil, o.path("spool/bob"))
	if line, err := said.ReadString('\n'); line != "here <nil>\n" {
		t.Fatal(line, err)
	}
	a := o.agent(Options{LockWait: time.Millisecond})
	o.refused(a, mail("bob 0"), "deferred", `4\.2\.0 \(mailbox is locked\)`)
	o.refused(a, mail(o.path("spool/bob")+" "+us), "deferred", `is locked`)
	expect(t, o.read("spool/bob"), "old\n\n")
	kill(locker)
	o.delivered(a, mail("bob 0"))
	expect(t, fmt.Sprint(o.names("spool")), "[bob]")
}

// patience is how long a lock may take that must come free.
const patience = time.Minute

// gone is the pid of a process that is no more.
func gone(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// nothingIsOld reports whether the machine has been started so recently that no file counts as
// old. It waits if that ends within a minute, so that it does not end during the test.
func nothingIsOld() bool {
	left := staleAge - process.SinceBoot()
	if left > 0 && left < time.Minute {
		time.Sleep(left + time.Second)
		left = 0
	}
	return left > 0
}

// mbox is a mailbox file whose directory is open until the test ends.
func (o testSpool) mbox(name string) *mbox {
	o.t.Helper()
	b := &mbox{request: o.requestFor(name)}
	var err error
	if b.dir, b.name, err = openParent(string(b.request.Path)); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = syscall.Close(b.dir) })
	return b
}

func TestDotLockHoldsWhileItsMakerLives(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	dead := gone(t)
	for _, c := range []struct {
		text string
		old  bool
		held bool
	}{
		{fmt.Sprintf("%d\nhere\n", os.Getppid()), false, true},
		{fmt.Sprintf("%d\nhere\n", os.Getpid()), false, false}, // we have let go of it
		{fmt.Sprintf("%d\n", os.Getppid()), true, true},
		{fmt.Sprintf("%d\nhere\n", os.Getppid()), true, false}, // it was not there then
		{fmt.Sprintf("%d\nhere\n", dead), false, false},
		{fmt.Sprintf("%d\n", dead), false, true},            // of a machine that we do not know
		{fmt.Sprintf("%d\nelsewhere\n", dead), false, true}, // of another
		{fmt.Sprintf("%d\nelsewhere\n", dead), true, false},
		{"", false, true},
		{"", true, false},
		{"not a pid\n", true, false},
		// It was there, whatever the time of the file.
		{fmt.Sprintf("%d\nhere\n%s", os.Getppid(), startOf(t, os.Getppid(), 0, "")), true, true},
		{fmt.Sprintf("%d\nhere\n%s", os.Getppid(), startOf(t, os.Getppid(), time.Second, "")), false, false},
		{fmt.Sprintf("%d\nhere\n%s", os.Getppid(), startOf(t, os.Getppid(), 0, "x")), false, false},
		{fmt.Sprintf("%d\nhere\n%s", dead, startOf(t, os.Getppid(), 0, "")), false, false},
	} {
		if c.old && !strings.Contains(c.text, "\nhere\n") && nothingIsOld() {
			c.held = true
		}
		o := newTestSpool(t)
		o.write("spool/bob.lock", c.text)
		if c.old {
			if err := os.Chtimes(o.path("spool/bob.lock"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		_, tags := o.deliver(o.agent(Options{LockWait: time.Millisecond}), mail("bob 0"))
		if held := tags == " "; held != c.held {
			t.Errorf("%q, old %t: held %t", c.text, c.old, held)
		}
		if left := fmt.Sprint(o.names("spool")); left != map[bool]string{true: "[bob.lock]", false: "[bob]"}[c.held] {
			t.Errorf("%q, old %t: left is %s", c.text, c.old, left)
		}
	}
}

// startOf is the line about the start of a process, later by some time or at another boot.
func startOf(t *testing.T, pid int, later time.Duration, otherBoot string) string {
	t.Helper()
	p, known := process.Find(pid)
	if !known {
		t.Fatalf("/proc does not say when process %d started", pid)
	}
	return fmt.Sprintf("started %d %s%s\n", (p.Started + later).Nanoseconds(), process.BootID(), otherBoot)
}

// TestClockThatIsSetMakesNoLockStale: neither one of ours nor one of another program.
func TestClockThatIsSetMakesNoLockStale(t *testing.T) {
	boot := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC) // by the clock before it was set
	const up = time.Hour
	for _, c := range []struct {
		made, up time.Duration // since the boot
		step     time.Duration // the clock is set forward by that before the lock is looked at
		stale    bool
	}{
		{up - time.Minute, up, 0, false},
		{up - time.Minute, up, 24 * time.Hour, false},
		{up - 6*time.Minute, up, 0, true},
		{up - 6*time.Minute, up, 24 * time.Hour, true},
		{-24 * time.Hour, up, 0, true},
		{-24 * time.Hour, time.Minute, 0, false}, // the clock may not be set yet
	} {
		clock := new(process.Clock)
		clock.See(boot)
		at := bootClock{bootedAt: clock.See(boot.Add(c.step)), sinceBoot: c.up}
		if got := stale(note{}, false, boot.Add(c.made), at); got != c.stale {
			t.Errorf("%+v: stale %t", c, got)
		}
	}
	// What the agent has seen counts in its helper.
	earlier := time.Unix(1, 0)
	if got := (&request{BootedAt: earlier}).bootClock().bootedAt; !got.Equal(earlier) {
		t.Errorf("the helper takes %v for the time of the boot", got)
	}
	o := newTestSpool(t)
	b := o.mbox("spool/bob")
	lock, err := b.takeDotLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.drop()
	if err := lock.note(7, "From x\n"); err != nil {
		t.Fatal(err)
	}
	ours := parseNote([]byte(o.read("spool/bob.lock")))
	if ours.size != 7 || stale(ours, true, time.Now().Add(-24*time.Hour), b.request.bootClock()) {
		t.Errorf("our own lock counts as stale: %+v", ours)
	}
}

// The disk may fail at the moment when the lock file is to be removed.
func TestLockThatCouldNotBeRemovedIsTakenAgain(t *testing.T) {
	o := newTestSpool(t)
	b := o.mbox("spool/bob")
	lock, err := b.takeDotLock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.takeDotLock(); err == nil {
		t.Fatal("a second session of this process has the lock, too")
	}
	_ = syscall.Close(lock.fd) // as drop does, but the name stays
	if lock, err = b.takeDotLock(); err != nil {
		t.Fatal(err)
	}
	lock.drop()
}

func TestLockOfBeforeTheLastStartIsForgotten(t *testing.T) {
	o := newTestSpool(t)
	o.write("spool/bob.lock", fmt.Sprintf("%d\nhere\n", os.Getpid()))
	if err := os.Chtimes(o.path("spool/bob.lock"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	o.delivered(o.agent(Options{}), mail("bob 0"))
}

// A delivery that was killed in the middle is seen by nobody who respects the
// lock, and is gone when the next one has been.
func TestKilledDeliveryLeavesNoHalfMessage(t *testing.T) {
	for _, name := range []string{"spool/bob", "home/Maildir/"} {
		t.Run(name, func(t *testing.T) {
			o := newTestSpool(t)
			a := o.agent(Options{})
			if strings.HasSuffix(name, "/") {
				a = o.agent(Options{Place: Place{Path: "%h/Maildir/"}})
			}
			o.delivered(a, mail("bob 0"))
			before := o.messages(name)
			stuck, said := startProcess(t, "stuck", o.requestFor(name).json(t))
			if line, err := said.ReadString('\n'); line != "here\n" {
				t.Fatal(line, err)
			}
			if !strings.HasSuffix(name, "/") {
				if size := len(o.read(name)); size < 1<<18 {
					t.Errorf("only %d bytes are there: not the middle", size)
				}
				// While it lives, it may take its time.
				o.refused(a, mail("bob 0"), "deferred", "is locked")
			}
			kill(stuck)
			if strings.HasSuffix(name, "/") {
				expect(t, o.messages(name), before)
			}
			o.delivered(a, mail("bob 0"))
			expect(t, o.messages(name), before+before)
		})
	}
}

// messages are what a reader shows.
func (o testSpool) messages(name string) (text string) {
	if !strings.HasSuffix(name, "/") {
		return o.read(name)
	}
	for _, n := range o.names(name + "new") {
		text += o.read(name + "new/" + n)
	}
	return text
}

// What lies behind the size that a dead delivery's lock file tells is cut off
// only if it is that delivery and nothing else.
func TestOnlyTheHalfMessageIsTakenBack(t *testing.T) {
	const begin = "From x\n"
	for _, c := range []struct{ rest, left string }{
		{"", ""},
		{"Fro", ""},
		{begin, ""},
		{begin + "A: b\n\nhal", ""},
		{begin + "A: b\n\nwhole\n\n", ""}, // it was not reported
		{begin + "A: b\n\nwhole\n\nFrom other\n\nx\n", begin + "A: b\n\nwhole\n\nFrom other\n\nx\n"},
		{begin + "From other\n\nx\n", begin + "From other\n\nx\n"},
		{begin + strings.Repeat("y", 1<<16-7) + "\nFrom z\n", begin + strings.Repeat("y", 1<<16-7) + "\nFrom z\n"},
		{begin + strings.Repeat("y", 1<<16-7) + "\nFro", ""},
		{"something else\n", "something else\n"},
	} {
		o := newTestSpool(t)
		o.write("spool/bob", "old\n\n"+c.rest)
		o.write("spool/bob.lock", fmt.Sprintf("%d\nhere\n5 %q\n", gone(t), begin))
		o.delivered(o.agent(Options{}), mail("bob 0"))
		got, _, _ := strings.Cut(o.read("spool/bob"), "From alice")
		if got = strings.TrimRight(got, "\n"); got != strings.TrimRight("old\n\n"+c.left, "\n") {
			t.Errorf("%.60q: left is %.60q", c.rest, got)
		}
	}
}

// When the machine stops, a lock file's removal may not be on disk, and the
// report may be. So what was reported must not be cut off.
func TestDeliveredMessageOutlivesALockThatIsThereAgain(t *testing.T) {
	o := newTestSpool(t)
	b := o.mbox("spool/bob")
	b.request.Message = &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), file: strings.NewReader("")}
	var err error
	if b.dot, err = b.takeDotLock(); err != nil {
		t.Fatal(err)
	}
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.append(); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(o.read("spool/bob.lock"), "\n")
	b.dot.drop()
	_ = syscall.Close(b.fd)

	o.write("spool/bob.lock", fmt.Sprintf("%d\n%s", gone(t), rest))
	o.delivered(o.agent(Options{}), mail("bob 0"))
	if got := o.read("spool/bob"); !strings.HasPrefix(got, "From x\nA: b\n\n\nFrom alice") {
		t.Errorf("%q", got)
	}
}

// A file that we made, and others wrote to before we had it locked, stays.
func TestOnlyOurOwnMessageIsTakenBack(t *testing.T) {
	o := newTestSpool(t)
	b := o.mbox("spool/bob")
	var err error
	if b.fd, err = b.openOnce(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(b.fd)
	o.write("spool/bob", "From other\n\n")
	if _, err := b.lock(b.fd); err != nil {
		t.Fatal(err)
	}
	if err := b.undo(); err != nil {
		t.Fatal(err)
	}
	expect(t, o.read("spool/bob"), "From other\n\n")
}

func TestStrangeNotesAreNoReasonToCut(t *testing.T) {
	for _, text := range []string{
		"%d\nhere\n0 \"\"", "%d\nhere\n-1 \"From x\\n\"\n", "%d\nhere\n0 From x\n", "%d\nelse\n0 \"From x\\n\"\n", "%d\nhere\n99 \"From x\\n\"\n",
	} {
		if strings.Contains(text, "else") && nothingIsOld() {
			continue // nor is the lock of another machine
		}
		o := newTestSpool(t)
		o.write("spool/bob", "From x\nA: b\n\n")
		o.write("spool/bob.lock", fmt.Sprintf(text, gone(t)))
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(o.path("spool/bob.lock"), old, old); err != nil {
			t.Fatal(err)
		}
		o.delivered(o.agent(Options{}), mail("bob 0"))
		if got := o.read("spool/bob"); !strings.HasPrefix(got, "From x\nA: b\n\nFrom alice") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add("12\nhere\n5 \"From x\\n\"\n")
	f.Add("\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := parseNote([]byte(text))
		if n.size < -1 || n.size >= 0 && !strings.Contains(text, "\"") && !strings.Contains(text, "`") && !strings.Contains(text, "'") {
			t.Errorf("%q: %+v", text, n)
		}
	})
}
