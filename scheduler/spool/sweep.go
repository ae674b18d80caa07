package spool

// The sweep, which reads transport/ for control files.

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// batchLimit bounds the names of one batch.
	batchLimit = 256
	// batchDelay is how long a batch that is not full waits for more names.
	batchDelay = time.Millisecond
	// direntBytes is how much of a directory is read at once.
	direntBytes = 32 << 10
	// maxDepth is how many levels of hash directories there are.
	maxDepth = 2
)

// sweeper reads the directories as a stream: it announces the names that one
// system call has found before it makes the next, so that the first names of a
// large directory are loaded while the rest is read.
type sweeper struct {
	s       *Spool
	buffers [maxDepth + 1][]byte
	batch   []Name
	begunAt time.Time     // when the batch got its first name
	waited  time.Duration // for the receiver, in this sweep
	limitAt time.Time     // when this sweep, or part of it, has taken NewTime
	asked   uint64        // names passed to Load before those that NewLimit counts
	// failing are the directories that cannot be read, by prefix, with the error
	// that was reported. incomplete says that this sweep has found one.
	failing        map[string]string
	incomplete     bool
	holdsChangedAt time.Time // mtime of hold/orders when hold/ was read last
}

// sweeping is the goroutine that sweeps.
func (s *Spool) sweeping() {
	w := &sweeper{s: s, failing: map[string]string{}}
	var plan schedule
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.sweeps:
			plan.hasten()
			timer.Reset(plan.rest(time.Now()))
			continue
		case <-timer.C:
		}
		startedAt := time.Now()
		whole := plan.whole(startedAt)
		read, open := w.sweep(whole)
		if !open {
			return
		}
		endedAt := time.Now()
		if read {
			asked, answered := s.queue.counts()
			plan.swept(endedAt, whole, endedAt.Sub(startedAt)-w.waited, asked-answered)
		}
		if !read || w.incomplete {
			plan.failed(endedAt)
		}
		timer.Reset(plan.rest(endedAt))
		if read && whole {
			s.queue.add([]Result{Swept{}}, 0)
		}
	}
}

// sweep reads transport/ and, if whole is set, its hash directories. read is
// false if it could not begin; open is false if the spool was closed meanwhile.
func (w *sweeper) sweep(whole bool) (read, open bool) {
	w.waited, w.incomplete = 0, false
	w.asked, _ = w.s.queue.counts()
	w.limitAt = time.Now().Add(w.s.options.NewTime)
	depth := 0
	if whole {
		depth = maxDepth
	}
	if _, lost := w.s.examine(); lost != nil {
		w.s.disown(lost)
		return false, false
	}
	fd, err := postoffice.OpenDir(w.s.office, "transport")
	if err != nil {
		w.fail("", "opening", err)
		return false, true
	}
	defer postoffice.Close(fd)
	open = w.read(fd, "", depth) && w.flush()
	if changedAt := changedAt(w.s.office, ordersDir); open && (whole || changedAt != w.holdsChangedAt) {
		w.holdsChangedAt = changedAt
		open = w.readHold() && w.flush()
	}
	return true, open
}

// readHold announces the control files under hold/. xferd puts some there, with records.
func (w *sweeper) readHold() bool {
	fd, err := postoffice.OpenDir(w.s.office, "hold/transport")
	if err != nil {
		w.fail(underHold, "opening", err)
		return true
	}
	defer postoffice.Close(fd)
	return w.read(fd, underHold, maxDepth)
}

// read announces the control files of a directory and of the hash directories in
// it, down to depth.
func (w *sweeper) read(fd int, prefix string, depth int) bool {
	if w.buffers[depth] == nil {
		w.buffers[depth] = make([]byte, direntBytes)
	}
	for {
		read, err := getdents(fd, w.buffers[depth])
		if err != nil {
			w.fail(prefix, "reading", err)
			return true
		}
		if len(read) == 0 {
			delete(w.failing, prefix)
			return true
		}
		for e := range read.all() {
			if !w.visit(fd, prefix, depth, e) {
				return false
			}
		}
		if len(w.batch) > 0 && time.Since(w.begunAt) > batchDelay && !w.flush() {
			return false
		}
		if w.s.closed() {
			return false
		}
	}
}

