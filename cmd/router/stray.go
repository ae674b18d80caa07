package main

// Stray entries of router/: directories, symbolic links, FIFOs, sockets and devices, which
// any user can make there. They are no messages, so they are removed, or left where they are,
// and never quarantined.

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"zsched/router"

	"github.com/rs/zerolog"

	"zsched/internal/postoffice"
)

// errNotRegular says that an entry of router/ is no regular file.
var errNotRegular = errors.New("not a regular file")

// entryName is the name in the staging directory of an entry that is being removed.
const entryName = "entry"

// remove removes an entry of router/ that was no regular file. A directory must be empty.
// Another entry is first moved to where no user can replace it: meanwhile, its user may have
// given its name to another program's submission.
func (q *submissions) remove(name string) error {
	path := filepath.Join(q.dir, "router", name)
	info, err := postoffice.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	q.Step("take entry " + name)
	if info.IsDir() {
		return postoffice.RemoveDir(path)
	}
	if err := postoffice.Replace(postoffice.WorkingDir, path, postoffice.WorkingDir, q.staging(entryName)); err != nil {
		return err
	}
	return q.endRemoval()
}

// endRemoval removes the entry in the staging directory. If it is a submission or a
// directory after all, it goes back to router/, under its number.
func (q *submissions) endRemoval() error {
	path := q.staging(entryName)
	info, err := postoffice.Lstat(path)
	if err != nil {
		return err
	}
	q.Step("end removal")
	if !info.IsDir() && !info.Mode().IsRegular() {
		return postoffice.RemovePath(path)
	}
	number := decimal(inodeOf(info))
	err = postoffice.Publish(path, filepath.Join(q.dir, "router", number))
	if errors.Is(err, fs.ErrExist) {
		return q.quarantine(path, number, "another file in router/ has its number")
	}
	return err
}

// strays counts entries of router/ that cannot become messages, until they are logged. A user
// may make thousands of them, so they share one line of each kind.
type strays struct {
	removed, left, full stray
	loggedAt            time.Time
}

// stray counts entries of one kind.
type stray struct {
	n     int
	first string // the name of one of them
}

func (s *stray) count(name string) {
	if s.n == 0 {
		s.first = name
	}
	s.n++
}

// log logs the entries since the last time, at most once in a sweepInterval unless now is
// set.
func (s *strays) log(r *service, now bool) {
	if !now && time.Since(s.loggedAt) < sweepInterval {
		return
	}
	for _, kind := range []struct {
		*stray
		level zerolog.Level
		text  string
	}{
		{&s.removed, zerolog.WarnLevel, "entries of router/ that are not regular files were removed"},
		{&s.left, zerolog.WarnLevel, "entries of router/ that are not regular files cannot be removed, and stay there"},
		{&s.full, zerolog.ErrorLevel, "submissions that cannot be read stay in router/: their user has too many in corrupt/router"},
	} {
		if kind.n > 0 {
			r.log.WithLevel(kind.level).Int("entries", kind.n).Str("file", kind.first).Msg(kind.text)
			*kind.stray, s.loggedAt = stray{}, time.Now()
		}
	}
}

// refuse handles an entry of router/ that is no regular file, or that its user may not have
// in corrupt/router/ as well. It reports false for all others. What cannot be removed is
// tried again, but counted only once.
func (r *service) refuse(name string, err error) bool {
	var bad router.Unreadable
	to := &r.strays.left
	switch {
	case errors.Is(err, errNotRegular):
		if r.queue.remove(name) == nil {
			r.strays.removed.count(name)
			delete(r.retries, name)
			return true
		}
	case errors.As(err, &bad) && r.asideIsFull(name):
		to = &r.strays.full
	default:
		return false
	}
	if _, again := r.retries[name]; !again {
		to.count(name)
	}
	r.retryLater(name, lastRetry)
	return true
}

// asideIsFull reports whether the owner of a submission has too many in corrupt/router/. If
// not, it counts this one.
func (r *service) asideIsFull(name string) bool {
	info, err := postoffice.Lstat(filepath.Join(r.queue.dir, "router", name))
	if err != nil || r.machine.Trusted[ownerOf(info)] {
		return false
	}
	if r.queue.asideOf(ownerOf(info)) >= maxAsideOfUser {
		return true
	}
	r.queue.aside[ownerOf(info)]++
	return false
}
