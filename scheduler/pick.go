package scheduler

import "zsched/ta"

// Picks: which thread of a ring gets a session next, in which agent, and which
// vertex is fed.

// markDirty has the ring dispatched before the Step ends.
func (q *queue) markDirty(r *ring) {
	if !r.dirty {
		r.dirty = true
		q.dirty = append(q.dirty, r)
	}
}

// dispatchDirty dispatches each dirty ring. Rings that become dirty meanwhile
// follow, and the ring that has given a session back comes last.
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

// halted reports whether nothing at all may be fed.
func (d *dispatch) halted() bool { return d.stop.begun || d.spoolDown || d.config.Frozen }

// dispatchRing gives sessions to the ring's threads, in turn, as far as the
// limits allow. Then it sends #idle to agents without work, and lets rings that
// wait at a limit have what this ring does not use.
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

// sessionFor finds a free session for the thread: in the agent that served it
// last, then in one that is serving, then in the youngest idle one. It returns
// nil if there is none.
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
	if t.turnList != nil { // the next thread has its turn
		t.delist()
		a.ring.enlist(t)
	}
}

// feed gives the agent the first due vertex of the thread as a job line.
func (d *dispatch) feed(a *agent, t *thread) {
	v := d.vertices.at(t.queue().pop())
	m := d.messageOf(v)
	d.wakes.remove(v.ref)
	d.setState(v, fed, 0)
	v.readReason, v.destinationFailed = noReason, false
	v.fedAt, v.agent = d.now.second(), a.id
	t.lastEventAt = v.fedAt
	v.inRetryStep = false
	a.lines = append(a.lines, line{id: m.id, vertex: v, thread: t, startedAt: d.now, suspensions: t.suspensions, unreported: d.feedable(v)})
	a.fedAt = d.now
	if len(a.lines) == 1 {
		a.progressAt = d.now
		d.planDeadline(a)
	}
	if t.round != a.ring.round {
		t.round, t.picks = a.ring.round, 0
	}
	t.picks++
	d.do(Feed{Agent: a.id, Job: ta.Job{Path: d.path(m), Host: t.key.host, WithHost: a.ring.hostless}})
}
