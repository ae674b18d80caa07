package queue

// Recovery: completing or removing what is staged after a crash, or after an error of the
// file system in the middle of a commit.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// AwayTime is how long a hash directory that was moved away may come back with its files.
const AwayTime = time.Hour

// hashLevels are all levels of hash directories that there are.
const hashLevels = 3

// Recover completes what an earlier router left, and what this one could not complete
// because of a failure of the file system. It returns the control files that have their
// names now. keep puts a file of the staging directory aside that may be all that is left of
// a mail. A control file whose message is missing stays for AwayTime, with an error, because the
// message may come back with its hash directory.
func (c *Committer) Recover(keep func(path, name, why string) error) (paths []string, err error) {
	if err := c.MakeStaging(); err != nil {
		return nil, err
	}
	names, err := postoffice.ReadNames(c.StagingDir())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		staged := filepath.Join(c.StagingDir(), name)
		n, e := strconv.ParseUint(name, 10, 64)
		if e != nil {
			err = errors.Join(err, keep(staged, name, "a router of an earlier version left it in transport/.router"))
			continue
		}
		queued, e := c.isQueued(n)
		if e == nil && !queued {
			queued, e = c.isKeptBack(n)
		}
		found := false
		if e == nil && !queued {
			e = c.putAside(n, keep)
		}
		if e == nil && !queued {
			found, e = c.isSubmission(n)
		}
		switch {
		case e != nil:
		case queued:
			c.Step("publish " + name)
			if e = c.move(staged, "transport", n); e == nil {
				paths = append(paths, ctlfile.HashDir(n, c.Levels)+name)
			}
		case found: // it is routed again
			c.Step("undo " + name)
			e = postoffice.RemovePath(staged)
		default:
			e = putAsideLone(staged, keep)
		}
		err = errors.Join(err, e)
	}
	return paths, err
}

// putAside puts aside what is in queue/ in place of a message: the owner of the submission had put
// another file under its name, and the router died before it could return that.
func (c *Committer) putAside(n uint64, keep func(path, name, why string) error) error {
	file := c.place("queue", n)
	info, err := postoffice.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Sys().(*syscall.Stat_t).Ino == n:
		return nil
	}
	return keep(file, strconv.FormatUint(n, 10), "its owner has put it in place of a submission")
}

// putAsideLone puts aside a staged control file whose message is missing, if it is old enough.
func putAsideLone(staged string, keep func(path, name, why string) error) error {
	const why = "its message is neither in router/ nor in queue/"
	info, err := postoffice.Lstat(staged)
	if err != nil {
		return err
	}
	if time.Since(info.ModTime()) < AwayTime {
		return fmt.Errorf("%s waits: %s", staged, why)
	}
	return keep(staged, filepath.Base(staged)+".control", why)
}

// isSubmission reports whether the file with inode n is in router/.
func (c *Committer) isSubmission(n uint64) (found bool, err error) {
	err = postoffice.EachSubmission(c.office, func(_ string, info os.FileInfo) bool {
		found = info.Sys().(*syscall.Stat_t).Ino == n
		return !found
	})
	return found, err
}

// isQueued reports whether the message file with inode n is in queue/ under that
// number. It moves the file to the hash directory that is configured now. An error
// says that this could not be found out; then nothing may be undone.
func (c *Committer) isQueued(n uint64) (bool, error) {
	dir, info, err := c.findMessage("queue", n)
	if info != nil && dir != ctlfile.HashDir(n, c.Levels) {
		err = c.move(filepath.Join(c.office, "queue", dir, strconv.FormatUint(n, 10)), "queue", n)
	}
	return info != nil && err == nil, err
}

// isKeptBack reports whether the message file with inode n is where the scheduler
// keeps mail that it does not deliver. If it is, the scheduler had the control file
// already, and a power cut has undone the rename. The scheduler moves the control
// file to the directory of its message.
func (c *Committer) isKeptBack(n uint64) (bool, error) {
	for _, place := range []string{"hold/queue", "corrupt/queue"} {
		if _, info, err := c.findMessage(place, n); info != nil || err != nil {
			return info != nil, err
		}
	}
	return false, nil
}

// findMessage finds the message file with inode n below queue/ or another place, under that number. It
// returns its hash directory and what stat says, or nil if it is not there.
func (c *Committer) findMessage(place string, n uint64) (dir string, info os.FileInfo, err error) {
	for levels := range hashLevels {
		dir = ctlfile.HashDir(n, levels)
		info, err = postoffice.Lstat(filepath.Join(c.office, place, dir, strconv.FormatUint(n, 10)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", nil, err
		case info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Ino == n:
			return dir, info, nil
		}
	}
	return "", nil, nil
}
