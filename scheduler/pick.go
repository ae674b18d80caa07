package scheduler

import "zsched/ta"

// touch has the ring looked at before the Step ends.
func (s *Scheduler) markDirty(r *ring) {
	if !r.dirty {
		r.dirty = true
		s.dirty = append(s.dirty, r)
	}
}

// dispatchDirty gives every touched ring what it can have. Rings touched on
// the way come in turn, and the one that has given a place back comes last.
func (s *Scheduler) dispatchDirty() {
	for i := 0; i < len(s.dirty); i++ {
		r := s.dirty[i]
		if r == s.yielding && i+1 < len(s.dirty) {
			s.dirty = append(s.dirty, r)
			continue
		}
		r.dirty = false
		s.dispatch(r)
	}
	clear(s.dirty)
	s.dirty, s.yielding = s.dirty[:0], nil
}

// halted reports whether nothing is to be fed at all.
func (s *Scheduler) halted() bool { return s.stop.begun || s.store.down || s.config.Frozen }

// dispatch gives the ring's threads sessions, in turn, as far as its limits
// go; then agents with nothing to do are told so, and places that the ring
// leaves free go to those who wait for them.
func (s *Scheduler) dispatch(r *ring) {
	for !s.halted() {
		t := r.nextThread()
		if t == nil {
			r.dequeue()
			r.waitingSince = 0
			break
		}
		if !below(r.busy, s.maxRing(r)) {
			break
		}
		if limit := s.maxChannel(r); !below(r.channel.busy, limit) {
			s.waitAt(&r.channel.sessionQueues, limit, r)
			break
		}
		a := r.sessionFor(t)
		if a == nil {
			s.startFor(r, t)
			break
		}
		s.serve(a, t)
	}
	s.idleUnused(r)
	s.admit(r.channel.sessionQueues, r.channel.busy)
	s.admit(r.channel.processQueues, r.channel.procs)
	s.admit(s.processQueues, len(s.agents))
	s.evictIdle(r.channel)
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
func (s *Scheduler) startFor(r *ring, t *thread) {
	need := r.wants
	if limit := s.maxRing(r); limit > 0 {
		need = min(need, limit-r.busy)
	}
	if limit := s.maxChannel(r); limit > 0 {
		need = min(need, limit-r.channel.busy)
	}
	if need <= r.expected {
		return
	}
	trouble := s.startFailures[r.clause]
	if trouble != nil && s.mustDelayStart(trouble, r) {
		return
	}
	if !s.mayAddProcess(r) {
		return
	}
	if !s.forks.allow(s.now, s.config.ForkRate) {
		if r.limitQueue == nil {
			s.enqueueRing(s.forks.queue, r)
		}
		return
	}
	r.dequeue()
	r.waitingSince = 0
	s.start(r, t)
	if trouble != nil {
		trouble.trial = s.lastAgent
	}
	s.markDirty(r) // it may want one more, after the others
}

// placeFor reports whether the ring may have one process more. If not, the
// ring waits in line.
func (s *Scheduler) mayAddProcess(r *ring) bool {
	c := r.channel
	if limit := s.maxTA(r); !below(len(s.agents), limit) {
		s.waitAt(&s.processQueues, limit, r)
		return false
	}
	if limit := s.maxChannel(r); !below(c.procs, limit) {
		s.waitAt(&c.processQueues, limit, r)
		return false
	}
	if r.limitQueue != s.forks.queue {
		r.dequeue()
	}
	// The ring's own agents are all at work or leaving; it is looked at again
	// when one of them is free or gone.
	return below(r.procs, s.maxRing(r))
}

// makeRoom lets idle agents go, the longest idle first, that are in the way
// of rings in line for a process; not those whose own ring has work for them
// and waits for a session.
func (s *Scheduler) evictIdle(c *channel) {
	if s.processQueues.total() <= s.counts.AgentsClosing && c.processQueues.total() <= c.closing {
		return
	}
	for a := s.idleAgents.head; a != nil; {
		next := a.next
		if s.blocksOthers(a.ring) && !s.needsAgents(a.ring) {
			s.closeAgent(a)
		}
		a = next
	}
}

// needsAgents reports whether the ring has work for the agents it has.
func (s *Scheduler) needsAgents(r *ring) bool { return r.wants > 0 && below(r.busy, s.maxRing(r)) }

// serve gives the agent a session on the thread and feeds it.
func (s *Scheduler) serve(a *agent, t *thread) {
	if a.state == idle {
		s.takeIdle(a)
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
	s.counts.Sessions++
	t.busy++
	t.agents = append(t.agents, a)
	a.ring.busy++
	a.ring.channel.busy++
	s.feed(a, t)
	if a.sessions == 1 {
		s.overfeed(a)
	}
	s.updateThread(t)
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
func (s *Scheduler) feed(a *agent, t *thread) {
	v := s.vertices.at(t.queue().pop())
	m := s.messageOf(v)
	s.wakes.remove(v.ref)
	s.setState(v, fed, 0)
	v.readReason = noReason
	v.fedAt, v.agent = s.now.second(), a.id
	a.lines = append(a.lines, line{id: m.id, vertex: v, thread: t, suspensions: t.suspensions, unreported: s.feedable(v)})
	a.fedAt = s.now
	if len(a.lines) == 1 {
		a.heardAt = s.now
		s.planDeadline(a)
	}
	if t.round != a.ring.round {
		t.round, t.picks = a.ring.round, 0
	}
	t.picks++
	s.do(Feed{Agent: a.id, Job: ta.Job{Path: s.path(m), Host: t.key.host, WithHost: a.ring.hostless}})
}

// overfeed fills the pipe of an agent with one session, so that it finds the
// next line when it is done with one (scheduler.cf(5), overfeed).
func (s *Scheduler) overfeed(a *agent) {
	t := a.thread
	for len(a.lines) > 0 && t.ring == a.ring && !s.halted() && t.mayFeed() && !s.overLimit(a.ring, t) &&
		t.queue().len() > 0 && s.lineRoom(a, t) > 0 {
		s.feed(a, t)
	}
}

// beyond reports whether a reload has left more sessions than there may be.
func (s *Scheduler) overLimit(r *ring, t *thread) bool {
	return !below(t.busy-1, t.window()) || !below(r.busy-1, s.maxRing(r)) || !below(r.channel.busy-1, s.maxChannel(r))
}

// lineRoom is how many lines more the agent may be given of its thread: one
// until it has shown that it ends lines; then overfeed beyond the one it is
// on, of which a thread with several sessions gives each an even part, and
// while others wait no more than is left of the quantum.
func (s *Scheduler) lineRoom(a *agent, t *thread) int {
	if !a.hasEndedLine {
		return 1 - len(a.lines)
	}
	window := t.params.Overfeed + 1
	if sessions := t.params.MaxThr; sessions > 1 {
		window = min(window, (t.queue().len()+len(a.lines)+sessions-1)/sessions)
	}
	room := window - len(a.lines)
	if s.contended(a.ring, t) {
		room = min(room, t.params.Quantum-t.picks)
	}
	return room
}

// contested reports whether others wait for what a session of the thread
// occupies: another thread of the ring, or another ring at a limit.
func (s *Scheduler) contended(r *ring, t *thread) bool {
	return r.othersWait(t) || r.channel.sessionQueues.total() > 0 ||
		r.channel.processQueues.total() > 0 || s.processQueues.total() > 0
}

// mayStay reports whether a session that has just become free goes on with
// its thread, to which its connection may still be open.
func (s *Scheduler) mayStay(a *agent, t *thread) bool {
	r := a.ring
	if s.halted() || t.ring != r || !t.mayFeed() || t.queue().len() == 0 || t.freeSlots() <= 0 ||
		!below(r.busy, s.maxRing(r)) || !below(r.channel.busy, s.maxChannel(r)) {
		return false
	}
	return t.round != r.round || t.picks < t.params.Quantum || !s.contended(r, t)
}

// rest deals with the ring's agents that have a session free and nothing
// open: they are told to be idle, or to leave where another ring waits for
// the place of their process or nothing will come for them any more.
func (s *Scheduler) idleUnused(r *ring) {
	for i := len(r.free) - 1; i >= 0; i-- {
		a := r.free[i]
		if len(a.lines) > 0 {
			continue
		}
		if s.stop.begun || r.retired || s.blocksOthers(r) && !s.needsAgents(r) {
			s.closeAgent(a)
			continue
		}
		r.removeFree(a)
		s.sendIdle(a)
	}
	for len(r.idle) > 0 && (r.retired || s.stop.begun) {
		s.closeAgent(r.idle[0])
	}
}

// inTheWay reports whether another ring waits for a process that one of this
// ring occupies.
func (s *Scheduler) blocksOthers(r *ring) bool {
	return s.processQueues.total() > s.counts.AgentsClosing || r.channel.processQueues.total() > r.channel.closing
}
