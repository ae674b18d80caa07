package scheduler

import (
	"slices"
	"time"
)

// channel counts what runs on a channel.
type channel struct {
	name  string
	procs int // agents, idle and leaving ones too
	busy  int // sessions
	// leaving agents still count in procs.
	leaving int
	// Rings that wait for a process, or for a session, under maxchannel.
	processes, sessions places
}

func (s *Scheduler) obtainChannel(name string) *channel {
	c := s.channels[name]
	if c == nil {
		c = &channel{name: name}
		s.channels[name] = c
		s.channelOrder = append(s.channelOrder, c)
	}
	return c
}

// places are the rings that wait at a limit, in turn. Clauses may set
// different limits for the same count, so there is one line for each.
type places []*place

// place is one line of rings.
type place struct {
	limit      int
	head, tail *ring
	waiting    int
}

// wait puts the ring in line for the limit, unless it stands there.
func (p *places) wait(limit int, r *ring) {
	i, found := slices.BinarySearchFunc(*p, limit, func(l *place, limit int) int { return l.limit - limit })
	if !found {
		*p = slices.Insert(*p, i, &place{limit: limit})
	}
	line := (*p)[i]
	if r.waits == line {
		return
	}
	r.leaveLine()
	line.append(r)
}

// leaveLine takes the ring out of the line in which it waits, if it does.
func (r *ring) leaveLine() {
	if r.waits != nil {
		r.waits.remove(r)
	}
}

func (p places) waiting() int {
	n := 0
	for _, line := range p {
		n += line.waiting
	}
	return n
}

// release lets rings whose limit is above count try again, one for each
// place there is.
func (s *Scheduler) release(p places, count int) {
	for _, line := range p {
		for n := count; n < line.limit && line.head != nil; n++ {
			r := line.head
			line.remove(r)
			s.touch(r)
		}
	}
}

func (l *place) append(r *ring) {
	r.waits, r.prev, r.next = l, l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.waiting++
}

func (l *place) remove(r *ring) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.waits, r.next, r.prev = nil, nil, nil
	l.waiting--
}

// forkRate holds starts to so many within a second (option -R).
type forkRate struct {
	second instant // in which count was
	count  int
	line   place
}

// allow counts one start, if there may be one now.
func (f *forkRate) allow(now instant, limit int) bool {
	if second := now / instant(time.Second); second != f.second {
		f.second, f.count = second, 0
	}
	if !below(f.count, limit) {
		return false
	}
	f.count++
	return true
}

func (f *forkRate) next() instant {
	if f.line.head == nil {
		return never
	}
	return (f.second + 1) * instant(time.Second)
}

func (s *Scheduler) wakeForks() {
	if s.forks.next() > s.now {
		return
	}
	for n := 0; below(n, s.config.ForkRate) && s.forks.line.head != nil; n++ {
		r := s.forks.line.head
		s.forks.line.remove(r)
		s.touch(r)
	}
}

// trouble is a clause whose agents do not come up: they cannot be started,
// or die before they say #hungry.
type trouble struct {
	failures int
	until    instant
}

// Waits after a failed start: one second, doubled each time, up to the most.
const (
	firstBackoff   = time.Second
	longestBackoff = 5 * time.Minute
)

func (s *Scheduler) startFailed(r *ring) {
	t := s.troubles[r.clause]
	if t == nil {
		t = new(trouble)
		s.troubles[r.clause] = t
	}
	if t.until <= s.now { // else it started before the last one failed
		t.failures++
		t.until = s.now.after(min(firstBackoff<<min(t.failures-1, 20), longestBackoff))
	}
	s.backoffs.put(t.until, r)
}
