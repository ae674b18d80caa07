package spool

// The sweep, which reads transport/ for control files.

import (
	"fmt"
	"time"

	"zsched/internal/postoffice"
)

const (
	// batchLimit bounds the names of one batch.
	batchLimit = 256
	// batchDelay is how long a batch that is not full waits for more names.
	batchDelay = time.Millisecond
)

// sweeper announces the names in transport/ and hold/transport.
type sweeper struct {
	s       *Spool
	walker  walker
	place   string // "", or underHold
	batch   []Name
	begunAt time.Time     // when the batch got its first name
	waited  time.Duration // for the receiver, in this sweep
	limitAt time.Time     // when this sweep, or part of it, has taken NewTime
	asked   uint64        // names passed to Load before those that NewLimit counts
	// failed are the errors of directories that the last sweep could not read, and failing
	// those of this one.
	failed, failing map[string]bool
	holdsChangedAt  time.Time // mtime of hold/orders when hold/ was read last
}

func newSweeper(s *Spool) *sweeper {
	w := &sweeper{s: s, failing: map[string]bool{}}
	w.walker = walker{visit: w.visit, enter: w.enter, after: w.after, fail: w.fail}
	return w
}

// sweeping is the goroutine that sweeps.
func (s *Spool) sweeping() {
	w := newSweeper(s)
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
		if !read || len(w.failing) > 0 {
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
	w.waited, w.failed, w.failing = 0, w.failing, map[string]bool{}
	w.asked, _ = w.s.queue.counts()
	w.limitAt = time.Now().Add(w.s.options.NewTime)
	depth := 0
	if whole {
		depth = maxDepth
	}
	if _, lost := w.s.standing.examine(); lost != nil {
		w.s.standing.disown(lost)
		return false, false
	}
	fd, err := postoffice.OpenDir(w.s.places.office, "transport")
	if err != nil {
		w.fail("opening", "", err)
		return false, true
	}
	defer postoffice.Close(fd)
	open = w.walker.walk(fd, "", depth) && w.flush()
	if changedAt := changedAt(w.s.places.office, ordersDir); open && (whole || changedAt != w.holdsChangedAt) {
		// Xferd puts control files under hold/, with records.
		w.holdsChangedAt, w.place = changedAt, underHold
		open = w.s.places.walkBelow("hold/transport", &w.walker) && w.flush()
		w.place = ""
	}
	return true, open
}

func (w *sweeper) visit(n Name) bool {
	if len(w.batch) == 0 {
		w.batch = make([]Name, 0, batchLimit)
		w.begunAt = time.Now()
	}
	w.batch = append(w.batch, Name{w.place + n.Path, n.ID})
	return len(w.batch) < min(batchLimit, w.s.options.NewLimit) || w.flush()
}

func (w *sweeper) enter(prefix string) {
	if w.place == "" {
		w.s.watcher.watch(prefix)
	}
}

func (w *sweeper) after() bool {
	if len(w.batch) > 0 && time.Since(w.begunAt) > batchDelay && !w.flush() {
		return false
	}
	return !w.s.closed()
}

// fail remembers that a directory cannot be read, and reports a new error once. The
// next sweep is a whole one again.
func (w *sweeper) fail(doing, prefix string, err error) {
	text := fmt.Sprintf("%s %stransport/%s: %v", doing, w.place, prefix, err)
	w.failing[text] = true
	if !w.failed[text] {
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

// swept plans the sweep after one that has ended. busy is the time that it took, without
// waits for the receiver.
func (p *schedule) swept(now time.Time, whole bool, busy time.Duration, backlog uint64) {
	p.restAt = now.Add(restFactor * max(busy, 0))
	p.nextAt = now.Add(topEvery + time.Duration(min(10, backlog/perBacklog))*time.Second)
	if whole {
		p.wholeAt = now.Add(wholeEvery)
	}
}

// failed plans a whole sweep after one that was not complete.
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
