package process

// The claim of a daemon to a postoffice: one daemon of a kind works there at a time, whatever
// becomes of its pid file.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Claim is the right of one daemon of a kind to work in a postoffice: a lock on its staging
// directory, which ends with the process. The directory is what two daemons would spoil for
// each other, and only the daemon's user may open it, so nobody else can lock it. The pid file
// is for people and for mailq(1).
type Claim struct {
	name    string // of the daemon
	pidFile string
	dirs    []Directory

	mu      sync.Mutex // Check may be called by several goroutines
	staging string
	locked  *os.File // the staging directory; nil: not locked yet
}

// NewClaim claims a postoffice for the daemon named name. The pid file is .pid.NAME; staging
// is the name of the staging directory below transport/, and is made if it is missing; dirs
// are other directories of the postoffice in which the daemon works. The error is
// unix.EWOULDBLOCK if another daemon has claimed it.
func NewClaim(office, name, staging string, dirs ...string) (*Claim, error) {
	c := &Claim{name: name, pidFile: filepath.Join(office, ".pid."+name), staging: filepath.Join(office, "transport", staging)}
	for _, dir := range dirs {
		d, err := FindDirectory(filepath.Join(office, dir))
		if err != nil {
			return nil, err
		}
		c.dirs = append(c.dirs, d)
	}
	if err := c.Check(); err != nil {
		c.Close()
		return nil, err
	}
	c.writePID()
	return c, nil
}

// Check returns an error if the daemon must not work now. After ErrReplaced the daemon has to
// end: a directory is another one than at the start. If somebody has removed the staging
// directory or the pid file, Check makes it again. For a nil claim there is nothing to check.
func (c *Claim) Check() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dirs {
		err := d.Check()
		if IsMissing(err) {
			return fmt.Errorf("%s is %w", d.path, ErrReplaced)
		}
		if err != nil {
			return err
		}
	}
	if err := c.lock(); err != nil {
		return err
	}
	if _, err := postoffice.Lstat(c.pidFile); errors.Is(err, unix.ENOENT) {
		c.writePID()
	}
	return nil
}

// lock locks the staging directory, unless the one at its path is locked already.
func (c *Claim) lock() error {
	if c.locked != nil {
		named, err := os.Stat(c.staging)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err // the lock on the directory may be another daemon's
		}
		if open, e := c.locked.Stat(); err == nil && (e != nil || os.SameFile(named, open)) {
			return e
		}
	}
	if err := postoffice.MakeDir(postoffice.WorkingDir, c.staging, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: c.staging, Err: err}
	}
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, c.staging)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.staging, Err: err}
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		postoffice.Close(fd)
		if c.locked != nil {
			return fmt.Errorf("%s is %w, and locked: %w", c.staging, ErrReplaced, err)
		}
		return fmt.Errorf("another %s is running in this postoffice: lock %s: %w", c.name, c.staging, err)
	}
	if c.locked != nil {
		_ = c.locked.Close()
	}
	c.locked = os.NewFile(uintptr(fd), c.staging)
	return nil
}

// writePID writes the pid file. An error does not matter: the claim counts without it.
func (c *Claim) writePID() { _ = WritePID(c.pidFile) }

// WritePID writes our pid into a pid file.
func WritePID(path string) error {
	fd, err := postoffice.OpenAt(postoffice.WorkingDir, path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	_ = file.Chmod(0o644) // earlier versions used another mode
	_, err = fmt.Fprintln(file, os.Getpid())
	return errors.Join(err, file.Close())
}

// Close gives the claim up.
func (c *Claim) Close() {
	if c.locked != nil {
		_ = c.locked.Close()
	}
}

// Daemon reports whether the daemon of a postoffice that is named name is running, and
// whether one ever ran: the process whose pid is in its pid file runs, and its name begins
// with that name.
func Daemon(office, name string) (running, ever bool) {
	text, err := os.ReadFile(filepath.Join(office, ".pid."+name))
	if err != nil {
		return false, !os.IsNotExist(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || !Exists(pid) {
		return false, true
	}
	command, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.HasPrefix(string(command), name), true
}
