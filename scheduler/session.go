package scheduler

import "strconv"

// agentHungry answers an agent's #hungry. It ends a job line that has been
// reported, or tells that #idle was read, or offers one of the agent's first
// sessions; else it ends the oldest open line, whose unreported recipients
// take one retry step; else it means nothing.
func (dv *delivery) agentHungry(id AgentID) {
	a := dv.agents[id]
	if a == nil {
		return
	}
	a.heardAt, a.hungryAt = dv.now, dv.now
	switch {
	case a.state == starting && a.signals == 0:
		dv.agentReady(a)
	case a.state == idleSent:
		dv.agentIdle(a)
	case dv.finishLine(a):
	case a.offered > 0 && a.offered < a.sessions:
		dv.addSession(a)
	case len(a.lines) > 0:
		dv.endLine(a, a.lines[0].vertex)
		dv.finishLine(a)
	default:
		dv.noteAgent(Info, a, "said #hungry where nothing was asked of it")
	}
}

// offer is one of the agent's first #hungry lines beyond the first. One that
// is leaving by then is given nothing for it.
func (d *dispatch) addSession(a *agent) {
	a.offered++
	a.freeSessions++
	d.expectSessions(a, max(0, a.expected-1))
	if a.state == serving && a.freeSessions == 1 {
		a.ring.free = append(a.ring.free, a)
	}
	d.markDirty(a.ring)
}

// answered takes an ended line off the agent and finds its session work: on
// the same thread if it may stay there, else wherever the ring has some.
func (d *dispatch) finishLine(a *agent) bool {
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
			d.overfeed(a)
			d.updateThread(t)
		}
		return true
	}
	d.endSession(a, t)
	switch {
	case a.state == serving && d.mayStay(a, t):
		d.serve(a, t)
		return true
	case a.state == serving && d.blocksOthers(a.ring):
		d.closeAgent(a)
	case a.state == closing && len(a.lines) == 0:
		d.sendClose(a)
	}
	d.yield(a.ring, t)
	return true
}

// endSession gives back what a session occupied.
func (d *dispatch) endSession(a *agent, t *thread) {
	r := a.ring
	t.busy--
	t.removeAgent(a)
	r.busy--
	r.channel.busy--
	d.counts.Sessions--
	a.freeSessions++
	if a.freeSessions == 1 && a.state == serving {
		r.free = append(r.free, a)
	}
}

// yield lets others have what a session has given back: other rings first,
// then the thread and its ring.
func (d *dispatch) yield(r *ring, t *thread) {
	d.yielding = r
	d.admit(r.channel.sessionQueues, r.channel.busy)
	d.updateThread(t)
	d.markDirty(r)
}

// agentSpoke notes a sign of life.
func (d *dispatch) agentSpoke(id AgentID) {
	if a := d.agents[id]; a != nil {
		a.heardAt = d.now
	}
}

// endLine ends the agent's job line for the vertex and draws what follows
// from it: a failed destination suspends the thread, what is still open of
// the vertex takes one retry step.
func (dv *delivery) endLine(a *agent, v *vertex) {
	n := 0
	for a.lines[n].vertex != v {
		n++
	}
	l := &a.lines[n]
	l.vertex = nil
	dv.lineEnded(a)
	t := l.thread
	if v.state == 0 { // its last recipient is done, it is gone
		dv.applyOutcome(l, t)
		return
	}
	v.crashes = 0
	dv.applyOutcome(l, t)
	if l.retryAt != 0 {
		dv.postpone(v, l.retryAt)
		return
	}
	dv.takeRetryStep(v)
}

// judge draws the consequences of an ended line for its thread. What was fed
// before a suspension never moves the thread's retries again.
func (dv *delivery) applyOutcome(l *line, t *thread) {
	switch {
	case l.retryAt != 0:
		dv.suspend(t, max(l.retryAt, t.suspendedUntil))
	case !l.destinationFailed:
		t.retry = 0
	case l.suspensions == t.suspensions:
		dv.suspend(t, dv.now.after(dv.suspensionLength(t)))
	}
}

