package spool

// The janitor completes what a crash has interrupted, and moves orphan message
// files to quarantine.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
)

const (
	// janitorInterval is the time between two passes of the janitor.
	janitorInterval = time.Hour
	// orphanAge is how long an orphan must have been unchanged.
	orphanAge = 24 * time.Hour
	// orphanLimit bounds the orphans of one pass; the next finds the others.
	orphanLimit = 1000
	// recheckDelay is the time between the two examinations of an orphan. A
	// message file whose control file was just removed is about to be removed.
	recheckDelay = time.Minute
)

// janitor is the goroutine that slowly completes the interrupted work that other
// mail need not wait for.
func (s *Spool) janitor() {
	s.removeStale()
	if s.options.Reporter != nil && !s.reportParked() {
		return
	}
	for ; ; s.removeStale() {
		if !s.releases() || !s.resumeEnqueue(time.Now()) || !s.pause(janitorInterval) {
			return
		}
		suspects := s.orphans(time.Now())
		if len(suspects) > 0 && !s.pause(recheckDelay) {
			return
		}
		for _, path := range suspects {
			if text := s.quarantineOrphan(path, time.Now()); text != "" {
				s.warn(text)
			}
		}
	}
}

// pause waits. It returns false if the spool was closed or taken over meanwhile.
func (s *Spool) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.done:
		return false
	case <-timer.C:
		return s.owned()
	}
}

// releases completes moves into the queue that were interrupted between their
// steps: the message file is there, and the control file is still under hold/ or
// postman/. It returns false if the spool was closed meanwhile.
func (s *Spool) releases() bool {
	for _, p := range []Place{Hold, Postman} {
		if !s.slowWalk(p.dir()+"transport", "", maxDepth, func(path string) bool {
			s.release(path, p)
			return true
		}) {
			return false
		}
	}
	return true
}

// unfinishedAge is how old a control file with a temporary name has to be before
// it counts as left by a crash of the router.
const unfinishedAge = 15 * time.Minute

// resumeEnqueue completes what a crash interrupted between the last steps of
// putting a message into the queue: the control file still has its temporary
// name ".N". If the message file is in queue/ already, it is nowhere else, and
// the control file gets its name. Otherwise the message is where it was before,
// and the control file is removed after a day. It returns false if the spool was
// closed meanwhile.
func (s *Spool) resumeEnqueue(now time.Time) bool {
	return s.slowWalkFor(unfinishedName, "transport", "", maxDepth, func(temp string) bool {
		s.resumeOne(temp, now)
		return true
	})
}

// unfinishedName is the path of a directory entry that is a control file with a
// temporary name.
func unfinishedName(dir int, prefix string, e dirent) (path string, ok bool) {
	if len(e.name) < 2 || e.name[0] != '.' {
		return "", false
	}
	_, ok = named(dir, prefix, dirent{e.name[1:], unix.DT_REG})
	return prefix + string(e.name), ok && isKind(dir, e, unix.DT_REG)
}

func (s *Spool) resumeOne(temp string, now time.Time) {
	prefix, base := split(temp)
	base = base[1:]
	q, path := s.pair(Queue), prefix+base
	var st unix.Stat_t
	if postoffice.Stat(q.transport, temp, &st) != nil {
		return
	}
	age := now.Sub(time.Unix(st.Mtim.Unix()))
	s.moving.Lock()
	defer s.moving.Unlock()
	if !messageOnly(q, path) {
		if age > orphanAge {
			_ = postoffice.Remove(q.transport, temp)
		}
		return
	}
	if age < unfinishedAge {
		return
	}
	var buf []byte
	d, err := readControl(s.control, q.transport, temp, unix.O_RDONLY, &buf)
	var bad *malformed
	switch {
	case errors.As(err, &bad) || err == nil && d.file.Name != base:
		// The router had not put it on disk. The message becomes an orphan.
		if age > orphanAge {
			_ = postoffice.Remove(q.transport, temp)
		}
		return
	case err == nil:
		err = postoffice.Rename(q.transport, temp, q.transport, path)
	}
	if err != nil {
		s.warn(fmt.Sprintf("completing transport/%s, which a crash left: %v", temp, err))
		return
	}
	s.warn(fmt.Sprintf("a crash left transport/%s; it is transport/%s now", temp, path))
}

