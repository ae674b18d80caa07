package spool

// The pid file: one scheduler at a time in a postoffice.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/process"
)

const (
	// leaveTimeout is how long a running scheduler may take to exit.
	leaveTimeout = time.Minute
	// leavePoll is how often the pid file is tried meanwhile.
	leavePoll = 50 * time.Millisecond
)

// pidFileMode keeps other users out: whoever can open the file can lock it.
const pidFileMode = 0o600

// PidFile is the claim of one scheduler to one spool. It is held by a lock on the
// file (flock(2)), which ends with the process. The pid in the file is for people
// and for the next scheduler.
type PidFile struct {
	// Unwritten is why the pid file could not be made or written on a full disk,
	// or nil. The claim is still valid, but the next scheduler does not know which
	// process to ask to exit.
	Unwritten error

	path string
	file *os.File // nil if it could not be made
	// transport holds a lock on the directory transport/, which keeps a second
	// scheduler out when there is no pid file.
	transport *os.File
}

// AcquirePid claims the spool whose pid file is path (.pid.scheduler).
//
// A scheduler that holds the claim is sent SIGTERM and has a minute to exit; it is
// never killed. Its pid is believed if the file is locked and that process has it
// open. ZMailer's scheduler does not lock the file: the pid in a file that no
// process has locked is believed if the process is named "scheduler" and is not
// younger than the file.
//
// When ctx is done, AcquirePid stops waiting and returns its cause.
func AcquirePid(ctx context.Context, path string) (*PidFile, error) {
	return acquirePid(ctx, path, leaveTimeout, true)
}

// ErrRunning says that another scheduler has the spool.
var ErrRunning = errors.New("another scheduler is running")

// ClaimPid claims the spool as AcquirePid does if no other scheduler runs. If
// one does, the error is ErrRunning and it is left alone.
func ClaimPid(ctx context.Context, path string) (*PidFile, error) {
	return acquirePid(ctx, path, leaveTimeout, false)
}

// acquirePid asks a running scheduler to leave if replace is true.
func acquirePid(ctx context.Context, path string, timeout time.Duration, replace bool) (*PidFile, error) {
	deadline := time.Now().Add(timeout)
	ticker := time.NewTicker(leavePoll)
	defer ticker.Stop()
	before, signalled := 0, 0
	for {
		p, holder, err := tryPid(path)
		if err != nil || p != nil && holder == 0 {
			return p, err
		}
		// A scheduler that has just locked the file has not written its pid yet,
		// so the pid in a locked file has to be the same twice.
		believed := holder == before && holder > 1 && holder != os.Getpid() && hasOpen(holder, path)
		if p != nil {
			p.file.Close()
			believed = true
		}
		if believed && !replace {
			return nil, fmt.Errorf("pid file %q: process %d: %w", path, holder, ErrRunning)
		}
		if believed && holder != signalled {
			if err := unix.Kill(holder, unix.SIGTERM); err != nil && err != unix.ESRCH {
				return nil, fmt.Errorf("asking process %d, which holds %q, to exit: %w", holder, path, err)
			}
			signalled = holder
		}
		before = holder
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("pid file %q: process %d holds it and does not exit", path, holder)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("pid file %q: waiting for process %d to exit: %w", path, holder, context.Cause(ctx))
		}
	}
}

// tryPid locks the file and writes our pid, unless another scheduler is running that
// does not lock the file. p is nil if another process has the lock. holder is the pid
// of a scheduler that may have to leave, 0 if there is none.
func tryPid(path string) (p *PidFile, holder int, err error) {
	fd, err := postoffice.OpenAt(postoffice.WorkingDir, path, os.O_RDWR|os.O_CREATE, pidFileMode)
	if err != nil {
		err = &os.PathError{Op: "open", Path: path, Err: err}
		if !isFull(err) {
			return nil, 0, err
		}
		transport, e := lockTransport(path)
		if transport == nil {
			return nil, 0, errors.Join(err, e)
		}
		return &PidFile{Unwritten: err, path: path, transport: transport}, 0, nil
	}
	file := os.NewFile(uintptr(fd), path)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		defer file.Close()
		return nil, readPid(file), nil
	}
	if err == nil && !sameFile(file, path) {
		// The process that held the lock has removed the file.
		file.Close()
		return nil, 0, nil
	}
	if err == nil {
		if holder := unlockedScheduler(file); holder > 0 {
			return &PidFile{path: path, file: file}, holder, nil
		}
		err = file.Chmod(pidFileMode) // earlier versions used another mode
	}
	if err == nil {
		err = writePid(file)
	}
	if err != nil {
		err = fmt.Errorf("pid file %q: %w", path, err)
	}
	if err != nil && !isFull(err) {
		file.Close()
		return nil, 0, err
	}
	transport, e := lockTransport(path)
	if e != nil {
		// Another scheduler is running, which could not make a pid file.
		_ = postoffice.RemovePath(path)
		file.Close()
		return nil, 0, e
	}
	return &PidFile{err, path, file, transport}, 0, nil
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// lockTransport locks the directory transport/ beside the pid file. The file is
// nil if there is no such directory. Only users who can write control files can
// open it, so nobody else can take the lock. The error says that another process
// has it.
func lockTransport(pidFile string) (*os.File, error) {
	file, err := process.LockDir(filepath.Join(filepath.Dir(pidFile), "transport"), "scheduler")
	var missing *os.PathError
	if errors.As(err, &missing) {
		return nil, nil
	}
	return file, err
}

// unlockedScheduler returns the pid in the file if that is a running scheduler
// which does not lock it, such as ZMailer's, and 0 otherwise.
func unlockedScheduler(file *os.File) int {
	pid := readPid(file)
	info, err := file.Stat()
	if err != nil || pid <= 1 || pid == os.Getpid() || !process.RunningSince(pid, info.ModTime()) {
		return 0
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil || string(bytes.TrimSpace(name)) != "scheduler" {
		return 0
	}
	return pid
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

// hasOpen reports whether a process has the file open, as the holder of its lock
// must. The pid in the file may be that of a dead process: a child that it was just
// starting keeps the lock until it executes its program. If the system does not say, the
// answer is yes.
func hasOpen(pid int, path string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	list, err := os.ReadDir(dir)
	if err != nil {
		return process.Exists(pid)
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

// sameFile reports whether path still names the open file.
func sameFile(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// Release gives up the claim and removes the file, unless another scheduler has
// written its own pid into it, as ZMailer's does without the lock.
func (p *PidFile) Release() {
	if p.transport != nil {
		p.transport.Close()
	}
	if p.file == nil {
		return
	}
	if sameFile(p.file, p.path) && (p.Unwritten != nil || readPid(p.file) == os.Getpid()) {
		_ = postoffice.RemovePath(p.path)
	}
	p.file.Close()
}

// RouterRuns reports whether the router of a postoffice runs, and whether one ever
// ran there.
func RouterRuns(office string) (running, ever bool) {
	return process.Daemon(office, "router")
}
