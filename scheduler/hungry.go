package scheduler

// #hungry: how job lines end and sessions become free.

// agentHungry handles an agent's #hungry. The first of these meanings that is
// possible applies: the agent is ready; it has read #idle; it has ended a job
// line on which it has reported completely; it offers one of its first sessions;
// it ends its oldest open line, and the unreported recipients of that line take
// one retry step. If it has no open line either, the #hungry is ignored.
func (dv *delivery) agentHungry(id AgentID) {
	a := dv.agents[id]
	if a == nil {
		return
	}
	a.hungryAt = dv.now
	progress := true
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
		progress = false
		dv.logAgent(Info, a, "said #hungry without a job line to answer")
	}
	if progress {
		a.progressAt = dv.now
	}
}

// addSession handles a #hungry, other than the very first, with which an agent
// offers one of its sessions. An agent that is closing gets no job line for it.
func (d *dispatch) addSession(a *agent) {
	a.offered++
	a.freeSessions++
	d.expectSessions(a, max(0, a.expected-1))
	if a.state == serving && a.freeSessions == 1 {
		a.ring.free = append(a.ring.free, a)
	}
	d.markDirty(a.ring)
}

// finishLine takes an ended line off the agent and finds work for its session:
// on the same thread if it may stay there, otherwise wherever the ring has
// some. It reports whether there was an ended line.
func (dv *delivery) finishLine(a *agent) bool {
	i := 0
	for i < len(a.lines) && !a.lines[i].ended() {
		i++
	}
	if i == len(a.lines) {
		return false
	}
	t := a.lines[i].thread
	a.removeLine(i)
	if a.sessions == 1 && len(a.lines) > 0 {
		a.lines[0].startedAt = dv.now
		if a.state == serving {
			dv.overfeed(a)
			dv.updateThread(t)
		}
		return true
	}
	dv.endSession(a, t)
	if a.state == serving {
		if p, ok := dv.stay(a, t); ok {
			dv.serve(a, p)
			return true
		}
	}
	switch {
	case a.state == serving && dv.needProcesses(a.ring.channel):
		dv.closeAgent(a)
	case a.state == closing && len(a.lines) == 0:
		dv.sendClose(a)
	}
	dv.yield(a.ring, t)
	return true
}

// endSession gives back what a session occupied.
func (d *dispatch) endSession(a *agent, t *thread) {
	r := a.ring
	t.busy--
	t.removeAgent(a)
	if t.shaping != nil && t.shaping.site != nil {
		t.shaping.site.sessions.Busy--
	}
	r.sessions.Busy--
	r.channel.sessions.Busy--
	d.counts.Sessions--
	a.freeSessions++
	if a.freeSessions == 1 && a.state == serving {
		r.free = append(r.free, a)
	}
}

// yield offers a session that was given back to other rings first, then to the
// thread and its ring.
func (d *dispatch) yield(r *ring, t *thread) {
	d.yielding = r
	d.wakeSessions(r.channel)
	d.updateThread(t)
	if t.shaping != nil && t.shaping.site != nil {
		d.offerSite(t.shaping.site)
	}
	d.markDirty(r)
}

// endLine ends the agent's job line for the vertex and applies its results: the
// thread gets its feedback, and what is still open in the vertex takes one retry
// step.
func (dv *delivery) endLine(a *agent, v *vertex) {
	n := 0
	for a.lines[n].vertex != v {
		n++
	}
	l := &a.lines[n]
	l.vertex = nil
	dv.lineEnded(a)
	dv.applyOutcome(l, l.thread)
	rule := l.rule    // l is gone when the vertex is fed again
	if v.state == 0 { // removed: its last recipient is done
		return
	}
	defer dv.carryOutPending(v)
	v.crashes = 0
	v.destinationFailed = l.destinationFailed && l.retryAt == 0
	if dv.takeRuleStep(v, rule) {
		return
	}
	if l.retryAt != 0 {
		dv.postpone(v, l.retryAt)
		return
	}
	dv.takeRetryStep(v)
}
