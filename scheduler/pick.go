package scheduler

import "zsched/ta"

// touch has the ring looked at before the Step ends.
func (q *queue) markDirty(r *ring) {
	if !r.dirty {
		r.dirty = true
		q.dirty = append(q.dirty, r)
	}
}

// dispatchDirty gives every touched ring what it can have. Rings touched on
// the way come in turn, and the one that has given a place back comes last.
func (d *dispatch) dispatchDirty() {
	for i := 0; i < len(d.dirty); i++ {
		r := d.dirty[i]
		if r == d.yielding && i+1 < len(d.dirty) {
			d.dirty = append(d.dirty, r)
			continue
		}
		r.dirty = false
		d.dispatchRing(r)
	}
	clear(d.dirty)
	d.dirty, d.yielding = d.dirty[:0], nil
}

// halted reports whether nothing is to be fed at all.
func (d *dispatch) halted() bool { return d.stop.begun || d.spoolDown || d.config.Frozen }

// dispatch gives the ring's threads sessions, in turn, as far as its limits
// go; then agents with nothing to do are told so, and places that the ring
// leaves free go to those who wait for them.
func (d *dispatch) dispatchRing(r *ring) {
	for !d.halted() {
		t := r.nextThread()
		if t == nil {
			r.dequeue()
			r.waitingSince = 0
			break
		}
		if !below(r.busy, d.maxRing(r)) {
			break
		}
		if limit := d.maxChannel(r); !below(r.channel.busy, limit) {
			d.waitAt(&r.channel.sessionQueues, limit, r)
			break
		}
		a := r.sessionFor(t)
		if a == nil {
			d.startFor(r, t)
			break
		}
		d.serve(a, t)
	}
	d.idleUnused(r)
	d.admit(r.channel.sessionQueues, r.channel.busy)
	d.admit(r.channel.processQueues, r.channel.procs)
	d.admit(d.processQueues, len(d.agents))
	d.evictIdle(r.channel)
}

// sessionFor finds a free session for the thread, nil if there is none: in
// the agent that served it last, or in one that is at work, or in the
// youngest idle one.
func (r *ring) sessionFor(t *thread) *agent {
	if a := t.lastAgent; a != nil && a.ring == r && a.thread == t && a.freeSessions > 0 && (a.state == idle || a.state == serving) {
		return a
	}
	if n := len(r.free); n > 0 {
		return r.free[n-1]
	}
	if n := len(r.idle); n > 0 {
		return r.idle[n-1]
	}
	return nil
}

// startFor starts an agent if the ring's threads want more sessions than the
// starting agents will bring and the limits on processes allow it. The first
// limit hit puts the ring in line there.
func (d *dispatch) startFor(r *ring, t *thread) {
	need := r.wants
	if limit := d.maxRing(r); limit > 0 {
		need = min(need, limit-r.busy)
	}
	if limit := d.maxChannel(r); limit > 0 {
		need = min(need, limit-r.channel.busy)
	}
	if need <= r.expected {
		return
	}
	trouble := d.startFailures[r.clause]
	if trouble != nil && d.mustDelayStart(trouble, r) {
		return
	}
	if !d.mayAddProcess(r) {
		return
	}
	if !d.forks.allow(d.now, d.config.ForkRate) {
		if r.limitQueue == nil {
			d.enqueueRing(d.forks.queue, r)
		}
		return
	}
	r.dequeue()
	r.waitingSince = 0
	d.start(r, t)
	if trouble != nil {
		trouble.trial = d.lastAgent
	}
	d.markDirty(r) // it may want one more, after the others
}

// placeFor reports whether the ring may have one process more. If not, the
// ring waits in line.
func (d *dispatch) mayAddProcess(r *ring) bool {
	c := r.channel
	if limit := d.maxTA(r); !below(len(d.agents), limit) {
		d.waitAt(&d.processQueues, limit, r)
		return false
	}
	if limit := d.maxChannel(r); !below(c.procs, limit) {
		d.waitAt(&c.processQueues, limit, r)
		return false
	}
	if r.limitQueue != d.forks.queue {
		r.dequeue()
	}
	// The ring's own agents are all at work or leaving; it is looked at again
	// when one of them is free or gone.
	return below(r.procs, d.maxRing(r))
}

// makeRoom lets idle agents go, the longest idle first, that are in the way
// of rings in line for a process; not those whose own ring has work for them
// and waits for a session.
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

// needsAgents reports whether the ring has work for the agents it has.
func (d *dispatch) needsAgents(r *ring) bool { return r.wants > 0 && below(r.busy, d.maxRing(r)) }

