package scheduler

import (
	"slices"
	"strings"

	"zsched/scheduler/rule"
	"zsched/ta"
)

// Queries: how their views are made, and the calls that begin them.

// views shows the queue to people.
type views struct {
	agenda  *agenda
	mail    *mail
	rules   *rules
	threads *threads
	rings   *rings
	limits  *limits
	agents  *agents
	writes  *writes
	notices *notices
	orders  *orders
	loads   *loads
}

// Thread returns a thread and its ring, or nil if there is no mail.
func (s *Scheduler) Thread(channel, host string) (*ThreadView, *RingView) {
	t := s.threads.byKey[threadKey{channel, host}]
	if t == nil {
		return nil, nil
	}
	return s.views.viewThread(t), s.views.viewRing(t.memberOf)
}

// Message returns a message, or nil if it is not in the queue.
func (s *Scheduler) Message(id MessageID) *MessageView {
	m := s.mail.message(id)
	if m == nil {
		return s.views.unloadedMessage(id)
	}
	vertices := 1
	if x := s.mail.extrasOf(m); x != nil {
		vertices += len(x.vertices)
	}
	if m.first == 0 {
		vertices = 0
	}
	return &MessageView{
		Message: m.id, Path: s.mail.path(m), Sender: s.views.reversePath(m), ErrorTo: s.mail.origin(m).errorTo,
		ModifiedAt: m.modifiedAt.time(), ChangedAt: m.changedAt.time(),
		Vertices: vertices, Recipients: int(m.open), Leaving: m.flags&removing != 0, UnderHold: m.flags&underHold != 0,
	}
}

