package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/ta"
)

// Picks: which vertex of a ring is fed next, and to which agent.

// markDirty makes sure that the ring is dispatched before the Step ends.
func (q *queue) markDirty(r *ring) {
	if !r.dirty {
		r.dirty = true
		q.dirty = append(q.dirty, r)
	}
}

// dispatchDirty dispatches each dirty ring, including those that become dirty in
// the meantime. The ring that has given a session back comes last.
func (d *dispatch) dispatchDirty() {
	for len(d.dirty) > 0 || d.spent != nil {
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
		d.dirty = d.dirty[:0]
		if d.spent != nil {
			d.evictIdle(d.spent)
			d.spent = nil
		}
	}
	d.yielding = nil
}

// halted reports whether nothing at all may be fed.
func (d *dispatch) halted() bool { return d.stop.begun || d.spoolDown || d.config.Frozen }

// dispatchRing gives sessions to the ring's mail as far as the limits allow.
// Then it sends #idle to agents without work, and lets rings that wait at a
// limit have the sessions and processes that this ring does not use.
func (d *dispatch) dispatchRing(r *ring) {
	if r.fair.HasAside() {
		d.releaseAside(r)
	}
	for !d.halted() {
		if r.wants == 0 {
			r.place.Served()
			break
		}
		links := d.ringLinks(r)
		at, why := limit.Chain(links[:]).Refusal(1)
		if at == 1 {
			d.waitAtChannel(r)
		}
		if why != limit.None {
			break
		}
		p, ok := d.nextPick(r)
		if !ok && r.wants == 0 {
			continue // the vertices that wanted a session were set aside
		}
		if !ok && d.loadFor(r) {
			continue
		}
		if !ok {
			break
		}
		t := d.threadOf(d.vertices.At(p.Vertex))
		a := r.sessionFor(t)
		if a == nil {
			if d.mayUseMore(p.Vertex, r) {
				d.startFor(r, t)
			}
			break
		}
		d.serve(a, p)
	}
	d.loadAhead(r)
	d.idleUnused(r)
	d.wakeSessions(r.channel)
	d.wakeProcesses(r.channel)
	d.evictIdle(r.channel)
}

// nextPick returns the next vertex for a new session. There is none if no message that wants a
// session may take another.
func (d *dispatch) nextPick(r *ring) (fair.Pick, bool) {
	for {
		ref := r.fair.Next()
		if ref == 0 {
			return fair.Pick{}, false
		}
		t := d.threadOf(d.vertices.At(ref))
		switch {
		case d.siteLink(t).Free() <= 0:
			d.waitAtSite(t)
			continue
		case !d.maySpread(ref, r):
			r.fair.SetAside(ref)
			d.updateThread(t)
			continue
		}
		p := r.fair.Preempt(ref, func(v vertexRef) bool { return d.maySpread(v, r) })
		if t := d.threadOf(d.vertices.At(p.Vertex)); p.Preempts() && d.siteLink(t).Free() <= 0 {
			d.waitAtSite(t)
			continue
		}
		return p, true
	}
}

// sessionFor finds a free session for the thread. It tries the agent that served
// the thread last, then one that is serving, then the one that became idle last.
// It returns nil if there is none.
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

// serve gives the agent a session on the thread of the pick and feeds it.
func (d *dispatch) serve(a *agent, p fair.Pick) {
	t := d.threadOf(d.vertices.At(p.Vertex))
	if a.state == idle {
		d.takeIdle(a)
		a.ring.free = append(a.ring.free, a)
	}
	a.freeSessions--
	if a.freeSessions == 0 {
		a.ring.removeFree(a)
	}
	if !p.Staying && (a.thread != t || a.picks >= t.params.Quantum) {
		a.picks = 0
	}
	a.thread, t.lastAgent = t, a
	if !a.ring.place.Waits() {
		a.ring.place.Served()
	}
	d.counts.Sessions++
	t.busy++
	t.agents = append(t.agents, a)
	d.countSiteSession(t, 1)
	a.ring.sessions.Busy++
	a.ring.channel.sessions.Busy++
	d.feed(a, p)
	if a.sessions == 1 {
		d.overfeed(a)
	}
	d.updateThread(t)
}

// feed gives the agent the vertex of the pick as a job line.
func (d *dispatch) feed(a *agent, p fair.Pick) {
	v := d.vertices.At(p.Vertex)
	t, m := d.threadOf(v), d.messageOf(v)
	t.memberOf.fair.Take(p)
	d.setState(v, fed, 0)
	v.destinationFailed, v.unanswered = false, false
	v.fedAt, v.agent = d.date.second(), a.id
	t.lastEventAt = v.fedAt
	v.inRetryStep = false
	m.flags &^= demanded
	recipients := d.feedable(v)
	a.addLine(line{id: m.id, vertex: v, thread: t, startedAt: d.now, suspensions: t.suspensions, unreported: int32(recipients)})
	a.fedAt = d.now
	if len(a.lines) == 1 {
		a.progressAt = d.now
		d.planDeadline(a)
	}
	a.picks++
	d.pass(t, a.ring, recipients)
	d.do(Feed{Agent: a.id, Job: ta.JobLine{Path: d.path(m), Host: t.key.host, WithHost: a.ring.withHost}})
}
