package scheduler

import (
	"slices"
	"strings"

	"zsched/scheduler/rule"
	"zsched/ta"
)

// Queries: how their views are made, and the calls that begin them.

// Thread returns a thread and its ring, or nil if there is no mail.
func (s *Scheduler) Thread(channel, host string) (*ThreadView, *RingView) {
	t := s.threads[threadKey{channel, host}]
	if t == nil {
		return nil, nil
	}
	return s.viewThread(t), s.viewRing(t.memberOf)
}

// Message returns a message, or nil if it is not in the queue.
func (s *Scheduler) Message(id MessageID) *MessageView {
	m := s.message(id)
	if m == nil {
		return s.unloadedMessage(id)
	}
	vertices := 1
	if x := s.extrasOf(m); x != nil {
		vertices += len(x.vertices)
	}
	if m.first == 0 {
		vertices = 0
	}
	return &MessageView{
		Message: m.id, Path: s.path(m), Sender: s.reversePath(m), ErrorTo: s.origin(m).errorTo,
		ModifiedAt: m.modifiedAt.time(), ChangedAt: m.changedAt.time(),
		Vertices: vertices, Recipients: int(m.open), Leaving: m.flags&removing != 0, UnderHold: m.flags&underHold != 0,
	}
}

// Known reports whether a control file with that number should be loaded.
func (s *Scheduler) Known(id MessageID) Standing {
	m := s.message(id)
	switch {
	case m == nil && s.unloaded.find(id) == 0:
		return Absent
	case m == nil:
		return Present
	case m.flags&removing != 0:
		return Leaving
	}
	return Present
}

// ByLogID returns the messages with that log identity, the latest first and at
// most limit of them. Only a hash of the identity is kept, so the caller must
// compare it with the control files.
func (s *Scheduler) ByLogID(logID string, limit int) []MessageID {
	var ids []MessageID
	for _, m := range s.withLogIDs(logID)[0] {
		if len(ids) < limit {
			ids = append(ids, m.id)
		}
	}
	for _, n := range s.unloaded.withLogID(logID) {
		if len(ids) < limit {
			ids = append(ids, s.unloaded.stubs.At(n).id)
		}
	}
	return ids
}

// Channels returns all channels that have had mail, in the order of their first
// mail.
func (s *Scheduler) Channels() []ChannelView {
	views := make([]ChannelView, 0, len(s.channelOrder))
	for _, c := range s.channelOrder {
		views = append(views, ChannelView{
			Name: c.name, Agents: c.processes.Busy, Sessions: c.sessions.Busy,
			In: c.in, Delivered: c.delivered, Deferred: c.deferred,
			Failed: c.failed, Expired: c.expired, Dropped: c.dropped,
			Held: c.held, Released: c.released,
		})
	}
	return views
}

// Counts returns the current counters.
func (s *Scheduler) Counts() Counts {
	c := s.counts
	c.States = stateCounts(s.states)
	c.UnderHold = s.holdOrders.underHold
	c.NotLoaded, c.Urgent = s.unloaded.messages+len(s.unloaded.loading), len(s.unloaded.urgent)+s.unloaded.writes
	return c
}

func (s *Scheduler) viewRing(r *ring) *RingView {
	v := &RingView{Threads: r.members.Len, Vertices: r.vertices}
	if r == &s.orphans {
		return v
	}
	v.ID = r.id
	if c := rule.CommandClause(r.clauses); c != nil {
		v.Channel, v.Host = c.Channel, c.Host
	}
	v.WithHost, v.Retired = r.withHost, r.retired
	v.Agents, v.Idle, v.Sessions = r.processes.Busy, len(r.idle), r.sessions.Busy
	v.MaxTA, v.MaxChannel, v.MaxRing = s.maxTA(r), s.maxChannel(r), s.maxRing(r)
	v.MaxThr, v.Overfeed = max(1, r.params.MaxThr), r.params.Overfeed
	return v
}

