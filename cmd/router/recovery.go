package main

// Recovery: completing or undoing what the staging directory holds after a crash, or
// after an error of the file system in the middle of a batch.

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// staged is what the staging directory holds for one submission.
type staged struct {
	original bool     // the control file of the submission itself is there
	copies   []uint64 // inodes of the copies for other senders
}

// recover completes or undoes what an earlier router left, and what this one could
// not complete because of a failure of the file system. It returns the control files
// that it has moved to their names.
func (q *committer) recover() (paths []string, err error) {
	if err := q.makeStaging(); err != nil {
		return nil, err
	}
	names, err := postoffice.ReadNames(q.staging(""))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	found := map[uint64]*staged{}
	belongs := map[string]bool{} // copies that have a control file
	for _, name := range names {
		first, second, isCopy := strings.Cut(name, "+")
		n, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			continue
		}
		if found[n] == nil {
			found[n] = new(staged)
		}
		if !isCopy {
			found[n].original = true
		} else if m, err := strconv.ParseUint(second, 10, 64); err == nil {
			found[n].copies = append(found[n].copies, m)
			belongs[second+".msg"] = true
		}
	}
	for _, name := range names {
		if name == entryName {
			err = errors.Join(err, q.endRemoval())
		} else if strings.HasPrefix(name, "new-") || strings.HasSuffix(name, ".msg") && !belongs[name] {
			err = errors.Join(err, postoffice.RemovePath(q.staging(name)))
		}
	}
	for n, s := range found {
		done, e := q.resume(n, s)
		paths, err = append(paths, done...), errors.Join(err, e)
	}
	return paths, err
}

// resume completes or undoes one submission: its control files are moved to their
// names if the message is in queue/. Otherwise they are removed, because the
// submission is routed again.
func (q *committer) resume(n uint64, s *staged) (paths []string, err error) {
	if queued, err := q.isQueued(n); err != nil {
		return nil, err
	} else if !queued {
		return nil, q.undo(n, s)
	}
	for _, m := range s.copies {
		message := q.staging(decimal(m) + ".msg")
		if _, e := postoffice.Lstat(message); e == nil {
			q.step("resume copy " + decimal(m))
			if e := q.moveMessage(message, m); e != nil {
				return paths, e
			}
		}
	}
	if err := q.syncfs(); err != nil {
		return paths, err
	}
	for _, m := range s.copies {
		if err := q.publish(decimal(n)+"+"+decimal(m), m); err != nil {
			return paths, err
		}
		paths = append(paths, q.path(m))
	}
	if !s.original {
		return paths, nil
	}
	if len(s.copies) > 0 {
		if err := q.syncfs(); err != nil {
			return paths, err
		}
	}
	return append(paths, q.path(n)), q.publish(decimal(n), n)
}

// isQueued reports whether the message file with inode n is in queue/ under that
// number. It moves the file to the hash directory that is configured now. An error
// says that this could not be found out; then nothing may be undone.
func (q *committer) isQueued(n uint64) (bool, error) {
	for levels := range 3 {
		path := filepath.Join(q.office, "queue", ctlfile.HashDir(n, levels), decimal(n))
		found, err := hasInode(path, n)
		if err != nil {
			return false, err
		}
		if found {
			if levels != q.levels {
				err = q.move(path, "queue", n)
			}
			return err == nil, err
		}
	}
	return false, nil
}

// hasInode reports whether path names the regular file with inode n.
func hasInode(path string, n uint64) (bool, error) {
	info, err := postoffice.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular() && inodeOf(info) == n, err
}

// undo removes what was staged for a submission that is still in router/. If it is
// not there, the control file may be all that is left of the mail, so it is
// quarantined.
func (q *committer) undo(n uint64, s *staged) error {
	var err error
	for _, m := range s.copies {
		q.step("undo copy " + decimal(m))
		if info, e := postoffice.Lstat(q.place("queue", m)); e == nil && inodeOf(info) == m {
			err = errors.Join(err, postoffice.RemovePath(q.place("queue", m)))
		}
		err = errors.Join(err, postoffice.RemovePath(q.staging(decimal(m)+".msg")), postoffice.RemovePath(q.staging(decimal(n)+"+"+decimal(m))))
	}
	if !s.original {
		return err
	}
	keptBack, e := q.isKeptBack(n)
	if e != nil {
		return errors.Join(err, e)
	}
	if keptBack {
		q.step("publish beside the queue " + decimal(n))
		return errors.Join(err, q.publish(decimal(n), n))
	}
	inRouter, e := q.inRouter(n)
	if e != nil {
		return errors.Join(err, e)
	}
	if !inRouter {
		return errors.Join(err, q.quarantine(q.staging(decimal(n)), decimal(n)+".control",
			"its message is neither in router/ nor in queue/"))
	}
	q.step("undo " + decimal(n))
	return errors.Join(err, postoffice.RemovePath(q.staging(decimal(n))))
}

// isKeptBack reports whether the message file with inode n is where the scheduler
// keeps mail that it does not deliver. If it is, the scheduler had the control file
// already, and a power cut has undone the rename. The scheduler moves the control
// file to the directory of its message.
func (q *committer) isKeptBack(n uint64) (found bool, err error) {
	for _, place := range []string{"hold/queue", "postman/queue", "corrupt/queue"} {
		if found, err = hasInode(q.place(place, n), n); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// inRouter reports whether the file with inode n is in router/.
func (q *committer) inRouter(n uint64) (found bool, err error) {
	names, err := q.list()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if found, err = hasInode(filepath.Join(q.office, "router", name), n); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
