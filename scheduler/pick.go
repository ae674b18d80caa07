package scheduler

import (
	"slices"

	"zsched/scheduler/fair"
	"zsched/ta"
)

// Picks: which vertex of a ring is fed next, and to which agent.

// markDirty makes sure that the ring is dispatched before the Step ends.
func (rg *rings) markDirty(r *ring) {
	if !r.dirty {
		r.dirty = true
		rg.dirty = append(rg.dirty, r)
	}
}

// dispatchDirty dispatches each dirty ring, including those that become dirty in
// the meantime. The ring that has given a session back comes last.
func (rg *rings) dispatchDirty() {
	for i := 0; i < len(rg.dirty); i++ {
		r := rg.dirty[i]
		if r == rg.yielding && i+1 < len(rg.dirty) {
			rg.dirty = append(rg.dirty, r)
			continue
		}
		r.dirty = false
		rg.dispatchRing(r)
	}
	rg.dirty, rg.yielding = rg.dirty[:0], nil
}

// halted reports whether nothing at all may be fed.
func (rg *rings) halted() bool {
	return rg.s.agents.stop.begun || rg.s.writes.spoolDown || rg.s.rules.config.Frozen
}

// dispatchRing gives sessions to the ring's mail as far as the limits allow.
// Then it sends #idle to agents without work, and lets rings that wait at a
// limit have the sessions and processes that this ring does not use.
func (rg *rings) dispatchRing(r *ring) {
	rg.dispatching = r
	rg.releaseAside(r)
	for !rg.halted() {
		if r.wants == 0 {
			r.place.Served()
			break
		}
		if r.isFull() {
			r.place.Leave()
			break
		}
		if l, _ := rg.s.limits.refusal(r.links.onSessions()[1:], 1); l != nil { // the first is that of isFull
			rg.s.limits.wait(&r.place, l)
			break
		}
		p, ok := rg.nextPick(r)
		if !ok && r.wants == 0 {
			continue // the vertices that wanted a session were set aside
		}
		if !ok {
			r.place.Leave()
			break
		}
		t := rg.s.mail.threadOf(rg.s.mail.vertices.At(p.Vertex))
		a := r.sessionFor(t)
		if a == nil {
			if min(rg.messageRoom(p.Vertex, r), rg.shareRoom(r.fair.Turn(), r)) > r.expected { // more than the starting agents will bring
				rg.s.agents.startFor(r, t)
			}
			break
		}
		rg.serve(a, t, p)
	}
	rg.dispatching = nil
	if c := r.channel; r.fair.HasAsideShares() && !slices.Contains(c.asideShares, r) {
		c.asideShares = append(c.asideShares, r)
	}
	rg.s.agents.idleUnused(r)
	rg.s.limits.wakeAll(r.links[:])
	rg.s.limits.evictIdle(r.channel)
}

// nextPick returns the next vertex for a new session. There is none if no message and no share that
// wants a session may take another.
func (rg *rings) nextPick(r *ring) (fair.Pick, bool) {
	for {
		ref := r.fair.Next()
		if ref == 0 {
			return fair.Pick{}, false
		}
		if s := r.fair.Turn(); rg.shareRoom(s, r) <= 0 {
			s.SetAside()
			continue
		}
		t := rg.s.mail.threadOf(rg.s.mail.vertices.At(ref))
		switch {
		case rg.s.limits.isRefusedAtSite(t):
			continue
		case !rg.maySpread(ref, r):
			r.fair.SetAside(ref)
			rg.s.threads.updateThread(t)
			continue
		}
		p := r.fair.Preempt(ref, func(v vertexRef) bool { return rg.maySpread(v, r) })
		if p.Preempts() && rg.s.limits.isRefusedAtSite(rg.s.mail.threadOf(rg.s.mail.vertices.At(p.Vertex))) {
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

// serve gives the agent a session on the thread of the pick, t, and feeds it.
func (rg *rings) serve(a *agent, t *thread, p fair.Pick) {
	if a.state == idle {
		rg.s.agents.takeIdle(a)
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
	rg.s.mail.counts.Sessions++
	t.agents = append(t.agents, a)
	if l := t.siteLink(); l != nil {
		l.at.Busy++
		t.shaping.place.Served()
		rg.s.limits.wake(l.at)
	}
	countBusy(a.ring.links.onSessions(), 1)
	share := rg.s.threads.fair.BeginSession(p.Vertex)
	rg.feed(a, p)
	a.lines[len(a.lines)-1].share = share
	if a.sessions == 1 {
		rg.overfeed(a)
	}
	rg.s.threads.updateThread(t)
}

// feed gives the agent the vertex of the pick as a job line.
func (rg *rings) feed(a *agent, p fair.Pick) {
	v := rg.s.mail.vertices.At(p.Vertex)
	t, m := rg.s.mail.threadOf(v), rg.s.mail.messageOf(v)
	t.ring.fair.Take(p)
	rg.s.threads.setState(v, fed, 0)
	v.fedAt, v.agent = rg.s.agenda.date.second(), a.id
	t.lastEventAt = v.fedAt
	recipients := rg.s.mail.feedable(v)
	path := rg.s.mail.path(m)
	l := rg.s.lines.spare.Take()
	if l == nil {
		l = new(line)
	}
	*l = line{id: m.id, path: path, vertex: v, thread: t, suspensions: t.suspensions, unreported: int32(recipients)}
	a.lines = append(a.lines, l)
	a.fedAt = rg.s.agenda.now
	if len(a.lines) == 1 {
		a.progressAt = rg.s.agenda.now
		rg.s.agents.planDeadline(a)
	}
	a.picks++
	rg.s.limits.pass(t, a.ring, recipients)
	f := rg.s.agenda.feeds.take()
	f.Agent, f.Job = a.id, ta.JobLine{Path: path, Host: t.key.host, WithHost: a.ring.withHost}
	rg.s.agenda.do(f)
}
