package owner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/process"
)

func TestOwnerWritesAPidFile(t *testing.T) {
	office := t.TempDir()
	path := filepath.Join(office, pidName)
	check(t, os.WriteFile(path, []byte("999999\n"), 0o644)) // of a dead scheduler
	o := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	if text, err := os.ReadFile(path); string(text) != fmt.Sprintln(os.Getpid()) || err != nil {
		t.Errorf("the file says %q, %v", text, err)
	}
	o.Release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// On a full disk the file of the owner is written in the room that it has, and the pid file
// need not be.
func TestOwnerOnAFullDisk(t *testing.T) {
	office := t.TempDir()
	if err := unix.Mount("tmpfs", office, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system to be had: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(office, 0)) })
	claimed(t, Claim{Postoffice: office, Node: "mx1"}).Release()
	filler := filepath.Join(office, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	o := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	if o.Epoch != 2 || !errors.Is(o.Unwritten, unix.ENOSPC) {
		t.Errorf("epoch %d, unwritten: %v", o.Epoch, o.Unwritten)
	}
	again := Claim{Postoffice: office, Node: "mx1"}
	if _, err := again.Acquire(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("a second claim: %v", err)
	}
	check(t, os.Remove(filler))
	if text, err := os.ReadFile(filepath.Join(office, pidName)); !o.writePID() || err != nil {
		t.Errorf("with room again, after %q, %v: the pid file is not written", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(office, pidName)); len(text) == 0 {
		t.Errorf("the pid file is empty: %v", err)
	}
	o.Release()
	if !o.writePID() {
		t.Error("a pid file is still to be written after the release")
	}
	if _, err := os.Stat(filepath.Join(office, pidName)); err == nil {
		t.Error("a pid file was written after the release")
	}
	// There is no room for the first owner's file.
	check(t, os.Remove(filepath.Join(office, ownerName)))
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := again.Acquire(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a first claim without room: %v", err)
	}
}

func TestRunningSchedulerIsReplaced(t *testing.T) {
	office := t.TempDir()
	pid, lines := startHelper(t, "daemon", office)
	lines.Scan()
	c := Claim{Postoffice: office, Node: "mx1"}
	if _, err := c.Acquire(t.Context()); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Errorf("claimed from one that runs: %v", err)
	}
	c.Replace = true
	if o := claimed(t, c); o.Epoch != 2 || o.Before.PID != pid {
		t.Errorf("epoch %d, before: %v", o.Epoch, &o.Before)
	}
}

// Who is told to end while it waits need not wait for the minute to pass. (The scheduler
// that stays is this process, which does not ask itself to leave.)
func TestOwnerIsWaitedForUntilSomebodySaysNo(t *testing.T) {
	office := t.TempDir()
	claimed(t, Claim{Postoffice: office, Node: "mx1"})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("terminated")
	cancel(why)
	c := Claim{Postoffice: office, Node: "mx1", Replace: true}
	if _, err := c.Acquire(ctx); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// A scheduler was killed while it was starting an agent. The child has the lock until it
// executes its program, and the record is that of the dead scheduler, whose pid may be
// anybody's by now. That is no running scheduler: nobody is signalled, and a new one waits
// for the lock.
func TestLockOfAChildOfADeadScheduler(t *testing.T) {
	office := t.TempDir()
	child := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	pid, lines := startHelper(t, "wait", "")
	lines.Scan()
	child.PID, child.Since = pid, time.Now().Add(-time.Hour)
	check(t, child.write())
	ctx, cancel := context.WithTimeout(t.Context(), 4*lockPoll)
	defer cancel()
	c := Claim{Postoffice: office, Node: "mx1", Replace: true}
	if _, err := c.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if !process.RunningSince(pid, time.Now()) {
		t.Error("a stranger was told to leave")
	}
	check(t, child.file.Close())
	claimed(t, c)
}

// zmailer starts a process named "scheduler" and writes its pid into the pid file, as
// ZMailer's scheduler does. At SIGTERM it does what command
// says.
func zmailer(t *testing.T, path, command string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "scheduler")
	check(t, os.WriteFile(program, []byte("#!/bin/sh\ntrap '"+command+"' TERM\necho ready\nwhile :; do read x; done\n"), 0o755))
	cmd := exec.Command(program)
	if line := startPiped(t, cmd); !line.Scan() {
		t.Fatal("it does not start")
	}
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", cmd.Process.Pid), 0o644))
	return cmd
}

func TestZMailersSchedulerIsReplaced(t *testing.T) {
	office := t.TempDir()
	old := zmailer(t, filepath.Join(office, pidName), "exit 7")
	c := Claim{Postoffice: office, Node: "mx1"}
	if _, err := c.Acquire(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("claimed from one that runs: %v", err)
	}
	reaped := make(chan struct{})
	go func() {
		old.Wait()
		close(reaped)
	}()
	c.Replace = true
	claimed(t, c)
	<-reaped
	if code := old.ProcessState.ExitCode(); code != 7 {
		t.Errorf("it left with %d", code)
	}
}

func TestZMailersSchedulerThatStaysIsNotKilled(t *testing.T) {
	office := t.TempDir()
	path := filepath.Join(office, pidName)
	old := zmailer(t, path, "echo no")
	ctx, cancel := context.WithTimeout(t.Context(), 4*lockPoll)
	defer cancel()
	c := Claim{Postoffice: office, Node: "mx1", Replace: true}
	want := fmt.Sprintf("waiting for process %d to exit", old.Process.Pid)
	if _, err := c.Acquire(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if !process.RunningSince(old.Process.Pid, time.Now()) {
		t.Error("it was killed")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != fmt.Sprintln(old.Process.Pid) {
		t.Errorf("the file says %q, %v", text, err)
	}
}

// The pid in the file may be that of any process by now.
func TestPidFileOfAnotherProgramSignalsNobody(t *testing.T) {
	office := t.TempDir()
	pid, lines := startHelper(t, "wait", "")
	lines.Scan()
	check(t, os.WriteFile(filepath.Join(office, pidName), fmt.Appendln(nil, pid), 0o600))
	claimed(t, Claim{Postoffice: office, Node: "mx1", Replace: true})
	if !process.RunningSince(pid, time.Now()) {
		t.Error("it was told to leave")
	}
}

func TestPidFileOfASuccessorIsLeft(t *testing.T) {
	office := t.TempDir()
	o := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	path := filepath.Join(office, pidName)
	check(t, os.WriteFile(path, []byte("4711\n"), 0o600)) // as ZMailer's scheduler does
	o.Release()
	if text, err := os.ReadFile(path); err != nil || string(text) != "4711\n" {
		t.Errorf("%q, %v", text, err)
	}
}
