package scheduler

import "strconv"

// agentHungry answers an agent's #hungry. It ends a job line that has been
// reported, or tells that #idle was read, or offers one of the agent's first
// sessions; else it ends the oldest open line, whose unreported recipients
// take one retry step; else it means nothing.
func (s *Scheduler) agentHungry(id AgentID) {
	a := s.agents[id]
	if a == nil {
		return
	}
	a.heardAt, a.hungryAt = s.now, s.now
	switch {
	case a.state == starting && a.signals == 0:
		s.agentReady(a)
	case a.state == idleSent:
		s.agentIdle(a)
	case s.finishLine(a):
	case a.offered > 0 && a.offered < a.sessions:
		s.addSession(a)
	case len(a.lines) > 0:
		s.endLine(a, a.lines[0].vertex)
		s.finishLine(a)
	default:
		s.noteAgent(Info, a, "said #hungry where nothing was asked of it")
	}
}

// offer is one of the agent's first #hungry lines beyond the first. One that
// is leaving by then is given nothing for it.
func (s *Scheduler) addSession(a *agent) {
	a.offered++
	a.freeSessions++
	s.expectSessions(a, max(0, a.expected-1))
	if a.state == serving && a.freeSessions == 1 {
		a.ring.free = append(a.ring.free, a)
	}
	s.markDirty(a.ring)
}

// answered takes an ended line off the agent and finds its session work: on
// the same thread if it may stay there, else wherever the ring has some.
func (s *Scheduler) finishLine(a *agent) bool {
	i := 0
	for i < len(a.lines) && !a.lines[i].ended() {
		i++
	}
	if i == len(a.lines) {
		return false
	}
	t := a.lines[i].thread
	copy(a.lines[i:], a.lines[i+1:])
	a.lines[len(a.lines)-1] = line{}
	a.lines = a.lines[:len(a.lines)-1]
	if a.sessions == 1 && len(a.lines) > 0 {
		if a.state == serving {
			s.overfeed(a)
			s.updateThread(t)
		}
		return true
	}
	s.endSession(a, t)
	switch {
	case a.state == serving && s.mayStay(a, t):
		s.serve(a, t)
		return true
	case a.state == serving && s.blocksOthers(a.ring):
		s.closeAgent(a)
	case a.state == closing && len(a.lines) == 0:
		s.sendClose(a)
	}
	s.yield(a.ring, t)
	return true
}

// endSession gives back what a session occupied.
func (s *Scheduler) endSession(a *agent, t *thread) {
	r := a.ring
	t.busy--
	t.removeAgent(a)
	r.busy--
	r.channel.busy--
	s.counts.Sessions--
	a.freeSessions++
	if a.freeSessions == 1 && a.state == serving {
		r.free = append(r.free, a)
	}
}

// yield lets others have what a session has given back: other rings first,
// then the thread and its ring.
func (s *Scheduler) yield(r *ring, t *thread) {
	s.yielding = r
	s.admit(r.channel.sessionQueues, r.channel.busy)
	s.updateThread(t)
	s.markDirty(r)
}

// agentSpoke notes a sign of life.
func (s *Scheduler) agentSpoke(id AgentID) {
	if a := s.agents[id]; a != nil {
		a.heardAt = s.now
	}
}

// endLine ends the agent's job line for the vertex and draws what follows
// from it: a failed destination suspends the thread, what is still open of
// the vertex takes one retry step.
func (s *Scheduler) endLine(a *agent, v *vertex) {
	n := 0
	for a.lines[n].vertex != v {
		n++
	}
	l := &a.lines[n]
	l.vertex = nil
	s.lineEnded(a)
	t := l.thread
	if v.state == 0 { // its last recipient is done, it is gone
		s.applyOutcome(l, t)
		return
	}
	v.crashes = 0
	s.applyOutcome(l, t)
	if l.retryAt != 0 {
		s.postpone(v, l.retryAt)
		return
	}
	s.takeRetryStep(v)
}

