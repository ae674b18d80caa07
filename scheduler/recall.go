package scheduler

// Recall: an order takes job lines back from an agent that has not begun with them
// (overfeed).

// recall is a job line that an agent has not begun and that is being taken back.
// Its recipients may be locked by the scheduler, until its file has been read again.
type recall struct {
	agent AgentID // 0: it has answered the line or is gone, or the Recall has failed
	taken bool    // the answer to Recall has come, and the agent will not take the recipients
}

// recallLine tries to take a vertex back from its agent. An agent with one session works
// on the oldest of its lines. Only an agent that marks its recipients respects
// the scheduler's lock.
func (dv *delivery) recallLine(v *vertex) {
	a := dv.agents[v.agent]
	if _, again := dv.recalls[v.ref]; again || a == nil || a.sessions > 1 || !a.marks() || dv.spoolDown || a.lines[0].vertex == v {
		return
	}
	var offsets []int64
	for i := range v.len() {
		if r := dv.recipient(v, i); r.state == open {
			offsets = append(offsets, int64(r.offset))
		}
	}
	dv.recalls[v.ref] = recall{agent: a.id}
	m, op := dv.messageOf(v), dv.nextOp()
	m.pendingWrites++
	dv.issue(op, pending{
		action:  Recall{Op: op, Message: m.id, Path: dv.path(m), Offsets: offsets},
		message: m, vertex: v,
	})
}

// recalled handles the answer. A vertex that an order waits for is dealt with at once.
// One of a thread that is held or suspended stays locked until the agent has answered
// the line; otherwise the agent would take it after all.
func (dv *delivery) recalled(e Recalled) {
	p := dv.store.pending[e.Op]
	if p == nil {
		return
	}
	delete(dv.store.pending, e.Op)
	if p.stale() {
		return
	}
	v, m := p.vertex, p.message
	switch x, known := dv.recalls[v.ref]; {
	case !known:
	case !e.Taken:
		delete(dv.recalls, v.ref)
	default:
		x.taken = true
		dv.recalls[v.ref] = x
		if v.state == fed { // otherwise the agent has answered, and the file is read again
			dv.takeBack(v)
		}
	}
	m.pendingWrites--
	dv.advance(m)
}

// takeBack ends the line of a vertex that the scheduler has locked.
func (dv *delivery) takeBack(v *vertex) {
	a := dv.agents[v.agent]
	for i := range a.lines {
		if l := &a.lines[i]; l.vertex == v {
			l.vertex, l.recalled = nil, true
		}
	}
	dv.reopenRecipients(v)
	if v.ordered == 0 {
		dv.blockVertex(v)
		dv.executeParts(v)
		return
	}
	dv.refund(dv.threadOf(v), dv.feedable(v))
	dv.execute(v)
}

// recallFailed handles a Recall that failed. It is not repeated, and the vertex stays
// with its agent.
func (dv *delivery) recallFailed(p *pending) {
	if x, known := dv.recalls[p.vertex.ref]; known {
		x.agent = 0
		dv.recalls[p.vertex.ref] = x
	}
	p.message.pendingWrites--
	dv.advance(p.message)
}

// recallAnswered is called when the agent has answered a line that was taken back, or is
// gone. If nothing else happened to its vertex, the file is read and then the vertex is due.
func (dv *delivery) recallAnswered(id AgentID, l *line) {
	m := dv.message(l.id)
	if m == nil {
		return
	}
	for _, v := range dv.openVertices(m) {
		if x, known := dv.recalls[v.ref]; known && x.agent == id && v.agent == id {
			x.agent = 0
			dv.recalls[v.ref] = x
			dv.unlockRecalled(v)
		}
	}
}

// unlockRecalled clears the locks of a vertex that was taken back, by reading its file
// again, when its agent has answered its line and no order is to be executed. It reports
// whether the vertex was taken back: then the caller does not make it due.
func (dv *delivery) unlockRecalled(v *vertex) bool {
	x, known := dv.recalls[v.ref]
	if !known {
		return false
	}
	switch {
	case x.agent != 0 && v.state != blocked:
		dv.blockVertex(v)
	case x.agent == 0 && v.ordered == 0 && dv.feedable(v) > 0 && (v.state == blocked || v.state == holding):
		dv.wakes.remove(v.ref)
		dv.readAgain(v, untouched, 0)
	}
	return true
}

// isTakenBack reports whether a vertex is locked by the scheduler and its agent has not
// answered its line yet.
func (ml *mail) isTakenBack(v *vertex) bool {
	return ml.recalls[v.ref].agent != 0 && v.state == blocked
}

// recallThread tries to take back the mail of a thread that is not to be delivered.
func (dv *delivery) recallThread(key threadKey) {
	t := dv.threads[key]
	if t == nil {
		return
	}
	for _, a := range t.agents {
		for i := range a.lines {
			if l := &a.lines[i]; !l.ended() && l.thread == t {
				dv.recallLine(l.vertex)
			}
		}
	}
}

// OrdersWithAgents counts those of the messages for which an order waits until an agent
// reports. Unsettled says that some of them are still being taken back.
func (s *Scheduler) OrdersWithAgents(ids []MessageID) (n int, unsettled bool) {
	for _, id := range ids {
		m := s.message(id)
		if m == nil {
			continue
		}
		waits := false
		s.eachVertex(m, func(v *vertex) {
			if v.state == fed && s.orderOn(v) != 0 {
				waits = true
				unsettled = unsettled || s.recalling(v)
			}
		})
		if waits {
			n++
		}
	}
	return n, unsettled
}

// ThreadWithAgents counts the messages of a thread that agents may deliver. Unsettled
// is as for OrdersWithAgents.
func (s *Scheduler) ThreadWithAgents(channel, host string) (n int, unsettled bool) {
	t := s.threads[threadKey{channel, host}]
	if t == nil {
		return 0, false
	}
	for _, a := range t.agents {
		for i := range a.lines {
			l := &a.lines[i]
			unsettled = unsettled || !l.ended() && l.thread == t && s.recalling(l.vertex)
		}
	}
	return int(t.states[fed]), unsettled
}

// recalling reports whether a vertex is being taken back.
func (ml *mail) recalling(v *vertex) bool {
	x, known := ml.recalls[v.ref]
	return known && x.agent != 0 && !x.taken
}
