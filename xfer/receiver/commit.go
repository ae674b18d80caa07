package receiver

// The commit of a batch: from staged messages to messages in the queue, in the steps of
// the package comment.

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/internal/holdrecord"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
	"zsched/xfer"
)

// take takes a batch and sets the reply of each message. Only the committer calls it.
func (s *Store) take(batch []*arrival) {
	if s.broken {
		if err := s.recover(); err != nil {
			s.fail(batch, err)
			return
		}
	}
	claimed := make(map[string]bool)
	var now []*arrival
	for i, a := range batch {
		if s.collides(a, claimed) {
			// Its recipients are in this batch already: the outcome of that push is
			// to be known first.
			s.commit(now)
			s.take(batch[i:])
			return
		}
		if s.prepare(a) {
			now = append(now, a)
		}
	}
	s.commit(now)
}

// collides claims the origins of a message, and reports whether one was claimed before.
func (s *Store) collides(a *arrival, claimed map[string]bool) bool {
	var ids []string
	for i := range a.control.Recipients {
		from, err := ctlfile.ParseOrigin(a.control.Recipients[i].Origin)
		if err == nil {
			ids = append(ids, from.ID())
		}
	}
	for _, id := range ids {
		if claimed[id] {
			return true
		}
	}
	for _, id := range ids {
		claimed[id] = true
	}
	return false
}

// fail answers messages whose fate is not known yet, or that were not taken: the sender
// tries again.
func (s *Store) fail(batch []*arrival, err error) {
	for _, a := range batch {
		a.reply = xfer.Reply{Code: xfer.Later, Tag: a.push.Tag, Text: err.Error()}
	}
}

// commit does the steps from 2 on.
func (s *Store) commit(batch []*arrival) {
	if len(batch) == 0 {
		return
	}
	if err := s.sync(batch, []string{s.controls, s.messages}); err != nil {
		s.fail(batch, err)
		for _, a := range batch {
			s.discard(a)
		}
		return
	}
	err := s.origins.add(batch)
	if err == nil {
		err = s.publish(batch, s.publishMessage)
	}
	if err == nil {
		err = s.recordHolds(batch)
	}
	if err == nil {
		err = s.publish(batch, s.publishControl)
	}
	if err != nil {
		s.broken = true
		s.fail(batch, err)
		return
	}
	if s.options.Notify != "" {
		for _, a := range batch {
			if a.dir == "" {
				// An error does not matter: the scheduler watches transport/.
				_ = ctlfile.Announce(s.options.Notify, s.below(a))
			}
		}
	}
}

// publish does one step for each message, and syncs the directories.
func (s *Store) publish(batch []*arrival, step func(*arrival) (string, error)) error {
	dirs := make(map[string]bool)
	for _, a := range batch {
		dir, err := step(a)
		if err != nil {
			return err
		}
		dirs[dir] = true
	}
	var list []string
	for dir := range dirs {
		list = append(list, dir)
	}
	return s.sync(nil, list)
}

// below returns the path of a message below transport/ or queue/.
func (s *Store) below(a *arrival) string {
	id, _ := ctlfile.Number(a.name)
	return ctlfile.HashDir(id, s.options.HashLevels) + a.name
}

// publishMessage moves the message file into queue/ and returns the directory. It may be
// there already, if a crash came between this step and the next. It is an error if the
// file is in neither place.
func (s *Store) publishMessage(a *arrival) (dir string, err error) {
	dir, err = s.obtainDir(a.dir+"queue", a)
	if err != nil {
		return "", err
	}
	staged, queued := filepath.Join(s.messages, messagePrefix+a.token), filepath.Join(dir, a.name)
	err = postoffice.Publish(staged, queued)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	info, e := postoffice.Lstat(queued)
	if e != nil || strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) != a.name {
		return "", fmt.Errorf("the message file is gone: %w", err)
	}
	return dir, nil
}

// publishControl moves the control file into transport/ and returns the directory.
func (s *Store) publishControl(a *arrival) (dir string, err error) {
	dir, err = s.obtainDir(a.dir+"transport", a)
	if err != nil {
		return "", err
	}
	return dir, postoffice.Publish(a.staged, filepath.Join(dir, a.name))
}

// recordHolds writes the hold records of held messages, with one record for those that
// were held together. The message file is in its place already.
func (s *Store) recordHolds(batch []*arrival) error {
	var lines []string
	messages := make(map[string][]string) // spoolids by H line
	for _, a := range batch {
		if a.dir == "" || a.hold == "" {
			continue
		}
		if messages[a.hold] == nil {
			lines = append(lines, a.hold)
		}
		info, err := postoffice.Lstat(filepath.Join(s.options.Postoffice, a.dir, "queue", s.below(a)))
		if err != nil {
			return err
		}
		number, _ := ctlfile.Number(a.name)
		messages[a.hold] = append(messages[a.hold], ctlfile.SpoolID(number, info.ModTime()))
	}
	if len(lines) == 0 {
		return nil
	}
	dir := filepath.Join(s.options.Postoffice, holdrecord.Dir)
	if err := postoffice.MakeDir(postoffice.WorkingDir, dir, heldMode); err != nil {
		return fmt.Errorf("making %q: %w", dir, err)
	}
	for _, line := range lines {
		r := holdrecord.ParseLine(line)
		r.Messages = messages[line]
		if r.Since.IsZero() {
			r.Since = time.Now()
		}
		if err := holdrecord.Write(s.office.FD(), &r); err != nil {
			return err
		}
	}
	return syncdir.Sync(dir)
}

// obtainDir returns the hash directory of a message below transport/, queue/ or those of
// hold/, and makes it if it is missing.
func (s *Store) obtainDir(name string, a *arrival) (string, error) {
	prefix, _ := filepath.Split(s.below(a))
	top := filepath.Join(s.options.Postoffice, name)
	dir := filepath.Join(top, prefix)
	if s.made[dir] {
		return dir, nil
	}
	mode := uint32(postoffice.HashDirMode)
	if a.dir != "" {
		mode = heldMode
		for _, part := range []string{filepath.Dir(top), top} {
			if err := postoffice.MakeDir(postoffice.WorkingDir, part, mode); err != nil {
				return "", fmt.Errorf("making %q: %w", part, err)
			}
		}
	}
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, top)
	if err == nil {
		err = postoffice.MakeHashDirs(fd, prefix, mode)
		postoffice.Close(fd)
	}
	if err != nil {
		return "", fmt.Errorf("making %q: %w", dir, err)
	}
	s.made[dir] = true
	return dir, nil
}

// heldMode is the mode of the directories in hold/.
const heldMode = 0o750

// syncAllFrom is the number of files from which one sync of the file system costs less
// than a sync of each.
const syncAllFrom = 5

// sync makes the files of messages and the names in directories durable.
func (s *Store) sync(batch []*arrival, dirs []string) error {
	if 2*len(batch)+len(dirs) >= syncAllFrom {
		for _, root := range s.roots {
			if err := root.SyncAll(); err != nil {
				return err
			}
		}
		return nil
	}
	for _, a := range batch {
		if err := a.message.Sync(); err != nil {
			return err
		}
		if err := syncPath(a.staged); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := syncdir.Sync(dir); err != nil {
			return err
		}
	}
	return nil
}