// judge draws the consequences of an ended line for its thread. What was fed
// before a suspension never moves the thread's retries again.
func (s *Scheduler) applyOutcome(l *line, t *thread) {
	switch {
	case l.retryAt != 0:
		s.suspend(t, max(l.retryAt, t.suspendedUntil))
	case !l.destinationFailed:
		t.retry = 0
	case l.suspensions == t.suspensions:
		s.suspend(t, s.now.after(s.suspensionLength(t)))
	}
}

// step moves what is open of a vertex by one retry step, or expires it.
// Recipients that no report named count as attempted. Where nothing was tried
// and an alternative's turn has come, that is due at once.
func (s *Scheduler) takeRetryStep(v *vertex) {
	tried := s.countAttempts(v)
	s.reopenRecipients(v)
	switch {
	case tried:
		wait, next := retryStep(s.threadOf(v).params, v.retry, s.now.since(s.messageOf(v).modifiedAt), s.rand)
		v.retry = next
		s.postpone(v, s.now.after(wait))
	case v.ordered != 0:
		s.execute(v)
	case s.feedable(v) > 0:
		s.makeDue(v)
	default:
		s.blockVertex(v)
	}
}

// charge counts the line as an attempt at each recipient that no report named,
// and reports whether any was tried.
func (s *Scheduler) countAttempts(v *vertex) (tried bool) {
	for i := range v.len() {
		switch r := s.recipient(v, i); r.state {
		case open:
			s.attempted(v, i)
			tried = true
		case reported:
			tried = true
		}
	}
	return tried
}

// reopen makes the recipients of an ended line ready for the next.
func (s *Scheduler) reopenRecipients(v *vertex) {
	for i := range v.len() {
		if r := s.recipient(v, i); r.state == reported || r.state == promoted {
			r.state = open
		}
	}
}

// postpone has the vertex wait until then: in a queueonly thread for the next
// run. Recipients past their expiry end here.
func (s *Scheduler) postpone(v *vertex, till instant) {
	s.reopenRecipients(v)
	s.setState(v, waiting, till)
	if v.ordered != 0 {
		s.execute(v)
		return
	}
	s.expire(v)
	switch {
	case v.state == 0:
	case s.feedable(v) == 0:
		s.setState(v, blocked, 0)
		s.planWake(v)
	case s.threadOf(v).params.QueueOnly:
		s.setState(v, due, 0)
		s.enqueueVertex(s.threadOf(v), v, true)
		s.planWake(v)
	default:
		s.planWake(v)
	}
}

// wakeVertex is the agenda's call: the vertex's wait is over, or one of its
// recipients may have expired.
func (s *Scheduler) wakeVertex(v *vertex) {
	s.expire(v)
	switch {
	case v.state == 0:
	case s.feedable(v) == 0:
		s.blockVertex(v)
	case v.state == waiting && v.wakeAt <= s.now:
		s.makeDue(v)
	default:
		s.planWake(v)
	}
}

// idleVertex keeps a vertex of which nothing can be fed now.
func (s *Scheduler) blockVertex(v *vertex) {
	t := s.threadOf(v)
	t.dequeueVertex(v)
	s.setState(v, blocked, 0)
	s.planWake(v)
	s.updateThread(t)
}

// agentResync ends the agent's line for the message: it found nothing to do.
// The file is read to see what is left.
func (s *Scheduler) agentResync(id AgentID, message MessageID) {
	a := s.agents[id]
	if a == nil {
		return
	}
	a.heardAt = s.now
	for i := range a.lines {
		l := &a.lines[i]
		if l.id != message || l.ended() {
			continue
		}
		s.lineEnded(a)
		s.revokeLine(l, foundNothing, 0)
		return
	}
	s.noteAgent(Info, a, "asked to resync "+strconv.FormatUint(uint64(message), 10)+", which it was not given")
}

// takeBack ends a line that its agent did not: the file is read to see what is
// left. What the agent has said of the destination counts.
func (s *Scheduler) revokeLine(l *line, why readReason, pid int) {
	v := l.vertex
	l.vertex = nil
	if l.destinationFailed || l.retryAt != 0 {
		s.applyOutcome(l, l.thread)
	}
	s.readAgain(v, why, pid)
}