// Known reports whether a control file with that number should be loaded.
func (s *Scheduler) Known(id MessageID) Standing {
	m := s.mail.message(id)
	switch {
	case m == nil && s.loads.unloaded.find(id) == 0:
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
	for _, m := range s.mail.withLogIDs(logID)[0] {
		if len(ids) < limit {
			ids = append(ids, m.id)
		}
	}
	for _, n := range s.loads.unloaded.withLogID(logID) {
		if len(ids) < limit {
			ids = append(ids, s.loads.unloaded.stubs.At(n).id)
		}
	}
	return ids
}

// Channels returns all channels that have had mail, in the order of their first
// mail.
func (s *Scheduler) Channels() []ChannelView {
	views := make([]ChannelView, 0, len(s.limits.channelOrder))
	for _, c := range s.limits.channelOrder {
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
	c := s.mail.counts
	c.States = stateCounts(s.mail.states)
	c.UnderHold = s.orders.holdOrders.underHold
	c.NotLoaded, c.Urgent = s.loads.unloaded.messages+len(s.loads.unloaded.loading), len(s.loads.unloaded.urgent)+s.loads.unloaded.writes
	return c
}

func (vi *views) viewRing(r *ring) *RingView {
	v := &RingView{Threads: r.members.Len, Vertices: r.vertices}
	if r == &vi.rings.orphans {
		return v
	}
	v.ID = r.id
	if c := rule.CommandClause(r.clauses); c != nil {
		v.Channel, v.Host = c.Channel, c.Host
	}
	v.WithHost, v.Retired = r.withHost, r.retired
	v.Agents, v.Idle, v.Sessions = r.processes.Busy, len(r.idle), r.sessions.Busy
	v.MaxTA, v.MaxChannel, v.MaxRing = vi.limits.maxTA(r), vi.limits.maxChannel(r), vi.limits.maxRing(r)
	v.MaxThr, v.Overfeed = max(1, r.params.MaxThr), r.params.Overfeed
	return v
}

func (vi *views) viewThread(t *thread) *ThreadView {
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
		Wait: vi.waitOf(t), Rate: t.completions.now(vi.agenda.now),
		StartError: vi.startError(t),
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
	if wake := vi.wakeOf(t); wake != never {
		v.WakeAt = vi.agenda.timeAt(wake)
	}
	if till := vi.rules.suspensionEnd(t); till != 0 && till != never {
		v.SuspendedUntil = vi.agenda.timeAt(till)
	}
	vi.rules.viewEffects(v, t)
	v.Site = vi.limits.knownSite(t.key)
	if last := vi.mail.diagnostics.Get(t.diagnostic); last != nil {
		v.Last = last.text
	}
	for i, a := range t.agents {
		if !slices.Contains(t.agents[:i], a) {
			v.Agents = append(v.Agents, vi.viewAgent(a, t))
		}
	}
	return v
}

// NoCommand is the start error of mail that no clause gives a command.
const NoCommand = "no clause that matches has a command"

// startError returns why the agents for due mail of a thread do not start, or "".
func (vi *views) startError(t *thread) string {
	switch {
	case t.states[due] == 0:
		return ""
	case t.ring == nil:
		return NoCommand
	}
	if f := vi.agents.startFailures[t.ring.clause]; f != nil {
		return f.why
	}
	return ""
}

// wakeOf returns when waiting mail of the thread is due next; never if some is
// due now, or if none waits for a time.
func (vi *views) wakeOf(t *thread) instant {
	dueNow, end := t.states[due] > 0, vi.rules.suspensionEnd(t)
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

func (vi *views) viewAgent(a *agent, t *thread) AgentView {
	v := AgentView{Agent: a.id, PID: a.pid, State: a.word()}
	if a.hungryAt != 0 {
		v.HungryAt = vi.agenda.timeAt(a.hungryAt)
	}
	if a.fedAt != 0 {
		v.FedAt = vi.agenda.timeAt(a.fedAt)
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
func (vi *views) viewVertex(v *vertex) *VertexView {
	m, t := vi.mail.messageOf(v), vi.mail.threadOf(v)
	view := &VertexView{
		Message: m.id, Path: vi.mail.path(m), Sender: vi.reversePath(m), Owner: vi.mail.origin(m).owner,
		Channel: t.key.channel, Host: t.key.host, WithHost: t.ring != nil && t.ring.withHost,
		ModifiedAt: m.modifiedAt.time(), State: v.state.word(), Held: vi.notices.isKeptBack(v), Hold: vi.orders.holdOrders.messages[m.ref],
	}
	view.Ordered, view.OrderedTo = vi.orders.pendingVerb(v), vi.orders.waiting[v.ref].target()
	switch v.state {
	case due:
		view.Wait, view.StartError = vi.waitOf(t), vi.startError(t)
		if view.Wait == WaitRule {
			view.Rule = t.shaping.suspendingRule()
		}
		if vi.threads.fair.IsAside(v.ref) && view.Wait == WaitAgent {
			view.Wait = WaitMessage
		}
		view.Next = vi.threads.fair.IsFirst(v.ref)
	case fed:
		if a := vi.agents.byID[v.agent]; a != nil {
			view.PID = a.pid
		}
	case waiting:
		view.WakeAt, view.Rule = vi.agenda.timeAt(vi.threads.wakeAt(v)), vi.delayOf(t, v)
	}
	if at := vi.notices.nextExpiry(vi.mail.threadOf(v), vi.mail.messageOf(v).modifiedAt, vi.notices.wasTried(v)); at != noDate && !vi.notices.isKeptBack(v) {
		view.ExpiresAt = at.time()
	}
	if v.fedAt != 0 {
		view.FedAt = v.fedAt.time()
	}
	return view
}

// delayOf returns the reply rule that makes a vertex wait; nil: none does.
func (vi *views) delayOf(t *thread, v *vertex) (rule *rule.ReplyRule) {
	if len(vi.rules.replyRules) == 0 {
		return nil
	}
	for i := range vi.mail.lenOf(v) {
		r := vi.mail.recipient(v, i)
		last := vi.mail.diagnostics.Get(r.diagnostic)
		if r.state == done || last == nil {
			continue
		}
		if one := vi.rules.delayingRule(t, last); one != nil && (rule == nil || one.Span > rule.Span) {
			rule = one
		}
	}
	return rule
}

// unloadedMessage returns a message that is not loaded, or nil.
func (vi *views) unloadedMessage(id MessageID) *MessageView {
	first := vi.loads.unloaded.find(id)
	if first == 0 {
		return nil
	}
	one := vi.loads.unloaded.stubs.At(first)
	view := &MessageView{Message: id, Path: one.path(), ModifiedAt: one.modifiedAt.time(), NotLoaded: true}
	for _, n := range vi.loads.unloaded.of(first) {
		view.Vertices++
		view.Recipients += int(vi.loads.unloaded.stubs.At(n).open)
	}
	return view
}

// viewStub returns a vertex that is not loaded.
func (vi *views) viewStub(n stubRef) *VertexView {
	one := vi.loads.unloaded.stubs.At(n)
	t := vi.loads.stubThread(one)
	view := &VertexView{
		Message: one.id, Path: one.path(), Channel: t.key.channel, Host: t.key.host, WithHost: t.ring != nil && t.ring.withHost,
		ModifiedAt: one.modifiedAt.time(), State: StateDue, Held: t.held, NotLoaded: int(one.open), Attempts: int(one.attempts),
	}
	for _, o := range vi.orders.savedOrders[one.id] {
		if o.Verb == VerbHold || hasTarget(o.Targets, t.key) {
			view.Ordered, view.OrderedTo = o.Verb, o.To
		}
	}
	switch state, at := vi.loads.stateOf(n); state {
	case due:
		view.Wait, view.StartError = vi.waitOf(t), vi.startError(t)
	case waiting:
		view.State, view.WakeAt = StateWaiting, vi.agenda.timeAt(at)
	}
	if at := vi.notices.nextExpiry(t, one.modifiedAt, one.flags&stubTried != 0); at != noDate && !t.held {
		view.ExpiresAt = at.time()
	}
	if one.fedAt != 0 {
		view.FedAt = one.fedAt.time()
	}
	return view
}

func (vi *views) viewRecipient(r *recipient) RecipientView {
	v := RecipientView{Offset: int64(r.offset), Attempts: int(r.attempts)}
	if last := vi.mail.diagnostics.Get(r.diagnostic); last != nil {
		v.Last = last.text
		v.Code, _, _ = strings.Cut(ta.Notary(last.notary).Code(), " ") // without the comment
	}
	return v
}

// reversePath returns the sender, "" for the null sender.
func (vi *views) reversePath(m *message) string {
	if m.flags&nullSender != 0 {
		return ""
	}
	return vi.mail.origin(m).address
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
