package mailbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
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
		{fmt.Sprintf("%d\nhere\n", os.Getppid()), false, false}, // nobody has locked it
		{fmt.Sprintf("%d\n", os.Getppid()), true, false},
		{fmt.Sprintf("%d\nhere\n", dead), false, false},
		{fmt.Sprintf("%d\n", dead), false, true},            // of a machine that we do not know
		{fmt.Sprintf("%d\nelsewhere\n", dead), false, true}, // of another
		{fmt.Sprintf("%d\nelsewhere\n", dead), true, false},
		{"", false, true},
		{"", true, false},
		{"not a pid\n", true, false},
	} {
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

// The disk may fail at the moment when the lock file is to be removed.
func TestLockThatCouldNotBeRemovedIsTakenAgain(t *testing.T) {
	o := newTestSpool(t)
	b := o.mbox("spool/bob")
	lock, err := b.takeDotLock()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.path("spool/bob.lock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("another user can open it, and keep it locked: %v, %v", info, err)
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

// A delivery that was killed in the middle is seen by nobody who respects the lock. In an
// mbox its beginning stays, and the next attempt appends the whole; a Maildir shows
// nothing of it.
func TestKilledDeliveryIsRepeated(t *testing.T) {
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
			got := o.messages(name)
			if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, "\n"+before) {
				t.Errorf("%d bytes: %.200q", len(got), got)
			}
			if strings.HasSuffix(name, "/") {
				expect(t, got, before+before)
			}
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