func (w *sweeper) visit(fd int, prefix string, depth int, e dirent) bool {
	if depth > 0 && isHashDir(e.name) && isKind(fd, e, unix.DT_DIR) {
		sub := prefix + string(e.name) + "/"
		child, err := postoffice.OpenAt(fd, string(e.name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			if err != unix.ENOENT {
				w.fail(sub, "opening", err)
			}
			return true
		}
		defer postoffice.Close(child)
		if !strings.HasPrefix(prefix, underHold) {
			w.s.watcher.watch(sub)
		}
		return w.read(child, sub, depth-1)
	}
	name, ok := named(fd, prefix, e)
	if !ok {
		return true
	}
	if len(w.batch) == 0 {
		w.batch = make([]Name, 0, batchLimit)
		w.begunAt = time.Now()
	}
	w.batch = append(w.batch, name)
	return len(w.batch) < min(batchLimit, w.s.options.NewLimit) || w.flush()
}

// fail notes that a directory cannot be read, and reports a new error once. The
// next sweep is a whole one again.
func (w *sweeper) fail(prefix, doing string, err error) {
	w.incomplete = true
	place, path := placeOf(prefix)
	text := fmt.Sprintf("%s %stransport/%s: %v", doing, place.dir(), path, err)
	if w.failing[prefix] != text {
		w.failing[prefix] = text
		w.s.warn(text)
	}
}

// flush announces the batch and, at a limit of this sweep, waits until all names
// are loaded. Which names of a batch the receiver has passed to Load is only known
// when it receives the next one.
func (w *sweeper) flush() bool {
	names := w.s.refusals.skip(w.batch)
	w.batch = nil
	if len(names) == 0 {
		return true
	}
	sentAt := time.Now()
	if !w.s.announce(names) {
		return false
	}
	now := time.Now()
	w.waited += now.Sub(sentAt)
	asked, _ := w.s.queue.counts()
	if asked-w.asked < uint64(w.s.options.NewLimit) && now.Before(w.limitAt) {
		return true
	}
	for _, answered := w.s.queue.counts(); answered < asked; _, answered = w.s.queue.counts() {
		select {
		case <-w.s.done:
			return false
		case <-w.s.queue.progress:
		}
	}
	w.waited += time.Since(now)
	w.asked = asked
	w.limitAt = time.Now().Add(w.s.options.NewTime)
	return true
}

// announce sends names to the receiver. It returns false if the spool was closed
// meanwhile.
func (s *Spool) announce(names []Name) bool {
	select {
	case s.found <- names:
		return true
	case <-s.done:
		return false
	}
}

// schedule says when the next sweep is and how much of the tree it reads. The top
// of transport/ is read every 10 to 20 s, depending on the backlog, and the whole
// tree every 120 s or on request. Sweeping takes at most a twentieth of the time.
type schedule struct {
	nextAt  time.Time // of any sweep
	wholeAt time.Time // of the next whole one
	restAt  time.Time // no sweep begins before this, even on request
}

const (
	topEvery   = 10 * time.Second
	wholeEvery = 120 * time.Second
	perBacklog = 32 // names being loaded that delay the next sweep by a second
	restFactor = 19 // seconds of rest for each second of work
)

// swept notes the end of a sweep. busy is the time that it took, without waits
// for the receiver.
func (p *schedule) swept(now time.Time, whole bool, busy time.Duration, backlog uint64) {
	p.restAt = now.Add(restFactor * max(busy, 0))
	p.nextAt = now.Add(topEvery + time.Duration(min(10, backlog/perBacklog))*time.Second)
	if whole {
		p.wholeAt = now.Add(wholeEvery)
	}
}

// failed notes that a sweep was not complete. The next is a whole one.
func (p *schedule) failed(now time.Time) {
	p.nextAt = now.Add(topEvery)
	p.wholeAt = p.nextAt
}

// hasten makes the next sweep a whole one, as soon as possible.
func (p *schedule) hasten() { p.nextAt, p.wholeAt = time.Time{}, time.Time{} }

// rest returns how long to wait for the next sweep.
func (p *schedule) rest(now time.Time) time.Duration {
	at := p.nextAt
	if p.wholeAt.Before(at) {
		at = p.wholeAt
	}
	if at.Before(p.restAt) {
		at = p.restAt
	}
	return max(at.Sub(now), 0)
}

// whole reports whether a sweep that begins now reads the whole tree.
func (p *schedule) whole(now time.Time) bool { return !now.Before(p.wholeAt) }
