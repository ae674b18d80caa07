package scheduler

import "slices"

func (s *Scheduler) viewRing(r *ring) *RingView {
	v := &RingView{Threads: r.members.len, Vertices: r.vertices}
	if r == &s.orphans {
		return v
	}
	v.ID = r.id
	if c := commandClause(r.clauses); c != nil {
		v.Channel, v.Host = c.Channel, c.Host
	}
	v.WithHost, v.Retired = r.hostless, r.retired
	v.Agents, v.Idle, v.Sessions = r.procs, len(r.idle), r.busy
	v.MaxTA, v.MaxChannel, v.MaxRing = s.maxTA(r), s.maxChannel(r), s.maxRing(r)
	v.MaxThr, v.Overfeed = max(1, r.params.MaxThr), r.params.Overfeed
	return v
}

func (s *Scheduler) viewThread(t *thread) *ThreadView {
	v := &ThreadView{
		Channel: t.key.channel, Host: t.key.host,
		Vertices: t.vertices.len, Recipients: t.recipients, Attempts: t.attempts,
		Window: t.window(), Sessions: t.busy, Held: t.held,
		Wait: s.waitOf(t), Rate: t.completions.now(s.now),
	}
	for state, n := range t.states {
		v.States.add(vertexState(state), int(n))
	}
	if t.ring != nil {
		v.Ring, v.WithHost = t.ring.id, t.ring.hostless
	}
	if oldest := t.modTimes.earliest(); oldest != never {
		v.OldestAt = oldest.time()
	}
	if t.lastEventAt != 0 {
		v.LastEventAt = t.lastEventAt.time()
	}
	if wake := t.wake(); wake != never {
		v.WakeAt = wake.time()
	}
	if said := s.diagnostics.get(t.diagnostic); said != nil {
		v.Last = said.text
	}
	for i, a := range t.agents {
		if !slices.Contains(t.agents[:i], a) {
			v.Agents = append(v.Agents, a.view(t))
		}
	}
	return v
}

// wake is when mail of the thread that waits for a time is due next, never
// when some is due now or none waits for a time.
func (t *thread) wake() instant {
	dueNow := t.states[due] > 0
	switch {
	case t.suspendedUntil != 0 && dueNow:
		return t.suspendedUntil
	case dueNow:
		return never
	}
	return max(t.suspendedUntil, t.wakeTimes.earliest())
}

func (a *agent) view(t *thread) AgentView {
	v := AgentView{Agent: a.id, PID: a.pid, State: a.word()}
	if a.hungryAt != 0 {
		v.HungryAt = a.hungryAt.time()
	}
	if a.fedAt != 0 {
		v.FedAt = a.fedAt.time()
	}
	for i := range a.lines {
		if a.lines[i].thread == t {
			v.Open++
		}
	}
	return v
}

func (a *agent) word() AgentState {
	switch {
	case a.signals > 0:
		return AgentError
	case a.state == starting:
		return AgentStarting
	case a.state == serving:
		return AgentStuff
	case a.state == closing:
		return AgentFinish
	}
	return AgentIdle
}

// viewVertex shows a vertex without its recipients.
func (s *Scheduler) viewVertex(v *vertex) *VertexView {
	m, t := s.messageOf(v), s.threadOf(v)
	view := &VertexView{
		Message: m.id, Path: s.path(m), Sender: s.reversePath(m),
		Channel: t.key.channel, Host: t.key.host, WithHost: t.ring != nil && t.ring.hostless,
		ModifiedAt: m.modifiedAt.time(), State: v.state.word(), Ordered: v.ordered,
	}
	switch v.state {
	case due:
		view.Wait = s.waitOf(t)
		view.Next = t.queue().len() > 0 && t.queue().first() == v.ref
	case fed:
		if a := s.agents[v.agent]; a != nil {
			view.PID = a.pid
		}
	case waiting:
		view.WakeAt = v.wakeAt.time()
	}
	if at, _ := s.expiry(v); at != never && !t.held {
		view.ExpiresAt = at.time()
	}
	if v.fedAt != 0 {
		view.FedAt = v.fedAt.time()
	}
	return view
}

func (s *Scheduler) viewRecipient(r *recipient) RecipientView {
	v := RecipientView{Offset: int64(r.offset), Attempts: int(r.attempts)}
	if last := s.diagnostics.get(r.diagnostic); last != nil {
		v.Last = last.text
	}
	return v
}

// reversePath is the sender, empty for the null sender.
func (s *Scheduler) reversePath(m *message) string {
	if m.flags&nullSender != 0 {
		return ""
	}
	return s.sender(m)
}

func (st vertexState) word() State {
	return [...]State{"", StateDue, StateWaiting, StateFed, StateReading, StatePoisoned, StateBlocked, StateHolding}[st]
}

func stateCounts(states [vertexStates]int) StateCounts {
	var c StateCounts
	for state, n := range states {
		c.add(vertexState(state), n)
	}
	return c
}

func (c *StateCounts) add(state vertexState, n int) {
	if state != 0 {
		*[...]*int{nil, &c.Due, &c.Waiting, &c.Fed, &c.Reading, &c.Poisoned, &c.Blocked, &c.Holding}[state] += n
	}
}
