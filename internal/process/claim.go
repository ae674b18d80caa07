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
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Claim is the right of one daemon of a kind to work in a postoffice: a lock on its staging
// directory, which ends with the process. The directory is what two daemons would spoil for
// each other, and only the daemon's user may open it, so nobody else can lock it. The pid file
// is for people and for mailq(1).
type Claim struct {
	dir     Directory // the staging directory
	locked  *os.File
	pidFile string
}

// NewClaim claims a postoffice for the daemon named name. The pid file is .pid.NAME; staging
// is the name of the staging directory below transport/, and is made if it is missing. The
// error is unix.EWOULDBLOCK if another daemon has claimed it, and keeps it for two seconds.
func NewClaim(office, name, staging string) (*Claim, error) {
	path := filepath.Join(office, "transport", staging)
	if err := postoffice.MakeDir(postoffice.WorkingDir, path, 0o700); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	c := &Claim{locked: os.NewFile(uintptr(fd), path), pidFile: filepath.Join(office, ".pid."+name)}
	var st unix.Stat_t
	if err = lock(fd); err != nil {
		err = fmt.Errorf("another %s is running in this postoffice: lock %s: %w", name, path, err)
	} else if err = postoffice.Fstat(fd, &st); err == nil {
		c.dir = Directory{path, st.Dev, st.Ino}
		err = c.Check()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	_ = WritePID(c.pidFile) // the claim counts without it
	return c, nil
}

// lock locks a directory. It tries for two seconds, because the kernel closes the files of a
// daemon that was killed a moment after its end.
func lock(fd int) (err error) {
	for until := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK || time.Now().After(until) {
			return err
		}
	}
}

// Check returns an error if the daemon must not work now. After ErrReplaced the daemon has to
// end: another directory has the name of the locked one, or it is gone, and another daemon may
// work there. For a nil claim there is nothing to check.
func (c *Claim) Check() error {
	if c == nil {
		return nil
	}
	err := c.dir.Check()
	if IsMissing(err) {
		err = fmt.Errorf("%s is %w", c.dir.path, ErrReplaced)
	}
	if err == nil && !postoffice.Exists(postoffice.WorkingDir, c.pidFile) {
		_ = WritePID(c.pidFile) // it could not be written before
	}
	return err
}

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
func (c *Claim) Close() { _ = c.locked.Close() }

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