func (s *Scheduler) viewThread(t *thread) *ThreadView {
	v := &ThreadView{
		Channel: t.key.channel, Host: t.key.host,
		Vertices: t.vertices.Len + t.notLoaded(), NotLoaded: t.notLoaded(), Recipients: t.recipients, Attempts: t.attempts,
		Shares: t.fair.Shares(),
		Window: t.windowSize(), WindowLimit: max(1, t.params.MaxThr),
		InitialWindow: min(t.params.InitialConcurrency, max(1, t.params.MaxThr)), Sessions: t.busy, Held: t.held,
		Feedback: FeedbackView{
			Success: t.window.Success, Failure: t.window.Failure,
			FailedCohorts: t.window.FailedCohorts, CohortLimit: t.params.CohortLimit, Dead: t.window.Dead,
		},
		Wait: s.waitOf(t), Rate: t.completions.now(s.now),
		StartError: s.startError(t),
	}
	for state, n := range t.states {
		v.States.add(vertexState(state), int(n))
	}
	if t.ring != nil {
		v.Ring, v.WithHost = t.ring.id, t.ring.withHost
	}
	if oldest := t.modTimes.earliest(); oldest != 0 {
		v.OldestAt = oldest.time()
	}
	if t.lastEventAt != 0 {
		v.LastEventAt = t.lastEventAt.time()
	}
	if wake := s.wakeOf(t); wake != never {
		v.WakeAt = s.timeAt(wake)
	}
	if till := s.suspensionEnd(t); till != 0 && till != never {
		v.SuspendedUntil = s.timeAt(till)
	}
	s.viewEffects(v, t)
	v.Site = s.knownSite(t.key)
	if last := s.diagnostics.Get(t.diagnostic); last != nil {
		v.Last = last.text
	}
	for i, a := range t.agents {
		if !slices.Contains(t.agents[:i], a) {
			v.Agents = append(v.Agents, s.viewAgent(a, t))
		}
	}
	return v
}

// NoCommand is the start error of mail that no clause gives a command.
const NoCommand = "no clause that matches has a command"

// startError returns why the agents for due mail of a thread do not start, or "".
func (s *Scheduler) startError(t *thread) string {
	switch {
	case t.states[due] == 0:
		return ""
	case t.ring == nil:
		return NoCommand
	}
	if f := s.startFailures[t.ring.clause]; f != nil {
		return f.why
	}
	return ""
}

// wakeOf returns when waiting mail of the thread is due next; never if some is
// due now, or if none waits for a time.
func (s *Scheduler) wakeOf(t *thread) instant {
	dueNow, end := t.states[due] > 0, s.suspensionEnd(t)
	switch {
	case end != 0 && dueNow:
		return end
	case dueNow:
		return never
	}
	return max(end, t.firstWake())
}

// firstWake returns when the first waiting vertex is due, to the second, loaded or not; never if
// none waits.
func (t *thread) firstWake() instant {
	next := t.nextWake()
	if t.stubs != nil {
		next = min(next, t.stubs.times.Next())
	}
	if next == never {
		return never
	}
	return next.second().instant()
}

func (s *Scheduler) viewAgent(a *agent, t *thread) AgentView {
	v := AgentView{Agent: a.id, PID: a.pid, State: a.word()}
	if a.hungryAt != 0 {
		v.HungryAt = s.timeAt(a.hungryAt)
	}
	if a.fedAt != 0 {
		v.FedAt = s.timeAt(a.fedAt)
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
		return AgentKilled
	case a.state == starting:
		return AgentStarting
	case a.state == serving:
		return AgentServing
	case a.state == closing:
		return AgentClosing
	}
	return AgentIdle
}

