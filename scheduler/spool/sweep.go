package spool

// The sweep, which reads transport/ and hold/transport for control files.

import (
	"fmt"
	"time"

	"zsched/internal/postoffice"
)

const (
	// batchLimit bounds the names of one batch.
	batchLimit = 256
	// sweepEvery is the time between two sweeps that nobody has asked for.
	sweepEvery = 30 * time.Second
	// restFactor is how many times the length of a sweep to rest after it, even if a hint asks
	// for another: sweeping takes a twentieth of the time.
	restFactor = 19
	// maxRest bounds this rest, because a directory may have hung.
	maxRest = 30 * time.Second
)

// sweeper announces the names in transport/ and hold/transport.
type sweeper struct {
	s      *Spool
	walker walker
	place  string // "", or underHold
	batch  []Name
	waited time.Duration // for the receiver, in this sweep
	// failed are the errors of directories that the last sweep could not read, and failing
	// those of this one.
	failed, failing map[string]bool
}

func newSweeper(s *Spool) *sweeper {
	w := &sweeper{s: s, failing: map[string]bool{}}
	w.walker = walker{visit: w.visit, enter: w.enter, fail: w.fail}
	return w
}

// sweeping is the goroutine that sweeps.
func (s *Spool) sweeping() {
	w := newSweeper(s)
	for {
		startedAt := time.Now()
		if !w.sweep() || !s.awaitSweep(time.Since(startedAt)-w.waited) || !s.standing.owned() {
			return
		}
	}
}

// awaitSweep waits for the time of the next sweep. took is how long the last one has worked.
// It returns false if the spool was closed meanwhile.
func (s *Spool) awaitSweep(took time.Duration) (open bool) {
	select {
	case <-s.done:
		return false
	case <-s.ordered:
		return true
	case <-time.After(min(restFactor*took, maxRest)):
	}
	select {
	case <-s.done:
		return false
	case <-s.ordered:
	case <-s.sweeps:
	case <-time.After(sweepEvery):
	}
	return true
}

// sweep reads the directories, and says so if it could. It returns false if the spool was
// closed meanwhile, or is not ours any more.
func (w *sweeper) sweep() (open bool) {
	w.waited, w.failed, w.failing = 0, w.failing, map[string]bool{}
	if _, lost := w.s.standing.examine(); lost != nil {
		w.s.standing.disown(lost)
		return false
	}
	fd, err := postoffice.OpenDir(w.s.places.office, "transport")
	if err != nil {
		w.fail("opening", "", err)
		return true
	}
	defer postoffice.Close(fd)
	open = w.walker.walk(fd, "", maxDepth) && w.flush()
	w.place = underHold
	open = open && w.s.places.walkBelow("hold/transport", &w.walker) && w.flush()
	w.place = ""
	w.s.queue.add(Swept{})
	return open
}

func (w *sweeper) visit(n Name) bool {
	w.batch = append(w.batch, Name{w.place + n.Path, n.ID})
	return len(w.batch) < batchLimit || w.flush()
}

func (w *sweeper) enter(prefix string) {
	if w.place == "" {
		w.s.watcher.watch(prefix)
	}
}

// fail remembers that a directory cannot be read, and reports a new error once.
func (w *sweeper) fail(doing, prefix string, err error) {
	text := fmt.Sprintf("%s %stransport/%s: %v", doing, w.place, prefix, err)
	w.failing[text] = true
	if !w.failed[text] {
		w.s.warn(text)
	}
}

// flush announces the batch. It returns false if the spool was closed meanwhile.
func (w *sweeper) flush() bool {
	sentAt := time.Now()
	open := w.s.announce(w.batch)
	w.batch = nil
	w.waited += time.Since(sentAt)
	return open
}

// announce sends names, if there are any, to the receiver, which keeps the list. It returns false
// if the spool was closed meanwhile.
func (s *Spool) announce(names []Name) bool {
	if len(names) == 0 {
		return !s.closed()
	}
	select {
	case s.found <- names:
		return true
	case <-s.done:
		return false
	}
}
