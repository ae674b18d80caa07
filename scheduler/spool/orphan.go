package spool

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

const (
	// tendEvery is how often the places are walked for what a crash left.
	tendEvery = time.Hour
	// orphanAge is how long a message file must have been as it is.
	orphanAge = 24 * time.Hour
	// orphanLimit bounds the orphans of one walk; the next finds the rest.
	orphanLimit = 1000
	// secondLook is how long after the first an orphan is looked at again:
	// one whose control file was just removed is about to go itself.
	secondLook = time.Minute
)

// tending is the goroutine that finishes, without haste, what was begun
// before a crash and is in nobody's way.
func (s *Spool) tending() {
	s.discardParcels()
	for {
		if !s.releases() || !s.pause(tendEvery) {
			return
		}
		suspects := s.orphans(time.Now())
		if len(suspects) > 0 && !s.pause(secondLook) {
			return
		}
		for _, path := range suspects {
			if text := s.putAway(path, time.Now()); text != "" {
				s.trouble(text)
			}
		}
	}
}

// pause waits. It is false when the spool was closed meanwhile.
func (s *Spool) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.done:
		return false
	case <-timer.C:
		return true
	}
}

// releases finishes moves into the queue that were cut between their steps:
// the message file is there, the control file still held or parked. It is
// false when the spool was closed meanwhile.
func (s *Spool) releases() bool {
	for _, p := range []Place{Hold, Postman} {
		if !s.stroll(p.dir()+"transport", "", maxDepth, func(path string) bool {
			s.release(path, p)
			return true
		}) {
			return false
		}
	}
	return true
}

func (s *Spool) release(path string, p Place) {
	if exists(s.pairs[p].queue, path) {
		return
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	q := s.pairs[Queue]
	prefix, base := split(path)
	if !lone(q, path) || exists(s.pairs[p].queue, path) || exists(q.transport, prefix+"."+base) {
		return
	}
	if err := transfer(s.pairs[p].transport, path, q.transport, path, Queue.prefixMode()); err != nil {
		s.trouble(fmt.Sprintf("releasing %stransport/%s: %v", p.dir(), path, err))
	}
}

// orphans walks queue/ for message files that nobody answers for.
func (s *Spool) orphans(now time.Time) []string {
	var found []string
	s.stroll("queue", "", maxDepth, func(path string) bool {
		if s.orphaned(path, now) {
			found = append(found, path)
		}
		return len(found) < orphanLimit
	})
	return found
}

// orphaned reports whether a message file has had no control file for a day:
// neither in its place nor in another, finished or in the router's making.
func (s *Spool) orphaned(path string, now time.Time) bool {
	q := s.pairs[Queue]
	if exists(q.transport, path) {
		return false
	}
	var st unix.Stat_t
	if stat(q.queue, path, &st) != nil || !regular(&st) {
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
		if exists(q.transport, dir+base) || exists(q.transport, dir+"."+base) {
			return false
		}
	}
	return !exists(s.pairs[Hold].transport, path) && !exists(s.pairs[Postman].transport, path)
}

// putAway moves an orphan to corrupt/queue, with the reason beside it, and
// returns what to say about it: "" when it is none any more.
func (s *Spool) putAway(path string, now time.Time) string {
	s.moving.Lock()
	defer s.moving.Unlock()
	if !s.orphaned(path, now) {
		return ""
	}
	q, c := s.pairs[Queue], s.pairs[Corrupt]
	reason := "it has had no control file for a day"
	prefix, _ := split(path)
	err := makePrefix(c.queue, prefix, Corrupt.prefixMode())
	for try := 0; err == nil && try < quarantineTries; try++ {
		to := numberedPath(path, try)
		if exists(c.queue, to) || exists(c.transport, to) {
			continue
		}
		text := fmt.Sprintf("queue/%s, %s\n%s\n", path, now.UTC().Format(time.RFC3339), reason)
		if err = writeFile(c.queue, to+reasonSuffix, []byte(text), false); err != nil {
			break
		}
		if err = rename(q.queue, path, c.queue, to); err == nil {
			return fmt.Sprintf("queue/%s: %s; it is corrupt/queue/%s now", path, reason, to)
		}
	}
	if err == nil {
		err = unix.EEXIST
	}
	return fmt.Sprintf("queue/%s: %s; moving it to corrupt/queue: %v", path, reason, err)
}

// stroll visits the numbered files below one directory of the post office and
// its letter directories, resting so long after each piece that it is at work
// for a twentieth of the time. It ends when visit says so, and is false when
// the spool was closed meanwhile.
func (s *Spool) stroll(root, prefix string, depth int, visit func(path string) bool) bool {
	fd, err := openDir(s.office, root+"/"+prefix)
	if err != nil {
		if err != unix.ENOENT {
			s.trouble(fmt.Sprintf("opening %s/%s: %v", root, prefix, err))
		}
		return true
	}
	defer unix.Close(fd)
	buf := make([]byte, direntBytes)
	for {
		startedAt := time.Now()
		read, err := getdents(fd, buf)
		if err != nil {
			s.trouble(fmt.Sprintf("reading %s/%s: %v", root, prefix, err))
		}
		if len(read) == 0 {
			return true
		}
		var letters []string
		for e := range read.all() {
			if n, ok := named(fd, prefix, e); ok {
				if !visit(n.Path) {
					return !s.closed()
				}
			} else if depth > 0 && isLetter(e.name) && isKind(fd, e, unix.DT_DIR) {
				letters = append(letters, string(e.name)+"/")
			}
		}
		if !s.pause(restFactor * time.Since(startedAt)) {
			return false
		}
		for _, letter := range letters {
			if !s.stroll(root, prefix+letter, depth-1, visit) {
				return false
			}
		}
	}
}
