package scheduler

import (
	"zsched/scheduler/limit"
	"zsched/ta"
)

// Picks: which vertex of a ring is fed next, and to which agent.

// pick is a vertex chosen for a session.
type pick struct {
	vertex *vertex
	// preempted is the job that the vertex's job preempts; nil: none. need is
	// how many slots that takes.
	preempted *job
	need      int
	staying   bool // the session stays on its thread
}

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
	if len(r.limited) > 0 {
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
		t := d.threadOf(p.vertex)
		a := r.sessionFor(t)
		if a == nil {
			if d.mayUseMore(p.vertex, r) {
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

// nextPick returns the next vertex for a new session. In the share whose turn it
// is, that is the first vertex of the job list, or one of a job that preempts
// its job. There is none if no message that wants a session may take another.
func (d *dispatch) nextPick(r *ring) (pick, bool) {
	for {
		f := r.turn()
		if f == nil {
			return pick{}, false
		}
		v := d.vertices.At(f.vertex)
		if d.siteLink(f.thread).Free() <= 0 {
			d.waitAtSite(f.thread)
			continue
		}
		if d.maySpread(v, r) {
			p := d.preempt(pick{vertex: v})
			if t := d.threadOf(p.vertex); p.preempted != nil && d.siteLink(t).Free() <= 0 {
				d.waitAtSite(t)
				continue
			}
			return p, true
		}
		d.setAside(v)
	}
}

// stayingPick returns the next vertex for a session that stays on its thread:
// the thread's first in the share whose turn it is. There is none if that share
// has none in the thread, or if its threads take turns and this one has used up
// its quantum. If no vertex of the ring can use a new session, any vertex of the
// thread can ride.
func (d *dispatch) stayingPick(t *thread) (pick, bool) {
	next := t.ring.turn()
	if next == nil {
		return pick{vertex: d.vertices.At(d.firstOf(t.queue())), staying: true}, true
	}
	s := next.share
	f := d.flowOf(t, t.active, s)
	if f == nil {
		return pick{}, false
	}
	v, _ := f.first()
	if v == 0 {
		return pick{}, false
	}
	if !f.hasQuantum() {
		if s.firstOpen() != nil {
			return pick{}, false
		}
		s.newRound()
	}
	return pick{vertex: d.vertices.At(v), staying: true}, true
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
func (d *dispatch) serve(a *agent, p pick) {
	t := d.threadOf(p.vertex)
	if a.state == idle {
		d.takeIdle(a)
		a.ring.free = append(a.ring.free, a)
	}
	a.freeSessions--
	if a.freeSessions == 0 {
		a.ring.removeFree(a)
	}
	if !p.staying && (a.thread != t || a.picks >= t.params.Quantum) {
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
func (d *dispatch) feed(a *agent, p pick) {
	if p.preempted != nil && !d.overtake(p) {
		p.vertex = d.vertices.At(p.preempted.share.next().vertex)
	}
	v := p.vertex
	t, m := d.threadOf(v), d.messageOf(v)
	d.flows.At(v.flow).charge()
	if j := d.jobOf(v); j != nil {
		j.countSlots(p.staying)
	}
	d.dequeueVertex(v)
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