// serve gives the agent a session on the thread and feeds it.
func (d *dispatch) serve(a *agent, t *thread) {
	if a.state == idle {
		d.takeIdle(a)
		a.ring.free = append(a.ring.free, a)
	}
	a.freeSessions--
	if a.freeSessions == 0 {
		a.ring.removeFree(a)
	}
	a.thread, t.lastAgent = t, a
	if t.turnList == &a.ring.spent {
		a.ring.newRound()
	}
	if a.ring.limitQueue == nil {
		a.ring.waitingSince = 0
	}
	d.counts.Sessions++
	t.busy++
	t.agents = append(t.agents, a)
	a.ring.busy++
	a.ring.channel.busy++
	d.feed(a, t)
	if a.sessions == 1 {
		d.overfeed(a)
	}
	d.updateThread(t)
	a.ring.rotate(t)
}

// rotate lets the next thread of the ring have its turn.
func (r *ring) rotate(t *thread) {
	if t.turnList != nil {
		t.delist()
		r.enlist(t)
	}
}

// feed gives the agent the thread's first due vertex as a job line.
func (d *dispatch) feed(a *agent, t *thread) {
	v := d.vertices.at(t.queue().pop())
	m := d.messageOf(v)
	d.wakes.remove(v.ref)
	d.setState(v, fed, 0)
	v.readReason = noReason
	v.fedAt, v.agent = d.now.second(), a.id
	t.lastEventAt = v.fedAt
	a.lines = append(a.lines, line{id: m.id, vertex: v, thread: t, suspensions: t.suspensions, unreported: d.feedable(v)})
	a.fedAt = d.now
	if len(a.lines) == 1 {
		a.heardAt = d.now
		d.planDeadline(a)
	}
	if t.round != a.ring.round {
		t.round, t.picks = a.ring.round, 0
	}
	t.picks++
	d.do(Feed{Agent: a.id, Job: ta.Job{Path: d.path(m), Host: t.key.host, WithHost: a.ring.hostless}})
}

// overfeed fills the pipe of an agent with one session, so that it finds the
// next line when it is done with one (scheduler.cf(5), overfeed).
func (d *dispatch) overfeed(a *agent) {
	t := a.thread
	for len(a.lines) > 0 && t.ring == a.ring && !d.halted() && t.mayFeed() && !d.overLimit(a.ring, t) &&
		t.queue().len() > 0 && d.lineRoom(a, t) > 0 {
		d.feed(a, t)
	}
}

// beyond reports whether a reload has left more sessions than there may be.
func (d *dispatch) overLimit(r *ring, t *thread) bool {
	return !below(t.busy-1, t.window()) || !below(r.busy-1, d.maxRing(r)) || !below(r.channel.busy-1, d.maxChannel(r))
}

// lineRoom is how many lines more the agent may be given of its thread: one
// until it has shown that it ends lines; then overfeed beyond the one it is
// on, of which a thread with several sessions gives each an even part, and
// while others wait no more than is left of the quantum.
func (d *dispatch) lineRoom(a *agent, t *thread) int {
	if !a.hasEndedLine {
		return 1 - len(a.lines)
	}
	window := t.params.Overfeed + 1
	if sessions := t.params.MaxThr; sessions > 1 {
		window = min(window, (t.queue().len()+len(a.lines)+sessions-1)/sessions)
	}
	room := window - len(a.lines)
	if d.contended(a.ring, t) {
		room = min(room, t.params.Quantum-t.picks)
	}
	return room
}

// contested reports whether others wait for what a session of the thread
// occupies: another thread of the ring, or another ring at a limit.
func (d *dispatch) contended(r *ring, t *thread) bool {
	return r.othersWait(t) || r.channel.sessionQueues.total() > 0 ||
		r.channel.processQueues.total() > 0 || d.processQueues.total() > 0
}

// mayStay reports whether a session that has just become free goes on with
// its thread, to which its connection may still be open.
func (d *dispatch) mayStay(a *agent, t *thread) bool {
	r := a.ring
	if d.halted() || t.ring != r || !t.mayFeed() || t.queue().len() == 0 || t.freeSlots() <= 0 ||
		!below(r.busy, d.maxRing(r)) || !below(r.channel.busy, d.maxChannel(r)) {
		return false
	}
	return t.round != r.round || t.picks < t.params.Quantum || !d.contended(r, t)
}

// rest deals with the ring's agents that have a session free and nothing
// open: they are told to be idle, or to leave where another ring waits for
// the place of their process or nothing will come for them any more.
func (d *dispatch) idleUnused(r *ring) {
	for i := len(r.free) - 1; i >= 0; i-- {
		a := r.free[i]
		if len(a.lines) > 0 {
			continue
		}
		if d.stop.begun || r.retired || d.blocksOthers(r) && !d.needsAgents(r) {
			d.closeAgent(a)
			continue
		}
		r.removeFree(a)
		d.sendIdle(a)
	}
	for len(r.idle) > 0 && (r.retired || d.stop.begun) {
		d.closeAgent(r.idle[0])
	}
}

// inTheWay reports whether another ring waits for a process that one of this
// ring occupies.
func (d *dispatch) blocksOthers(r *ring) bool {
	return d.processQueues.total() > d.counts.AgentsClosing || r.channel.processQueues.total() > r.channel.closing
}
