package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

func TestPidFileIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	pid, lines, _ := play(t, "daemon", path)
	lines.Scan()
	if text, err := os.ReadFile(path); err != nil || string(text) != fmt.Sprintf("%d\n", pid) {
		t.Fatalf("file says %q, %v", text, err)
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
	if _, err := acquirePid(t.Context(), path, 3*leavePoll); err == nil {
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
	if _, err := acquirePid(ctx, path, time.Hour); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// A number in a file that nobody holds may by now be anybody's.
func TestPidFileOfADeadDaemonSignalsNobody(t *testing.T) {
	pid, lines, _ := play(t, "wait", "")
	lines.Scan()
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", pid), 0o644))
	p, err := AcquirePid(t.Context(), path)
	check(t, err)
	p.Release()
	if !alive(pid, time.Now()) {
		t.Error("it was told to leave")
	}
}

// Anybody who may read the file can lock it, and what a dead daemon left in it
// may be the number of anyone.
func TestPidFileLockedByAStrangerSignalsNobody(t *testing.T) {
	pid, lines, _ := play(t, "wait", "")
	lines.Scan()
	path := filepath.Join(t.TempDir(), ".pid.scheduler")
	check(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", pid), 0o644))
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	check(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	if _, err := acquirePid(t.Context(), path, 5*leavePoll); err == nil {
		t.Error("it was had although locked")
	}
	if !alive(pid, time.Now()) {
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
