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
	"zsched/queue"
	"zsched/xfer"
)

// take takes a batch and sets the reply of each message. Only the committer calls it.
func (s *Store) take(batch []*arrival) {
	if err := s.ready(); err != nil {
		s.fail(batch, err)
		for _, a := range batch {
			s.discard(a)
		}
		return
	}
	s.origins.begin()
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

// ready recovers if a batch has failed, and makes directories that somebody has removed.
func (s *Store) ready() error {
	if err := s.check(); err != nil {
		return err
	}
	if !s.broken {
		return s.keepOrigins()
	}
	return s.recover()
}

// check returns an error if the directories of the queue are not those of the start.
func (s *Store) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// keepOrigins makes the directories and the file of origins again, with the origins that
// are in memory, if somebody has removed them.
func (s *Store) keepOrigins() error {
	if s.origins == nil || !s.origins.gone() {
		return nil
	}
	err := s.makeDirs()
	if err == nil {
		err = s.origins.rewrite()
	}
	if err != nil {
		return fmt.Errorf("writing the origins again, whose file is gone: %w", err)
	}
	return nil
}

// taken answers which recipients were taken, also those whose message is not in the queue
// yet: it will be.
func (s *Store) taken(have xfer.Have) xfer.Reply {
	if err := s.ready(); err != nil {
		return xfer.Reply{Code: xfer.Later, Tag: have.Tag, Text: err.Error()}
	}
	reply := xfer.Reply{Code: xfer.Accepted, Tag: have.Tag}
	for _, offset := range have.Offsets {
		if _, found := s.origins.taken[have.ID(offset)]; found {
			reply.Taken = append(reply.Taken, offset)
		}
	}
	return reply
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

// commit does the steps of the package comment from 2 on.
func (s *Store) commit(batch []*arrival) {
	if len(batch) == 0 {
		return
	}
	err := s.sync(batch, []string{s.controls, s.messages})
	if err == nil {
		err = s.check()
	}
	if err != nil {
		s.fail(batch, err)
		for _, a := range batch {
			s.discard(a)
		}
		return
	}
	err = s.origins.add(batch)
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
		if e := s.forgetLost(batch); e != nil {
			err = errors.Join(err, e)
		}
		s.fail(batch, err)
		return
	}
	if s.options.Notify != "" {
		for _, a := range batch {
			if a.dir == "" {
				// An error does not matter: the scheduler watches transport/.
				_ = queue.Announce(s.options.Notify, s.below(a))
			}
		}
	}
}

// forgetLost forgets the origins of messages that can never come into the queue, because
// somebody has removed their files since they were synced: the node is to push them again.
func (s *Store) forgetLost(batch []*arrival) error {
	var err error
	lost := false
	for _, a := range batch {
		if a.queued || postoffice.Exists(postoffice.WorkingDir, a.staged) && s.hasMessage(a) {
			continue
		}
		for _, done := range xfer.DoneWith(a.origins) {
			if e := s.origins.forget(done); err == nil {
				err = e
			}
		}
		lost = true
	}
	if lost && err == nil {
		err = postoffice.SyncData(s.origins.file.FD())
	}
	return err
}

// hasMessage reports whether the message file is among the staged ones or in the queue.
func (s *Store) hasMessage(a *arrival) bool {
	if postoffice.Exists(postoffice.WorkingDir, filepath.Join(s.messages, messagePrefix+a.token)) {
		return true
	}
	info, err := postoffice.Lstat(filepath.Join(s.options.Postoffice, a.dir+"queue", s.below(a)))
	return err == nil && inode(info) == a.name
}

// inode returns the number of a file, which is the name of a message in the queue.
func inode(info fs.FileInfo) string {
	return strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
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
	if e != nil || inode(info) != a.name {
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
	err = postoffice.Publish(a.staged, filepath.Join(dir, a.name))
	a.queued = err == nil
	return dir, err
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
	return postoffice.SyncDir(dir)
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
		if err := postoffice.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
