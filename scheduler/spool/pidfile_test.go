package spool

import (
	"bufio"
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

func TestPidFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	text, err := os.ReadFile(path)
	check(t, err)
	if string(text) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("file says %q", text)
	}
	p.Release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// A scheduler that did not start on a full disk would leave on it what fills it.
func TestPidFileOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system to be had: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, 0)) })
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pid")
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	if !errors.Is(p.Unwritten, unix.ENOSPC) {
		t.Errorf("unwritten: %v", p.Unwritten)
	}
	if again, _, err := tryPid(path); again != nil || err != nil {
		t.Errorf("the claim does not stand: %v, %v", again, err)
	}
	p.Release()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestPidFileThatCannotBeMadeForWantOfInodes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=3"); err != nil {
		t.Skipf("cannot mount a file system with few inodes: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, 0)) })
	check(t, os.Mkdir(filepath.Join(dir, "transport"), 0o700))
	filler, path := filepath.Join(dir, "filler"), filepath.Join(dir, "pid")
	check(t, os.WriteFile(filler, nil, 0o600))
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	if !errors.Is(p.Unwritten, unix.ENOSPC) {
		t.Errorf("unwritten: %v", p.Unwritten)
	}
	for range 2 {
		if again, err := AcquirePid(t.Context(), path); err == nil {
			again.Release()
			t.Error("a second scheduler has the spool")
		}
		_ = os.Remove(filler)
	}
	p.Release()
	p, err = AcquirePid(t.Context(), path)
	check(t, err)
	p.Release()
}

func TestPidFileIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	pid, lines, _ := startHelper(t, "daemon", path)
	lines.Scan()
	if text, err := os.ReadFile(path); err != nil || string(text) != fmt.Sprintf("%d\n", pid) {
		t.Fatalf("file says %q, %v", text, err)
	}
	if _, err := ClaimPid(t.Context(), path); !errors.Is(err, ErrRunning) {
		t.Errorf("claimed from one that runs: %v", err)
	}
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	defer p.Release()
	if text, _ := os.ReadFile(path); string(text) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("file says %q", text)
	}
}

// One that does not leave keeps what it has. (This one is ourselves, and we
// do not ask ourselves to leave.)
func TestPidFileOfOneWhoStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	defer p.Release()
	if _, err := acquirePid(t.Context(), path, 3*leavePoll, true); err == nil {
		t.Error("two hold it")
	}
	if text, _ := os.ReadFile(path); string(text) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("file says %q", text)
	}
}

// Who is told to end while it waits need not wait for the minute to pass.
func TestPidFileIsWaitedForUntilSomebodySaysNo(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	defer p.Release()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("terminated")
	cancel(why)
	if _, err := acquirePid(ctx, path, time.Hour, true); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// A number in a file that nobody holds may by now be anybody's.
func TestPidFileOfADeadDaemonSignalsNobody(t *testing.T) {
	pid, lines, _ := startHelper(t, "wait", "")
	lines.Scan()
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", pid), 0o644))
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	p.Release()
	if !process.RunningSince(pid, time.Now()) {
		t.Error("it was told to leave")
	}
}

// Anybody who may read the file can lock it, and what a dead daemon left in it
// may be the number of anyone.
func TestPidFileLockedByAStrangerSignalsNobody(t *testing.T) {
	pid, lines, _ := startHelper(t, "wait", "")
	lines.Scan()
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", pid), 0o644))
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	check(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	if _, err := acquirePid(t.Context(), path, 5*leavePoll, true); err == nil {
		t.Error("it was had although locked")
	}
	if !process.RunningSince(pid, time.Now()) {
		t.Error("a stranger was told to leave")
	}
}

// Who removes the file while we are at the door leaves us a lock on nothing.
func TestPidFileRemovedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	first, err := AcquirePid(t.Context(), path)
	check(t, err)
	check(t, os.Remove(path))
	second, err := AcquirePid(t.Context(), path)
	check(t, err)
	first.Release() // which is not to remove the second's
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the second's is gone: %v", err)
	}
	second.Release()
}

// Another user who can open the file could lock it and keep the next scheduler
// from starting.
func TestPidFileIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	check(t, os.WriteFile(path, []byte("999999\n"), 0o644)) // of an earlier version
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	defer p.Release()
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

// unlocked starts a process named "scheduler" and writes its pid into the file
// without a lock, as ZMailer's scheduler does. At SIGTERM it does what command
// says.
func unlocked(t *testing.T, path, command string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "scheduler")
	check(t, os.WriteFile(program, []byte("#!/bin/sh\ntrap '"+command+"' TERM\necho ready\nwhile :; do read x; done\n"), 0o755))
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line := bufio.NewScanner(out); !line.Scan() {
		t.Fatal("it does not start")
	}
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", cmd.Process.Pid), 0o644))
	return cmd
}

func TestPidFileOfAnUnlockedSchedulerIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	old := unlocked(t, path, "exit 7")
	reaped := make(chan struct{})
	go func() {
		old.Wait()
		close(reaped)
	}()
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	defer p.Release()
	<-reaped
	if code := old.ProcessState.ExitCode(); code != 7 {
		t.Errorf("it left with %d", code)
	}
}

func TestPidFileOfAnUnlockedSchedulerThatStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	old := unlocked(t, path, "echo no")
	_, err := acquirePid(t.Context(), path, 3*leavePoll, true)
	want := fmt.Sprintf("process %d holds it and does not exit", old.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if !process.RunningSince(old.Process.Pid, time.Now()) {
		t.Error("it was killed")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != fmt.Sprintf("%d\n", old.Process.Pid) {
		t.Errorf("the file says %q, %v", text, err)
	}
}

// The pid in a file that nobody has locked may be that of any process by now.
func TestPidFileOfAnotherProgramSignalsNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	pid, lines, _ := startHelper(t, "wait", "")
	lines.Scan()
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", pid), 0o600))
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	p.Release()
	if !process.RunningSince(pid, time.Now()) {
		t.Error("it was told to leave")
	}
}

func TestPidFileOfASuccessorIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	check(t, os.WriteFile(path, []byte("4711\n"), 0o600)) // as ZMailer's scheduler does
	p.Release()
	if text, err := os.ReadFile(path); err != nil || string(text) != "4711\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// A scheduler was killed while it was starting an agent. The child has the lock until it
// executes its program, and the pid in the file is that of the dead scheduler. That is no
// running scheduler: a new one waits for the lock.
func TestPidFileLockedByAChildOfADeadScheduler(t *testing.T) {
	pid, _, stop := startHelper(t, "wait", "")
	stop()
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	child, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	defer child.Close()
	check(t, unix.Flock(int(child.Fd()), unix.LOCK_EX))
	_, err = fmt.Fprintf(child, "%d\n", pid)
	check(t, err)
	if _, err := acquirePid(t.Context(), path, 4*leavePoll, false); err == nil || errors.Is(err, ErrRunning) {
		t.Errorf("error %v", err)
	}
	check(t, child.Close())
	p, err := ClaimPid(t.Context(), path)
	check(t, err)
	p.Release()
}