func (s *Spool) release(path string, p Place) {
	if postoffice.Exists(s.pair(p).queue, path) {
		return
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	q := s.pair(Queue)
	prefix, base := split(path)
	if !messageOnly(q, path) || postoffice.Exists(s.pair(p).queue, path) || postoffice.Exists(q.transport, prefix+"."+base) {
		return
	}
	if s.hasStaged() {
		return // the message may be a new one with the number of a message that is gone
	}
	if err := moveFile(s.pair(p).transport, path, q.transport, path, Queue.prefixMode()); err != nil {
		s.warn(fmt.Sprintf("releasing %stransport/%s: %v", p.dir(), path, err))
	}
}

// orphans walks through queue/ and returns the orphans.
func (s *Spool) orphans(now time.Time) []string {
	var found []string
	if s.hasStaged() {
		return nil
	}
	s.slowWalk("queue", "", maxDepth, func(path string) bool {
		if s.orphaned(path, now) {
			found = append(found, path)
		}
		return len(found) < orphanLimit
	})
	return found
}

// hasStaged reports whether there are staged control files, of any program, whose messages
// may be in queue/ already. Their programs complete or remove them.
func (s *Spool) hasStaged() bool {
	for _, dir := range queue.StagingDirs {
		names, _ := postoffice.ReadNamesAt(s.pair(Queue).transport, dir)
		if slices.ContainsFunc(names, func(name string) bool {
			_, ok := ctlfile.Number(strings.TrimPrefix(name, "S"))
			return ok
		}) {
			return true
		}
	}
	return false
}

// orphaned reports whether a message file has had no control file for a day, in
// its place or another, under its own name or the router's temporary one.
func (s *Spool) orphaned(path string, now time.Time) bool {
	q := s.pair(Queue)
	if postoffice.Exists(q.transport, path) {
		return false
	}
	var st unix.Stat_t
	if postoffice.Stat(q.queue, path, &st) != nil || !postoffice.IsRegular(&st) {
		return false
	}
	since := now.Add(-orphanAge)
	if time.Unix(st.Mtim.Unix()).After(since) || time.Unix(st.Ctim.Unix()).After(since) {
		return false
	}
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	for levels := range maxDepth + 1 {
		dir := ctlfile.HashDir(id, levels)
		if postoffice.Exists(q.transport, dir+base) || postoffice.Exists(q.transport, dir+"."+base) {
			return false
		}
	}
	return !postoffice.Exists(s.pair(Hold).transport, path) && !postoffice.Exists(s.pair(Postman).transport, path)
}

// quarantineOrphan moves an orphan to corrupt/queue, writes the reason beside it
// and returns a text for the log; "" if the file is no longer an orphan.
func (s *Spool) quarantineOrphan(path string, now time.Time) string {
	s.moving.Lock()
	defer s.moving.Unlock()
	if !s.orphaned(path, now) {
		return ""
	}
	reason := "it has had no control file for a day"
	q := s.pair(Queue)
	prefix, _ := split(path)
	c, err := s.obtainPair(Corrupt)
	if err == nil {
		err = postoffice.MakeHashDirs(c.queue, prefix, Corrupt.prefixMode())
	}
	for try := 0; err == nil && try < quarantineTries; try++ {
		to := numberedPath(path, try)
		if postoffice.Exists(c.queue, to) || postoffice.Exists(c.transport, to) {
			continue
		}
		text := fmt.Sprintf("queue/%s, %s\n%s\n", path, now.UTC().Format(time.RFC3339), reason)
		if err = postoffice.WriteFile(c.queue, to+reasonSuffix, []byte(text), false); err != nil {
			break
		}
		if err = postoffice.Rename(q.queue, path, c.queue, to); err == nil {
			return fmt.Sprintf("queue/%s: %s; it is corrupt/queue/%s now", path, reason, to)
		}
	}
	if err == nil {
		err = unix.EEXIST
	}
	return fmt.Sprintf("queue/%s: %s; moving it to corrupt/queue: %v", path, reason, err)
}

// slowWalk visits the numbered files below a directory of the postoffice and in
// its hash directories. It works only a twentieth of the time. It ends when visit
// returns false, and returns false if the spool was closed meanwhile.
func (s *Spool) slowWalk(root, prefix string, depth int, visit func(path string) bool) bool {
	return s.slowWalkFor(func(dir int, prefix string, e dirent) (string, bool) {
		n, ok := named(dir, prefix, e)
		return n.Path, ok
	}, root, prefix, depth, visit)
}

// slowWalkFor is slowWalk for the files that pick chooses, whose paths it returns.
func (s *Spool) slowWalkFor(pick func(dir int, prefix string, e dirent) (path string, ok bool),
	root, prefix string, depth int, visit func(path string) bool) bool {
	fd, err := postoffice.OpenDir(s.office, root+"/"+prefix)
	if err != nil {
		if err != unix.ENOENT {
			s.warn(fmt.Sprintf("opening %s/%s: %v", root, prefix, err))
		}
		return true
	}
	defer postoffice.Close(fd)
	buf := make([]byte, direntBytes)
	for {
		startedAt := time.Now()
		read, err := getdents(fd, buf)
		if err != nil {
			s.warn(fmt.Sprintf("reading %s/%s: %v", root, prefix, err))
		}
		if len(read) == 0 {
			return true
		}
		var hashDirs []string
		for e := range read.all() {
			if path, ok := pick(fd, prefix, e); ok {
				if !visit(path) {
					return !s.closed()
				}
			} else if depth > 0 && isHashDir(e.name) && isKind(fd, e, unix.DT_DIR) {
				hashDirs = append(hashDirs, string(e.name)+"/")
			}
		}
		if !s.pause(restFactor * time.Since(startedAt)) {
			return false
		}
		for _, dir := range hashDirs {
			if !s.slowWalkFor(pick, root, prefix+dir, depth-1, visit) {
				return false
			}
		}
	}
}
