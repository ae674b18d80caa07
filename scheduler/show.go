package scheduler

import (
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// Queries: how their views are made, and the calls that begin them.

// views shows the queue to people.
type views struct {
	s *Scheduler
}

// Thread returns a thread, or nil if there is no mail.
func (s *Scheduler) Thread(channel, host string) *view.Thread {
	t := s.threads.byKey[threadKey{channel, host}]
	if t == nil {
		return nil
	}
	return s.views.viewThread(t)
}

// Message returns a message; false: it is not in the queue.
func (s *Scheduler) Message(id MessageID) (v view.Message, ok bool) {
	m := s.mail.message(id)
	if m == nil {
		return v, false
	}
	v = view.Message{
		ModifiedAt: m.modifiedAt.time(), Recipients: int(m.open), UnderHold: m.flags&underHold != 0, Leaving: m.flags&removing != 0,
		Hold: s.orders.heldMessages[m.ref], Vertices: s.mail.vertexCount(m),
	}
	return v, true
}

// ByMessageID returns the messages with that Message-ID, the latest first and at
// most limit of them. Only a hash of the identity is kept, so the caller must
// compare it with the control files.
func (s *Scheduler) ByMessageID(messageID string, limit int) []MessageID {
	var ids []MessageID
	for _, m := range s.mail.withMessageID(messageID) {
		if len(ids) < limit {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// Channels returns all channels that have had mail, in the order of their first
// mail.
func (s *Scheduler) Channels() []view.Channel {
	views := make([]view.Channel, 0, len(s.limits.channelOrder))
	for _, c := range s.limits.channelOrder {
		views = append(views, view.Channel{Name: c.name, Agents: c.processes.Busy, Sessions: c.sessions.Busy, ChannelCounts: c.counts})
	}
	return views
}

// Counts returns the current counters.
func (s *Scheduler) Counts() view.Counts {
	c := s.mail.counts
	barred := s.mail.barred
	if s.rings.halted() {
		barred = s.mail.states[due]
	}
	c.States = stateCounts(s.mail.states, barred)
	c.Held, c.FailedWrites = len(s.orders.heldMessages), len(s.writes.failed)
	return c
}

func (vi *views) viewRing(r *ring) *view.Ring {
	v := &view.Ring{Threads: r.members.Len, JobLines: r.vertices}
	if r.isBlocked() {
		return v
	}
	v.ID, v.WithHost, v.Clauses, v.Example = r.id, r.withHost, viewClauses(r.clauses), r.example.view()
	if c := rule.CommandClause(r.clauses); c != nil {
		v.Channel, v.Host = c.Channel, c.Host
	}
	v.Agents, v.Idle, v.Sessions = r.processes.Busy, len(r.idle), r.sessions.Busy
	v.MaxRing, v.MaxThr, v.Overfeed = r.links.of(ofRing).most, max(1, r.params.MaxThr), r.params.Overfeed
	return v
}

func (vi *views) viewThread(t *thread) *view.Thread {
	v := &view.Thread{
		Name: t.key.view(), JobLines: t.vertices.Len,
		Recipients: t.recipients, Attempts: int(t.attempts), States: vi.statesOf(t),
		Sessions: t.busy(), Window: t.windowSize(), WindowLimit: max(1, t.params.MaxThr),
		Held: t.held, Wait: vi.waitOf(t), StartError: vi.startError(t), Site: vi.s.limits.knownSites[t.key],
		Probing: t.window.Dead && t.suspendedUntil == 0,
	}
	if !t.ring.isBlocked() {
		v.Ring, v.WithHost = t.ring.id, t.ring.withHost
	}
	if t.oldest != 0 {
		v.OldestAt = t.oldest.time()
	}
	if t.lastEventAt != 0 {
		v.LastEventAt = t.lastEventAt.time()
	}
	if wake := vi.wakeOf(t); wake != never {
		v.WakeAt = vi.s.agenda.timeAt(wake)
	}
	if t.suspendedUntil != 0 {
		v.SuspendedUntil = vi.s.agenda.timeAt(t.suspendedUntil)
	}
	vi.s.rules.viewEffects(v, t)
	if last := vi.s.mail.diagnostics.Get(t.diagnostic); last != nil {
		v.Reason = last.text
	}
	for i, a := range t.agents {
		if !slices.Contains(t.agents[:i], a) {
			v.Agents = append(v.Agents, vi.viewAgent(a, t))
		}
	}
	return v
}

// startsToFail is how many starts in a row fail, in 15 seconds at least, before they count as
// a lasting fault.
const startsToFail = 5

// FailingStarts returns a channel whose due mail has no agents, because they cannot be started again and
// again, and why; "": there is none.
func (s *Scheduler) FailingStarts() (channel, why string) {
	if len(s.agents.startFailures) == 0 {
		return "", ""
	}
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		if f := s.agents.startFailures[r.clause]; f != nil && f.failures >= startsToFail && r.wants > 0 {
			return r.channel.name, f.why
		}
	}
	return "", ""
}

// NoCommand is the start error of mail that no clause gives a command.
const NoCommand = "no clause that matches has a command"

// startError returns why the agents for due mail of a thread do not start, or "".
func (vi *views) startError(t *thread) string {
	switch {
	case t.states[due] == 0:
		return ""
	case t.ring.isBlocked():
		return NoCommand
	}
	if f := vi.s.agents.startFailures[t.ring.clause]; f != nil {
		return f.why
	}
	return ""
}

// wakeOf returns when waiting mail of the thread is due next; never if some is
// due now, or if none waits for a time.
func (vi *views) wakeOf(t *thread) instant {
	dueNow, end := t.states[due] > 0, t.suspendedUntil
	switch {
	case end != 0 && dueNow:
		return end
	case dueNow:
		return never
	}
	return max(end, t.nextWake())
}

func (vi *views) viewAgent(a *agent, t *thread) view.Agent {
	v := view.Agent{ID: uint64(a.id), PID: a.pid, State: a.word()}
	if a.hungryAt != 0 {
		v.HungryAt = vi.s.agenda.timeAt(a.hungryAt)
	}
	if a.fedAt != 0 {
		v.FedAt = vi.s.agenda.timeAt(a.fedAt)
	}
	for i := range a.lines {
		if a.lines[i].thread == t {
			v.Open++
		}
	}
	return v
}

// word returns the state of an agent in the words of ZMailer's scheduler.
func (a *agent) word() string {
	switch {
	case a.signals > 0:
		return "ERROR"
	case a.state == starting:
		return "LARVA"
	case a.state == serving:
		return "STUFF"
	case a.state == closing:
		return "FINISH"
	}
	return "IDLE"
}

// viewVertex returns a vertex without its recipients.
func (vi *views) viewVertex(v *vertex) *view.JobLine {
	m, t := vi.s.mail.messageOf(v), vi.s.mail.threadOf(v)
	at := m.modifiedAt.time()
	line := &view.JobLine{
		Name: t.key.view(), Message: m.id, Path: vi.s.mail.path(m), SpoolID: ctlfile.SpoolID(uint64(m.id), at), ArrivedAt: at,
		Sender: vi.reversePath(m), Source: vi.s.mail.origin(m).source, Owner: &vi.s.mail.origin(m).owner, State: vi.stateOf(v),
		Held: vi.s.notices.isKeptBack(v), Order: string(vi.s.orders.pendingVerb(v)),
	}
	if o := vi.s.orders.waiting[v.ref]; o != nil && o.Verb == view.VerbReroute {
		line.OrderTo = o.To.Channel + "/" + o.To.Host
	}
	switch v.state {
	case due:
		line.Wait, line.StartError = vi.waitOf(t), vi.startError(t)
		if vi.s.threads.fair.IsAside(v.ref) && line.Wait == view.WaitAgent {
			line.Wait = view.WaitMessage
		}
		line.Next = vi.s.threads.fair.IsFirst(v.ref)
	case held:
		line.Wait = view.WaitHeld
	case fed:
		if a := vi.s.agents.byID[v.agent]; a != nil {
			line.PID = a.pid
		}
	case waiting:
		line.WakeAt, line.Wait = vi.s.agenda.timeAt(vi.s.threads.wakeAt(v)), vi.waitBeyond(t, vi.s.threads.wakeAt(v))
	}
	if at := vi.s.notices.nextExpiry(v); at != noDate && !line.Held {
		line.ExpiresAt = at.time()
	}
	if v.fedAt != 0 {
		line.FedAt = v.fedAt.time()
	}
	return line
}

func (vi *views) viewRecipient(r *recipient) view.Recipient {
	v := view.Recipient{Offset: int64(r.offset), Attempts: int(r.attempts)}
	if last := vi.s.mail.diagnostics.Get(r.diagnostic); last != nil {
		v.Reason = last.text
	}
	return v
}

// reversePath returns the sender, "" for the null sender.
func (vi *views) reversePath(m *message) string {
	if m.flags&nullSender != 0 {
		return ""
	}
	return vi.s.mail.origin(m).address
}

func (k threadKey) view() view.Name { return view.Name{Channel: k.channel, Host: k.host} }

func (st vertexState) word() string {
	return [...]string{"", view.Due, view.Waiting, view.Fed, view.Reading, view.Blocked, view.Held}[st]
}

// statesOf counts the vertices of a thread by their states.
func (vi *views) statesOf(t *thread) map[string]int {
	barred := int32(0)
	if vi.hasBarrier(t) {
		barred = t.states[due]
	}
	return stateCounts(t.states, barred)
}

// hasBarrier reports whether there is a barrier, so that the due mail of a thread is blocked.
func (vi *views) hasBarrier(t *thread) bool { return t.barred || vi.s.rings.halted() }

// stateOf returns the word for the state of a vertex.
func (vi *views) stateOf(v *vertex) string {
	if v.state == due && vi.hasBarrier(vi.s.mail.threadOf(v)) {
		return view.Blocked
	}
	return v.state.word()
}

// stateCounts returns the counts that are not 0, by the words of the states. Of what is due, so much
// is barred, which people see as blocked.
func stateCounts[N int | int32](states [vertexStates]N, barred N) map[string]int {
	states[due] -= barred
	states[blocked] += barred
	counts := make(map[string]int)
	for state, n := range states[1:] {
		if n != 0 {
			counts[vertexState(state+1).word()] = int(n)
		}
	}
	return counts
}
