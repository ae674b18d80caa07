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
	closing int
	// latest is the ring found last whose command is the same for all hosts:
	// the next new host tends to belong to it.
	latest *ring
	// Rings that wait for a process, or for a session, under maxchannel.
	processQueues, sessionQueues limitQueues

	// Recipients since the start, as ChannelView has them.
	in, delivered, deferred, failed, expired, dropped uint64
}

// count notes an outcome, a word of the statistics log.
func (c *channel) count(state string) {
	switch state {
	case "ok", "ok2", "ok3":
		c.delivered++
	case "expire":
		c.expired++
	default:
		c.failed++
	}
}

func (q *queue) obtainChannel(name string) *channel {
	c := q.channels[name]
	if c == nil {
		c = &channel{name: name}
		q.channels[name] = c
		q.channelOrder = append(q.channelOrder, c)
	}
	return c
}

// places are the rings that wait at a limit, in turn. Clauses may set
// different limits for the same count, so there is one line for each.
type limitQueues []*limitQueue

// place is one line of rings.
type limitQueue struct {
	limit int
	list[*ring]
}

func newLimitQueue(limit int) *limitQueue {
	return &limitQueue{limit, list[*ring]{of: func(r *ring) *links[*ring] { return &r.limitLinks }}}
}

// wait puts the ring in line for the limit, unless it stands there.
func (d *dispatch) waitAt(p *limitQueues, limit int, r *ring) {
	i, found := slices.BinarySearchFunc(*p, limit, func(l *limitQueue, limit int) int { return l.limit - limit })
	if !found {
		*p = slices.Insert(*p, i, newLimitQueue(limit))
	}
	if line := (*p)[i]; r.limitQueue != line {
		r.dequeue()
		d.enqueueRing(line, r)
	}
}

// lineUp puts the ring in line. One that was let out of a line and met
// another limit stands before those that have not waited as long.
func (d *dispatch) enqueueRing(l *limitQueue, r *ring) {
	if r.waitingSince == 0 {
		d.limitSequence++
		r.waitingSince = d.limitSequence
	}
	before := l.tail
	if l.head != nil && l.head.waitingSince > r.waitingSince {
		before = nil
	}
	for before != nil && before.waitingSince > r.waitingSince {
		before = before.limitLinks.prev
	}
	l.insert(r, before)
	r.limitQueue = l
}

// leaveLine takes the ring out of the line in which it waits, if it does.
func (r *ring) dequeue() {
	if r.limitQueue != nil {
		r.limitQueue.remove(r)
		r.limitQueue = nil
	}
}

func (p limitQueues) total() int {
	n := 0
	for _, line := range p {
		n += line.len
	}
	return n
}

// release lets rings whose limit is above count try again, one for each
// place there is.
func (d *dispatch) admit(p limitQueues, count int) {
	for _, line := range p {
		for n := count; n < line.limit && line.head != nil; n++ {
			r := line.head
			r.dequeue()
			d.markDirty(r)
		}
	}
}

// forkRate holds starts to so many within a second (option -R).
type forkRate struct {
	second instant // in which count was
	count  int
	queue  *limitQueue
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
	if f.queue.head == nil {
		return never
	}
	return (f.second + 1) * instant(time.Second)
}

func (d *dispatch) wakeForks() {
	if d.forks.next() > d.now {
		return
	}
	for n := 0; below(n, d.config.ForkRate) && d.forks.queue.head != nil; n++ {
		r := d.forks.queue.head
		r.dequeue()
		d.markDirty(r)
	}
}

// trouble is a clause whose agents do not come up: they cannot be started,
// or die before they say #hungry.
type startFailures struct {
	failures int
	until    instant
	trial    AgentID // started last since; 0: none
}

// Waits after a failed start: one second, doubled each time, up to the most.
const (
	firstBackoff   = time.Second
	longestBackoff = 5 * time.Minute
)

func (d *dispatch) countStartFailure(r *ring) {
	t := d.startFailures[r.clause]
	if t == nil {
		t = new(startFailures)
		d.startFailures[r.clause] = t
	}
	if t.until <= d.now { // else it started before the last one failed
		t.failures++
		t.until = d.now.after(min(firstBackoff<<min(t.failures-1, 20), longestBackoff))
	}
	d.backoffs.put(t.until, r)
}

// mustWait reports whether the ring may not start an agent because of the
// trouble its clause is in: until its time, or while another agent tries.
func (d *dispatch) mustDelayStart(t *startFailures, r *ring) bool {
	if t.until > d.now {
		d.backoffs.put(t.until, r)
		return true
	}
	if a := d.agents[t.trial]; a != nil && a.state == starting {
		// It says #hungry, which recovered passes on, or it is gone by then.
		d.backoffs.put(a.stateSince.after(firstHungryTimeout+killTimeout), r)
		return true
	}
	return r.expected > 0
}

// recovered ends the trouble of a clause. Rings that wait for that are looked
// at with the next Tick: with $host in the command there is one for each host.
func (d *dispatch) clearStartFailures(clause string) {
	if d.startFailures[clause] == nil {
		return
	}
	delete(d.startFailures, clause)
	for r := d.order.head; r != nil; r = d.order.next(r) {
		if r.clause == clause && d.backoffs.contains(r) {
			d.backoffs.put(d.now, r)
		}
	}
}
