package process

// The claim of a daemon to a postoffice: one daemon of a kind works there at a time, even if
// its pid file is removed or hidden by a mount.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Claim is the right of one daemon of a kind to work in a postoffice. It consists of locks
// on the pid file and on the staging directory, which end with the process. The
// pid file alone is not enough: it can be removed, or hidden by a mount. The staging directory
// is what two daemons would spoil for each other. Only the daemon's user may write the one
// and open the other, so that nobody else can lock them.
type Claim struct {
	name        string // of the daemon
	pidPath     string
	pidFile     *os.File
	stagingPath string
	stagingDir  *os.File // nil: not locked yet
	dirs        []Directory

	mu sync.Mutex // Check may be called by several goroutines
}

// NewClaim claims a postoffice for the daemon named name. The pid file is .pid.NAME; staging
// is the path of the staging directory below the postoffice, and is made if it is missing; dirs
// are other directories of the postoffice in which the daemon works. The error is
// unix.EWOULDBLOCK if another daemon has claimed it.
func NewClaim(office, name, staging string, dirs ...string) (*Claim, error) {
	c := &Claim{name: name, pidPath: filepath.Join(office, ".pid."+name), stagingPath: filepath.Join(office, staging)}
	for _, dir := range dirs {
		d, err := FindDirectory(filepath.Join(office, dir))
		if err != nil {
			return nil, err
		}
		c.dirs = append(c.dirs, d)
	}
	var err error
	if c.pidFile, err = Lock(c.pidPath, name); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		// The pid file is new, or was left by a daemon that has ended. It says nothing about
		// the daemon that has locked the directory.
		if errors.Is(err, unix.EWOULDBLOCK) {
			_ = postoffice.RemovePath(c.pidPath)
		}
		c.Close()
		return nil, err
	}
	return c, nil
}

// Check returns an error if the daemon must not work now. After ErrReplaced the daemon has to
// end: a directory is another one than at the start. If somebody has removed the staging
// directory or the pid file, Check makes and locks it again. For a nil claim there is nothing
// to check.
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
	// If that is not known, the lock on the directory may be another daemon's.
	same, err := names(c.stagingPath, c.stagingDir)
	if err == nil && !same {
		err = c.lockStaging()
	}
	if err != nil {
		return err
	}
	// The pid file is for people and for mailq, so an error does not matter.
	if same, err := names(c.pidPath, c.pidFile); err == nil && !same {
		if file, err := Lock(c.pidPath, c.name); err == nil {
			_ = c.pidFile.Close()
			c.pidFile = file
		}
	}
	return nil
}

// lockStaging locks the directory that is at the path of the staging directory.
func (c *Claim) lockStaging() error {
	if err := postoffice.MakeDir(postoffice.WorkingDir, c.stagingPath, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: c.stagingPath, Err: err}
	}
	dir, err := LockDir(c.stagingPath, c.name)
	if err != nil && c.stagingDir != nil && errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s is %w: %w", c.stagingPath, ErrReplaced, err)
	}
	if err != nil {
		return err
	}
	if c.stagingDir != nil {
		_ = c.stagingDir.Close()
	}
	c.stagingDir = dir
	return nil
}

// Close gives the claim up.
func (c *Claim) Close() {
	for _, file := range []*os.File{c.pidFile, c.stagingDir} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// LockDir locks a directory in which only one daemon named name may work, so that a second
// one finds it locked even if there is no pid file. The error is then unix.EWOULDBLOCK.
func LockDir(path, name string) (*os.File, error) {
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		postoffice.Close(fd)
		return nil, fmt.Errorf("%q is locked by a %s without a pid file: %w", path, name, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

const (
	// pidFileMode lets everybody read a pid file. Only who can write it can lock it.
	pidFileMode = 0o644
	// pidLength is how many bytes of a pid file are locked.
	pidLength = 32
)

// Lock locks the pid file of a daemon named name. The error is unix.EWOULDBLOCK if another
// process has it locked. The lock ends with the process, or when the file is closed. The
// pid in the file is for people; Daemon tells who has the lock.
func Lock(pidFile, name string) (*os.File, error) {
	fd, err := postoffice.OpenAt(postoffice.WorkingDir, pidFile, os.O_RDWR|os.O_CREATE, pidFileMode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: pidFile, Err: err}
	}
	file := os.NewFile(uintptr(fd), pidFile)
	if _, free := postoffice.LockRange(fd, 0, pidLength); !free {
		err = unix.EWOULDBLOCK
	} else {
		var same bool
		if same, err = names(pidFile, file); err == nil && !same {
			err = unix.EWOULDBLOCK // its holder has just removed it
		}
	}
	if err != nil {
		_ = file.Close()
		err = fmt.Errorf("lock %s: %w", pidFile, err)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("another %s is running in this postoffice: %w", name, err)
		}
		return nil, err
	}
	_ = file.Chmod(pidFileMode) // earlier versions used another mode
	// The disk may be full. The lock counts without the pid.
	if file.Truncate(0) == nil {
		_, _ = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	return file, nil
}

// names reports whether path names an open file, which may be nil.
func names(path string, file *os.File) (bool, error) {
	if file == nil {
		return false, nil
	}
	named, err := os.Stat(path)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := file.Stat()
	return err == nil && os.SameFile(named, open), err
}
