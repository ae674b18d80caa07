package scheduler

import (
	"slices"
)

// Limits: maxta, maxchannel and maxring, and the queues of rings that wait at
// them. (The limit on a thread, maxthr, bounds its window: thread.go. The limit
// on starts, -R, is in start.go.)

// maxTA is the limit on processes that applies to the ring; 0: none.
func (d *dispatch) maxTA(r *ring) int {
	if r.params.MaxTA > 0 {
		return r.params.MaxTA
	}
	return d.config.MaxAgents
}

// maxChannel is the limit on the busy sessions, and on the processes, of the
// ring's channel; 0: none.
func (d *dispatch) maxChannel(r *ring) int {
	if r.params.MaxChannel > 0 {
		return r.params.MaxChannel
	}
	return d.maxTA(r)
}

// maxRing is the limit on the busy sessions, and on the processes, of the ring;
// 0: none.
func (d *dispatch) maxRing(r *ring) int {
	if r.params.MaxRing > 0 {
		return r.params.MaxRing
	}
	return d.maxTA(r)
}

// below reports whether n is less than the limit. A limit of 0 means none.
func below(n, limit int) bool { return limit <= 0 || n < limit }

// limitQueues are the rings that wait at one limit. Clauses may set different
// values for the same limit, so there is one queue for each value, in ascending
// order.
type limitQueues []*limitQueue

// limitQueue is a queue of rings that wait until a count is below limit.
type limitQueue struct {
	limit int
	list[*ring]
}

func newLimitQueue(limit int) *limitQueue {
	return &limitQueue{limit, list[*ring]{of: func(r *ring) *links[*ring] { return &r.limitLinks }}}
}

// waitAt puts the ring into the queue for this limit, unless it is there.
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

// enqueueRing puts the ring into the queue. A ring that was admitted at one limit
// and then reached another comes before those that have not waited as long.
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

// dequeue takes the ring out of the queue in which it waits, if it waits.
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

// clear takes all rings out of the queues. Those that must still wait are
// enqueued again when they are dispatched.
func (p *limitQueues) clear() {
	for _, line := range *p {
		for line.head != nil {
			line.head.dequeue()
		}
	}
	*p = nil
}

// admit lets rings try again if their limit is above count: one ring for each
// free place, in order.
func (d *dispatch) admit(p limitQueues, count int) {
	for _, line := range p {
		for n := count; n < line.limit && line.head != nil; n++ {
			r := line.head
			r.dequeue()
			d.markDirty(r)
		}
	}
}

// evictIdle closes idle agents if rings that wait at a limit need their
// processes, the longest idle first. It spares agents whose own ring has work
// for them and only waits for a session.
func (d *dispatch) evictIdle(c *channel) {
	if d.processQueues.total() <= d.counts.AgentsClosing && c.processQueues.total() <= c.closing {
		return
	}
	for a := d.idleAgents.head; a != nil; {
		next := a.next
		if d.blocksOthers(a.ring) && !d.needsAgents(a.ring) {
			d.closeAgent(a)
		}
		a = next
	}
}

// blocksOthers reports whether another ring waits for a process while this ring
// has one.
func (d *dispatch) blocksOthers(r *ring) bool {
	return d.processQueues.total() > d.counts.AgentsClosing || r.channel.processQueues.total() > r.channel.closing
}

// needsAgents reports whether the ring has work for the agents that it has.
func (d *dispatch) needsAgents(r *ring) bool {
	return r.wants > 0 && below(r.busy, d.maxRing(r)) && d.ringGate(r) > 0
}

// channel counts what runs on a channel.
type channel struct {
	name    string
	procs   int // agents, idle and closing ones included
	busy    int // sessions
	closing int // agents that are closing; they still count in procs
	// expected is how many sessions its agents should still offer.
	expected int
	// latest is the ring found last among those whose command is the same for
	// all hosts. The next new host probably belongs to it.
	latest *ring
	// Rings that wait for a process, or for a session, under maxchannel.
	processQueues, sessionQueues limitQueues
	// rates has a bucket for each value of channelrate. During a reload,
	// formerRates has those of the former configuration.
	rates, formerRates []*bucket

	// Recipients since the start, as in ChannelView.
	in, delivered, deferred, failed, expired, dropped, held, released uint64
}

// count counts an outcome; state is a word of the statistics log.
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