// step moves what is open of a vertex by one retry step, or expires it.
// Recipients that no report named count as attempted. Where nothing was tried
// and an alternative's turn has come, that is due at once.
func (dv *delivery) takeRetryStep(v *vertex) {
	tried := dv.countAttempts(v)
	dv.reopenRecipients(v)
	switch {
	case tried:
		wait, next := retryStep(dv.threadOf(v).params, v.retry, dv.now.since(dv.messageOf(v).modifiedAt), dv.rand)
		v.retry = next
		dv.postpone(v, dv.now.after(wait))
	case v.ordered != 0:
		dv.execute(v)
	case dv.feedable(v) > 0:
		dv.makeDue(v)
	default:
		dv.blockVertex(v)
	}
}

// charge counts the line as an attempt at each recipient that no report named,
// and reports whether any was tried.
func (ml *mail) countAttempts(v *vertex) (tried bool) {
	for i := range v.len() {
		switch r := ml.recipient(v, i); r.state {
		case open:
			ml.attempted(v, i)
			tried = true
		case reported:
			tried = true
		}
	}
	return tried
}

// reopen makes the recipients of an ended line ready for the next.
func (ml *mail) reopenRecipients(v *vertex) {
	for i := range v.len() {
		if r := ml.recipient(v, i); r.state == reported || r.state == promoted {
			r.state = open
		}
	}
}

// postpone has the vertex wait until then: in a queueonly thread for the next
// run. Recipients past their expiry end here.
func (dv *delivery) postpone(v *vertex, till instant) {
	dv.reopenRecipients(v)
	dv.setState(v, waiting, till)
	if v.ordered != 0 {
		dv.execute(v)
		return
	}
	dv.expire(v)
	switch {
	case v.state == 0:
	case dv.feedable(v) == 0:
		dv.setState(v, blocked, 0)
		dv.planWake(v)
	case dv.threadOf(v).params.QueueOnly:
		dv.setState(v, due, 0)
		dv.enqueueVertex(dv.threadOf(v), v, true)
		dv.planWake(v)
	default:
		dv.planWake(v)
	}
}

// wakeVertex is the agenda's call: the vertex's wait is over, or one of its
// recipients may have expired.
func (dv *delivery) wakeVertex(v *vertex) {
	dv.expire(v)
	switch {
	case v.state == 0:
	case dv.feedable(v) == 0:
		dv.blockVertex(v)
	case v.state == waiting && v.wakeAt <= dv.now:
		dv.makeDue(v)
	default:
		dv.planWake(v)
	}
}

// idleVertex keeps a vertex of which nothing can be fed now.
func (q *queue) blockVertex(v *vertex) {
	t := q.threadOf(v)
	t.dequeueVertex(v)
	q.setState(v, blocked, 0)
	q.planWake(v)
	q.updateThread(t)
}

// agentResync ends the agent's line for the message: it found nothing to do.
// The file is read to see what is left.
func (dv *delivery) agentResync(id AgentID, message MessageID) {
	a := dv.agents[id]
	if a == nil {
		return
	}
	a.heardAt = dv.now
	for i := range a.lines {
		l := &a.lines[i]
		if l.id != message || l.ended() {
			continue
		}
		dv.lineEnded(a)
		dv.revokeLine(l, foundNothing, 0)
		return
	}
	dv.noteAgent(Info, a, "asked to resync "+strconv.FormatUint(uint64(message), 10)+", which it was not given")
}

// takeBack ends a line that its agent did not: the file is read to see what is
// left. What the agent has said of the destination counts.
func (dv *delivery) revokeLine(l *line, why readReason, pid int) {
	v := l.vertex
	l.vertex = nil
	if l.destinationFailed || l.retryAt != 0 {
		dv.applyOutcome(l, l.thread)
	}
	dv.readAgain(v, why, pid)
}
