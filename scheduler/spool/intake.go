package spool

import (
	"sync"
	"time"
)

// intake knows the names that are between Found and their result, and those
// that were refused and will be looked at again. Of all other names the spool
// remembers nothing.
type intake struct {
	mu     sync.Mutex
	taking map[uint64]phase
	// later are names that were asked for while their answer was on its way
	// to the receiver, who may have it by now.
	later    []Name
	claimed  uint64        // names ever given to Take
	released uint64        // of those, how many have their result
	progress chan struct{} // capacity 1: some more have

	waiting map[string]wait // by path
	beyond  int             // refusals, since there was no room, of names without any
	changed chan struct{}   // capacity 1: something waits
}

// phase is how far a name has come that is being taken.
type phase uint8

const (
	reading   phase = iota
	answering       // the receiver is being given the answer, or has it
)

// wait is a refused name.
type wait struct {
	name  Name
	at    time.Time // when to give it out again; zero: that has been done
	since time.Time // the first refusal
	tries int
}

// waitLimit bounds the refused names that are remembered. The sweep finds the
// others again in its own time.
const waitLimit = 4096

func newIntake() *intake {
	return &intake{
		taking:   map[uint64]phase{},
		progress: make(chan struct{}, 1),
		waiting:  map[string]wait{},
		changed:  make(chan struct{}, 1),
	}
}

// claim returns the names that nobody is taking yet, which are being taken
// from now on. Those that are being answered come with their release.
func (in *intake) claim(names []Name) []Name {
	in.mu.Lock()
	defer in.mu.Unlock()
	mine := make([]Name, 0, len(names))
	for _, n := range names {
		phase, busy := in.taking[n.ID]
		switch {
		case n.ID == 0, busy && phase == reading:
		case busy:
			in.later = append(in.later, n)
		default:
			mine = append(mine, in.begin(n))
		}
	}
	return mine
}

func (in *intake) begin(n Name) Name {
	in.taking[n.ID] = reading
	in.claimed++
	return n
}

// answer notes that these are about to be answered.
func (in *intake) answer(ids []uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range ids {
		in.taking[id] = answering
	}
}

// release notes that the receiver has the answers. It returns names that were
// asked for meanwhile, which are being taken from now on.
func (in *intake) release(ids []uint64) []Name {
	if len(ids) == 0 {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range ids {
		delete(in.taking, id)
	}
	in.released += uint64(len(ids))
	nudge(in.progress)

	var mine []Name
	rest := in.later[:0]
	for _, n := range in.later {
		phase, busy := in.taking[n.ID]
		switch {
		case !busy:
			mine = append(mine, in.begin(n))
		case phase == answering:
			rest = append(rest, n)
		}
	}
	in.later = rest
	return mine
}

// counts are how many names were ever given to Take, and how many of those
// have their result. What is between them is the backlog.
func (in *intake) counts() (claimed, released uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.claimed, in.released
}

// unexpected drops from names, in place, those that are being taken and, for
// the sweep, those that wait for their next look.
func (in *intake) unexpected(names []Name, sweep bool) []Name {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.taking) == 0 && (!sweep || len(in.waiting) == 0) {
		return names
	}
	kept := names[:0]
	for _, n := range names {
		if _, busy := in.taking[n.ID]; busy {
			continue
		}
		if w, ok := in.waiting[n.Path]; sweep && ok && !w.at.IsZero() {
			continue
		}
		kept = append(kept, n)
	}
	return kept
}

// refuse notes a refusal and returns how many there were in a row; of names
// that there is no room for, how many of them all. With a zero at the name is
// not looked at again.
func (in *intake) refuse(n Name, at time.Time) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := in.waiting[n.Path]
	tries := was.tries + 1
	if at.IsZero() {
		delete(in.waiting, n.Path)
		return tries
	}
	if tries == 1 && len(in.waiting) >= waitLimit {
		in.forgetAnnounced()
		if len(in.waiting) >= waitLimit {
			in.beyond++
			return in.beyond
		}
		in.beyond = 0
	}
	if tries == 1 {
		was.since = time.Now()
	}
	in.waiting[n.Path] = wait{n, at, was.since, tries}
	nudge(in.changed)
	return tries
}

// waitedFor is how long ago a name was first refused; 0 when it is not known.
func (in *intake) waitedFor(path string, now time.Time) time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	if w, ok := in.waiting[path]; ok {
		return now.Sub(w.since)
	}
	return 0
}

// forgetAnnounced makes room: names that were given out again and of which
// the receiver made nothing.
func (in *intake) forgetAnnounced() {
	for path, w := range in.waiting {
		if w.at.IsZero() {
			delete(in.waiting, path)
		}
	}
}

// accept forgets that a name was refused before.
func (in *intake) accept(path string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waiting, path)
}

// due returns the names whose time has come, and when the next one's comes
// (zero: none waits).
func (in *intake) due(now time.Time) (names []Name, next time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for path, w := range in.waiting {
		switch {
		case w.at.IsZero():
		case !w.at.After(now) && len(names) < batchLimit:
			names = append(names, w.name)
			w.at = time.Time{}
			in.waiting[path] = w
		case next.IsZero() || w.at.Before(next):
			next = w.at
		}
	}
	return names, next
}

// again is the goroutine that gives refused names out once more.
func (s *Spool) again() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.intake.changed:
		case <-timer.C:
		}
		names, next := s.intake.due(time.Now())
		if len(names) > 0 && !s.announce(names) {
			return
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// nudge tells a channel of capacity 1, unless it has been told.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