// viewVertex returns a vertex without its recipients.
func (s *Scheduler) viewVertex(v *vertex) *VertexView {
	m, t := s.messageOf(v), s.threadOf(v)
	view := &VertexView{
		Message: m.id, Path: s.path(m), Sender: s.reversePath(m), Owner: s.origin(m).owner,
		Channel: t.key.channel, Host: t.key.host, WithHost: t.ring != nil && t.ring.withHost,
		ModifiedAt: m.modifiedAt.time(), State: v.state.word(), Held: s.isKeptBack(v), Hold: s.holdOrders.messages[m.ref],
	}
	view.Ordered, view.OrderedTo = s.pendingVerb(v), s.orders[v.ref].target()
	switch v.state {
	case due:
		view.Wait, view.StartError = s.waitOf(t), s.startError(t)
		if view.Wait == WaitRule {
			view.Rule = t.shaping.suspendingRule()
		}
		if s.fair.IsAside(v.ref) && view.Wait == WaitAgent {
			view.Wait = WaitMessage
		}
		view.Next = s.fair.IsFirst(v.ref)
	case fed:
		if a := s.agents[v.agent]; a != nil {
			view.PID = a.pid
		}
	case waiting:
		view.WakeAt, view.Rule = s.timeAt(s.wakeAt(v)), s.delayOf(t, v)
	}
	if at := s.nextExpiry(s.threadOf(v), s.messageOf(v).modifiedAt, s.wasTried(v)); at != noDate && !s.isKeptBack(v) {
		view.ExpiresAt = at.time()
	}
	if v.fedAt != 0 {
		view.FedAt = v.fedAt.time()
	}
	return view
}

// delayOf returns the reply rule that makes a vertex wait; nil: none does.
func (s *Scheduler) delayOf(t *thread, v *vertex) (rule *rule.ReplyRule) {
	if len(s.replyRules) == 0 {
		return nil
	}
	for i := range s.lenOf(v) {
		r := s.recipient(v, i)
		last := s.diagnostics.Get(r.diagnostic)
		if r.state == done || last == nil {
			continue
		}
		if one := s.delayingRule(t, last); one != nil && (rule == nil || one.Span > rule.Span) {
			rule = one
		}
	}
	return rule
}

// unloadedMessage returns a message that is not loaded, or nil.
func (s *Scheduler) unloadedMessage(id MessageID) *MessageView {
	first := s.unloaded.find(id)
	if first == 0 {
		return nil
	}
	one := s.unloaded.stubs.At(first)
	view := &MessageView{Message: id, Path: one.path(), ModifiedAt: one.modifiedAt.time(), NotLoaded: true}
	for _, n := range s.unloaded.of(first) {
		view.Vertices++
		view.Recipients += int(s.unloaded.stubs.At(n).open)
	}
	return view
}

// viewStub returns a vertex that is not loaded.
func (s *Scheduler) viewStub(n stubRef) *VertexView {
	one := s.unloaded.stubs.At(n)
	t := s.stubThread(one)
	view := &VertexView{
		Message: one.id, Path: one.path(), Channel: t.key.channel, Host: t.key.host, WithHost: t.ring != nil && t.ring.withHost,
		ModifiedAt: one.modifiedAt.time(), State: StateDue, Held: t.held, NotLoaded: int(one.open), Attempts: int(one.attempts),
	}
	for _, o := range s.savedOrders[one.id] {
		if o.Verb == VerbHold || hasTarget(o.Targets, t.key) {
			view.Ordered, view.OrderedTo = o.Verb, o.To
		}
	}
	switch state, at := s.stateOf(n); state {
	case due:
		view.Wait, view.StartError = s.waitOf(t), s.startError(t)
	case waiting:
		view.State, view.WakeAt = StateWaiting, s.timeAt(at)
	}
	if at := s.nextExpiry(t, one.modifiedAt, one.flags&stubTried != 0); at != noDate && !t.held {
		view.ExpiresAt = at.time()
	}
	if one.fedAt != 0 {
		view.FedAt = one.fedAt.time()
	}
	return view
}

func (s *Scheduler) viewRecipient(r *recipient) RecipientView {
	v := RecipientView{Offset: int64(r.offset), Attempts: int(r.attempts)}
	if last := s.diagnostics.Get(r.diagnostic); last != nil {
		v.Last = last.text
		v.Code, _, _ = strings.Cut(ta.Notary(last.notary).Code(), " ") // without the comment
	}
	return v
}

// reversePath returns the sender, "" for the null sender.
func (s *Scheduler) reversePath(m *message) string {
	if m.flags&nullSender != 0 {
		return ""
	}
	return s.origin(m).address
}

func (st vertexState) word() State {
	return [...]State{"", StateDue, StateWaiting, StateFed, StateReading, StateBlocked, StateHeld}[st]
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
		*[...]*int{nil, &c.Due, &c.Waiting, &c.Fed, &c.Reading, &c.Blocked, &c.Held}[state] += n
	}
}
