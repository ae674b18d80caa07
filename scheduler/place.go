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
	// latest is the ring found last whose command is the same for all hosts:
	// the next new host tends to belong to it.
	latest *ring
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
func (s *Scheduler) wait(p *places, limit int, r *ring) {
	i, found := slices.BinarySearchFunc(*p, limit, func(l *place, limit int) int { return l.limit - limit })
	if !found {
		*p = slices.Insert(*p, i, &place{limit: limit})
	}
	if line := (*p)[i]; r.waits != line {
		r.leaveLine()
		s.lineUp(line, r)
	}
}

// lineUp puts the ring in line. One that was let out of a line and met
// another limit stands before those that have not waited as long.
func (s *Scheduler) lineUp(l *place, r *ring) {
	if r.ticket == 0 {
		s.tickets++
		r.ticket = s.tickets
	}
	before := l.tail
	if l.head != nil && l.head.ticket > r.ticket {
		before = nil
	}
	for before != nil && before.ticket > r.ticket {
		before = before.prev
	}
	l.insert(r, before)
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

// insert puts the ring behind another, in front of all if that is nil.
func (l *place) insert(r, before *ring) {
	r.waits, r.prev, r.next = l, before, l.head
	if before != nil {
		r.next = before.next
		before.next = r
	} else {
		l.head = r
	}
	if r.next != nil {
		r.next.prev = r
	} else {
		l.tail = r
	}
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
