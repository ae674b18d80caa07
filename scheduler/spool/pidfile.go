package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leaveTime is how long a running daemon is given to leave.
	leaveTime = time.Minute
	// leavePoll is how often it is looked after.
	leavePoll = 50 * time.Millisecond
)

// PidFile is the claim of one daemon to one spool. It is held by a lock on
// the file, which ends with the process however that ends; the number in the
// file is for people and for our successor.
type PidFile struct {
	// Unwritten is why the number could not be written, where the disk is full;
	// nil: it was. The claim stands all the same, but a successor does not know
	// whom to ask to leave.
	Unwritten error

	path string
	file *os.File
}

// AcquirePid claims the spool whose pid file is path (.pid.scheduler). A
// daemon that holds it is sent SIGTERM and given a minute to leave. A pid is
// believed only while the file is locked, and open in that process: otherwise
// it may be anyone's. When ctx is done nobody waits any longer, and its cause
// is the error.
func AcquirePid(ctx context.Context, path string) (*PidFile, error) {
	return acquirePid(ctx, path, leaveTime)
}

func acquirePid(ctx context.Context, path string, patience time.Duration) (*PidFile, error) {
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(leavePoll)
	defer ticker.Stop()
	before, signalled := 0, 0
	for {
		p, holder, err := tryPid(path)
		if p != nil || err != nil {
			return p, err
		}
		// Twice the same, because one that has just taken the lock has not
		// written its pid yet.
		if holder == before && holder != signalled && holder > 1 && holder != os.Getpid() && hasOpen(holder, path) {
			if err := unix.Kill(holder, unix.SIGTERM); err != nil && err != unix.ESRCH {
				return nil, fmt.Errorf("asking process %d to leave, which holds %q: %w", holder, path, err)
			}
			signalled = holder
		}
		before = holder
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("pid file %q: process %d holds it and does not leave", path, holder)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("pid file %q: waiting for process %d to leave: %w", path, holder, context.Cause(ctx))
		}
	}
}

// tryPid claims the file if nobody has it; else holder is the pid in it, 0 if
// there is none.
func tryPid(path string) (p *PidFile, holder int, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, 0, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer file.Close()
		return nil, readPid(file), nil
	}
	if err == nil && !sameFile(file, path) {
		// Its holder removed it while we waited at the door; claim the next.
		file.Close()
		return nil, 0, nil
	}
	if err == nil {
		err = writePid(file)
	}
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	if err != nil {
		err = fmt.Errorf("pid file %q: %w", path, err)
	}
	if err != nil && !full {
		file.Close()
		return nil, 0, err
	}
	return &PidFile{err, path, file}, 0, nil
}

func readPid(file *os.File) int {
	var buf [16]byte
	n, _ := file.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

func writePid(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// hasOpen reports whether a process has the file open, as one that holds its
// lock must: anybody who can read the file can lock it, and the number in it
// may be left from one that is dead. Where the system does not tell, it has.
func hasOpen(pid int, path string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	list, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	named, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, fd := range list {
		if open, err := os.Stat(dir + fd.Name()); err == nil && os.SameFile(open, named) {
			return true
		}
	}
	return false
}

// sameFile reports whether path still names the file that is open.
func sameFile(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// Release gives the claim up and removes the file.
func (p *PidFile) Release() {
	if sameFile(p.file, p.path) {
		os.Remove(p.path)
	}
	p.file.Close()
}
