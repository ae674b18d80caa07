package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/scheduler/store"
	"zsched/scheduler/view"
)

// check panics if the state contradicts itself. Tests call it after each Step.
// Each line is an invariant that a single state can show.
func (s *Scheduler) check() {
	c := view.Counts{States: make(map[string]int)}
	for ref := range s.mail.byID.Each {
		m := s.mail.messages.At(ref)
		assert(m.ref == ref && s.mail.byID.Find(uint64(m.id)) == ref, "message %d is kept as another", m.id)
		s.checkMessage(m, &c)
	}
	s.checkSites()
	s.checkShares()
	s.checkRates()
	s.checkLogs()
	s.checkMail()
	for key, t := range s.threads.byKey {
		assert(t.key == key, "thread %v is kept as %v", t, key)
		s.checkThread(t)
	}
	for _, a := range s.agents.byID {
		s.checkAgent(a, &c)
	}
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		s.checkRing(r)
	}
	members := 0
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		members += r.members.Len
	}
	assert(members == len(s.threads.byKey), "threads: %d in rings, %d kept", members, len(s.threads.byKey))
	for _, ch := range s.limits.channelOrder {
		s.checkChannel(ch)
	}
	assert(len(s.rings.dirty) == 0, "rings are left to be dispatched")
	assert(s.limits.processes.Busy == len(s.agents.byID), "%d processes, kept %d", len(s.agents.byID), s.limits.processes.Busy)
	for a := s.agents.idleAgents.Head; a != nil; a = a.Next {
		assert(s.rings.halted() || s.limits.needsAgents(a.ring) || !s.limits.needProcesses(a.ring.channel), "agent %d is idle while a ring waits for a process", a.id)
	}
	assert(c.Recipients == s.mail.counts.Recipients, "recipients: counted %d, kept %d", c.Recipients, s.mail.counts.Recipients)
	assert(s.mail.counts.RecipientsIn-s.mail.counts.RecipientsOut == uint64(c.Recipients), "recipients: %+v, counted %d", s.mail.counts, c.Recipients)
	assert(c.Vertices == s.mail.counts.Vertices, "vertices: counted %d, kept %d", c.Vertices, s.mail.counts.Vertices)
	assert(c.AgentsIdle == s.mail.counts.AgentsIdle, "idle agents: counted %d, kept %d", c.AgentsIdle, s.mail.counts.AgentsIdle)
	assert(c.AgentsClosing == s.mail.counts.AgentsClosing, "leaving agents: counted %d, kept %d", c.AgentsClosing, s.mail.counts.AgentsClosing)
	assert(c.Sessions == s.mail.counts.Sessions, "sessions: counted %d, kept %d", c.Sessions, s.mail.counts.Sessions)
	messages := s.mail.byID.Len()
	assert(messages == s.mail.counts.Messages, "messages: %d, kept %d", messages, s.mail.counts.Messages)
	assert(len(s.threads.byKey) == s.mail.counts.Threads, "threads: %d, kept %d", len(s.threads.byKey), s.mail.counts.Threads)
	assert(len(s.agents.byID) == s.mail.counts.Agents, "agents: %d, kept %d", len(s.agents.byID), s.mail.counts.Agents)
	assert(s.mail.counts.MessagesIn-s.mail.counts.MessagesOut == uint64(messages), "messages: %d in, %d out, %d there", s.mail.counts.MessagesIn, s.mail.counts.MessagesOut, messages)
	assert(s.mail.counts.RecipientsIn-s.mail.counts.RecipientsOut == uint64(c.Recipients), "recipients: %d in, %d out, %d there", s.mail.counts.RecipientsIn, s.mail.counts.RecipientsOut, c.Recipients)
	assert(maps.Equal(s.Counts().States, c.States), "states: counted %+v, kept %+v", c.States, s.Counts().States)
	s.checkNotices()
}

// checkNotices: what is planned is about mail that is there, and a notice whose
// time has come waits only for something that is being written.
func (s *Scheduler) checkNotices() {
	for ref := messageRef(1); ref <= s.mail.messages.Last; ref++ {
		if m := s.mail.messages.At(ref); m.flags&noticeDue != 0 {
			assert(m.owesInterim() || m.pendingWrites > 0 || m.flags&removing != 0, "a notice is due about message %d, which owes none", m.id)
			assert(m.pendingWrites > 0 || m.flags&(removing|moving) != 0, "the notice about message %d is never written", m.id)
		}
	}
	for ref := range s.notices.delays {
		assert(s.mail.vertices.At(ref).state != 0, "the delays of a vertex that has left are kept")
	}
}

// String lets assert name a thread without a copy of its key, which took half of
// the time of all checks.
func (t *thread) String() string { return t.name() }

// Keep returns actions that stay valid after the next Step.
func Keep(actions []Action) (kept []Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case *Feed:
			kept = append(kept, new(*a))
		case *Outcome:
			kept = append(kept, new(*a))
		case *Finish:
			kept = append(kept, new(*a))
		default:
			kept = append(kept, a)
		}
	}
	return kept
}

func assert(holds bool, format string, args ...any) {
	if !holds {
		panic("scheduler: " + fmt.Sprintf(format, args...))
	}
}

func (s *Scheduler) checkMessage(m *message, c *view.Counts) {
	open, linked := int32(0), 0
	s.mail.eachVertex(m, func(v *vertex) {
		if v.state == 0 {
			assert(s.mail.openOf(v) == 0, "a vertex of %d left with %d open", m.id, s.mail.openOf(v))
			return
		}
		linked++
		open += s.mail.openOf(v)
		s.checkVertex(v, c)
	})
	assert(open == m.open, "message %d: %d open, kept %d", m.id, open, m.open)
	assert(m.open > 0 || m.pendingWrites > 0 || m.flags&removing != 0, "message %d is done and not leaving", m.id)
	assert(m.flags&removing == 0 || m.open == 0, "message %d leaves with %d open", m.id, m.open)
	under, ordered := m.flags&underHold != 0, s.orders.heldMessages[m.ref] != nil
	assert(m.flags&moving == 0 || (under || s.orders.allHeld(m)) && m.pendingWrites == 0, "message %d is moved and not all held", m.id)
	settled := m.flags&(moving|removing) == 0 && m.pendingWrites == 0
	assert(under || !ordered || !settled || !s.orders.allHeld(m), "message %d is all held and not moved", m.id)
	assert(!under || ordered || !settled, "message %d is under hold/ without an order, and not moved", m.id)
	s.checkSessions(m)
	c.Recipients += int(m.open)
	c.Vertices += linked
}

// checkMail: all memory that is allocated is in use, and shared values have the
// right number of users.
func (s *Scheduler) checkMail() {
	vertices, more, extras := 0, 0, 0
	senders, diagnostics := make(map[senderRef]int32), make(map[diagnosticRef]int32)
	for ref := range s.mail.byID.Each {
		m := s.mail.messages.At(ref)
		senders[m.sender]++
		if m.flags&hasExtras != 0 {
			extras++
		}
		s.mail.eachVertex(m, func(v *vertex) {
			vertices++
			if v.more != 0 {
				more++
			}
			for i := range s.mail.lenOf(v) {
				diagnostics[s.mail.recipient(v, i).diagnostic]++
			}
		})
	}
	for _, t := range s.threads.byKey {
		assert(*s.mail.threadTable.At(t.ref) == t, "thread %v is kept as another", t)
		diagnostics[t.diagnostic]++
		diagnostics[t.shared]++
	}
	assert(s.mail.messages.Used() == s.mail.byID.Len(), "messages: %d, %d allocated", s.mail.byID.Len(), s.mail.messages.Used())
	assert(s.mail.vertices.Used() == vertices, "vertices: %d, %d allocated", vertices, s.mail.vertices.Used())
	assert(s.mail.moreRecipients.Used() == more && len(s.mail.extras) == extras, "more recipients: %d, %d allocated; extras: %d, %d", more, s.mail.moreRecipients.Used(), extras, len(s.mail.extras))
	assert(s.mail.threadTable.Used() == len(s.threads.byKey), "threads: %d, %d allocated", len(s.threads.byKey), s.mail.threadTable.Used())
	for _, ref := range s.mail.quiet {
		senders[ref]++
	}
	checkUsers("sender", &s.mail.senders, senders)
	for address, ref := range s.mail.byAddress {
		assert(s.mail.senders.At(ref).address == address && s.mail.senders.Users(ref) > 0, "sender %q is not found", address)
	}
	checkUsers("diagnostic", &s.mail.diagnostics, diagnostics)
}

// checkUsers: each value has as many users as there are, and is dropped with the last one.
func checkUsers[N ~uint32, T any](what string, p *store.Pool[N, T], users map[N]int32) {
	delete(users, 0)
	assert(p.Used() == len(users), "%ss: %d, %d in use", what, p.Used(), len(users))
	for n, m := range users {
		assert(p.Users(n) == m, "%s %d: %d users, kept for %d", what, n, m, p.Users(n))
	}
}

// checkLogs: no Message-ID is kept for a message that has left.
func (s *Scheduler) checkLogs() {
	for ref, hash := range s.mail.logHashes.All {
		assert(hash == 0 || s.mail.messages.At(ref).ref == ref, "the Message-ID of message number %d, which has left, is kept", ref)
	}
}

// checkVertex: each recipient is due, waiting with a time or for a named event,
// with an agent, or done; and no vertex is in two places.
func (s *Scheduler) checkVertex(v *vertex, c *view.Counts) {
	id, t := s.mail.messageOf(v).id, s.mail.threadOf(v)
	assert(s.threads.byKey[t.key] == t, "vertex of %d in a thread that is gone: %v", id, t)
	queued := v.place.Queued()
	lines := s.linesOf(v)
	expires, _ := s.notices.expiry(v)
	waitsForRun := v.state == due && (t.params.QueueOnly || t.updates&newParams != 0) // it may wait
	assert(queued == (v.state == due) || waitsForRun, "vertex of %d in state %d, queued %v", id, v.state, queued)
	assert((lines == 1) == (v.state == fed) && lines <= 1, "vertex of %d in state %d with %d agents", id, v.state, lines)
	if v.state == waiting {
		at := s.threads.wakeAt(v)
		assert(at != never && s.agenda.plannedAt(&t.waiting.wake) <= at, "vertex of %d waits without an end", id)
	}
	if v.state.isWatched() && !s.notices.isKeptBack(v) && t.updates&(releaseHeld|newParams) == 0 && s.mail.anyOf(v, (*recipient).mayExpire) {
		assert(expires == noDate || s.notices.next != 0 || s.notices.lookAt != noDate, "vertex of %d in state %d expires at %v, no look is planned", id, v.state, expires)
	}
	if v.state == due || v.state == waiting {
		assert(s.mail.feedable(v) > 0 || v.state == waiting && s.mail.anyOf(v, (*recipient).isWriting), "vertex of %d in state %d has nothing to feed", id, v.state)
	}
	c.States[s.views.stateOf(v)]++
	under := s.mail.messageOf(v).flags&underHold != 0
	assert(v.state != held || under || s.orders.heldMessages[v.message] != nil || s.mail.messageOf(v).flags&moving != 0, "vertex of %d is held without an order", id)
	assert(!under || v.state == held || v.state == blocked, "vertex of %d under hold/ in state %d", id, v.state)
	assert(s.orders.waiting[v.ref] == nil || s.orders.mustWait(v), "vertex of %d in state %d has an order open", id, v.state)
	if v.state == blocked {
		assert(s.mail.feedable(v) == 0 || s.mail.anyOf(v, (*recipient).isWriting), "vertex of %d is blocked with something to feed", id)
	}
	open := int32(0)
	for i := range s.mail.lenOf(v) {
		r := s.mail.recipient(v, i)
		assert(i == 0 || s.mail.recipient(v, i-1).offset < r.offset, "recipients of %d out of order", id)
		assert(r.state != 0, "recipient %d/%d has no state", id, r.offset)
		if r.state != done {
			open++
		}
		if r.state == reported {
			assert(v.state == fed || v.state == reading, "recipient %d/%d in state %d, its vertex in %d", id, r.offset, r.state, v.state)
		}
		if r.state == writing {
			assert(s.mail.messageOf(v).pendingWrites > 0, "recipient %d/%d settles with nothing under way", id, r.offset)
		}
	}
	assert(open > 0 && open == s.mail.openOf(v), "vertex of %d: %d open, kept %d", id, open, s.mail.openOf(v))
}

func (s *Scheduler) linesOf(v *vertex) int {
	n := 0
	if a := s.agents.byID[v.agent]; a != nil {
		for i := range a.lines {
			if a.lines[i].vertex == v {
				n++
			}
		}
	}
	return n
}

func (s *Scheduler) checkThread(t *thread) {
	n, waits, recipients := 0, 0, int32(0)
	oldest, wake := ^second(0), never
	var states [vertexStates]int32
	for ref := t.vertices.Head; ref != 0; ref = t.vertices.Next(ref) {
		v := s.mail.vertices.At(ref)
		assert(s.mail.threadOf(v) == t && v.state != 0, "a vertex of another thread in %v", t)
		n++
		recipients += s.mail.openOf(v)
		states[v.state]++
		oldest = min(oldest, s.mail.messageOf(v).modifiedAt.second())
		if v.state == waiting {
			waits++
			wake = min(wake, s.threads.wakeAt(v))
		}
	}
	assert(states == t.states && int(recipients) == t.recipients, "thread %v: states %v, kept %v; %d recipients, kept %d", t, states, t.states, recipients, t.recipients)
	assert((t.isEmpty() && t.oldest == 0 || oldest <= t.oldest) && wake == t.nextWake(), "thread %v: oldest %d, kept %d; next wake %d, kept %d", t, oldest, t.oldest, wake, t.nextWake())
	assert(t.waiting == nil || t.waiting.times.Len() == waits, "thread %v: %d wait, %d kept", t, waits, t.states[waiting])
	s.checkWindow(t)
	assert(t.held == (s.orders.heldThreads[t.key] != nil), "thread %v is held: %v", t, t.held)
	for _, a := range t.agents {
		assert(s.agents.byID[a.id] == a, "thread %v has an agent that is gone", t)
	}
	assert(n == t.vertices.Len, "thread %v: %d vertices, kept %d", t, n, t.vertices.Len)
	assert(!t.isEmpty() || t.busy() > 0 || t.suspendedUntil != 0 || t.shaping != nil && t.shaping.slowedBy != nil, "thread %v is empty and still there", t)
	s.checkGate(t)
	assert((t.suspendedUntil != 0 || t.nextUpdate != 0) == t.resume.isPlanned(), "thread %v: suspension and agenda disagree", t)
	assert(t.barred == t.isBarred(), "thread %v is barred: %v", t, t.barred)
	assert((s.views.barrier(t) != view.NoWait) == s.views.hasBarrier(t), "thread %v waits for %q", t, s.views.barrier(t))
	switch ready := t.fair.Pickable(); {
	case s.hasDueTokens(t): // a Tick comes next
	case t.mayFeed():
		assert(t.wants == max(0, min(ready, s.limits.freeSlots(t))), "thread %v wants %d, has %d due and room for %d", t, t.wants, ready, s.limits.freeSlots(t))
	default:
		assert(t.wants == 0, "thread %v wants sessions and may not have any", t)
	}
	assert(t.fair.Len() == 0 || s.hasDueTokens(t) || t.fair.IsOpen() == (t.mayFeed() && s.limits.freeSlots(t) > 0), "thread %v is open: %v", t, t.fair.IsOpen())
	s.checkQueue(t)
}

// hasDueTokens reports whether a thread has tokens that it has not been woken for yet.
func (s *Scheduler) hasDueTokens(t *thread) bool {
	if x := t.shaping; x != nil {
		for _, b := range [...]*bucket{x.rate, x.clusterRate} {
			if b != nil && s.agenda.plannedAt(&b.next) <= s.agenda.now {
				return true
			}
		}
	}
	return false
}

// checkSites: a site counts its threads and their sessions, and no thread waits at a
// site that has a free session which no thread was offered.
func (s *Scheduler) checkSites() {
	type count struct{ threads, busy, waiting int }
	counts := make(map[*site]count)
	for _, t := range s.threads.byKey {
		x := t.shaping
		if x == nil || x.site == nil {
			assert(!t.waitsAtSite() && !t.movesToSite(), "thread %v waits at no site", t)
			continue
		}
		assert(s.limits.sites[x.site.name] == x.site, "thread %v has a site that is gone", t)
		n := counts[x.site]
		n.threads++
		n.busy += t.busy()
		assert(!x.moves || x.site.unknown && t.busy() > 0, "thread %v moves from no unknown site, or has no session there", t)
		assert(x.moves == slices.Contains(s.limits.moving, t), "thread %v moves: %v", t, x.moves)
		assert((t.params.Cluster.SiteMax > 0) == (x.shares[ofClusterSiteMax].clusterShare != nil), "thread %v has a clustersitemax of %d and no share", t, t.params.Cluster.SiteMax)
		if t.waitsAtSite() {
			n.waiting++
			assert(x.place.WaitsIn(&x.site.sessions.Queue) && t.ring != nil && t.wants == 0, "thread %v waits at its site and wants sessions", t)
			isPlanned := x.toSite.rate != nil && x.toSite.rate.next.isPlanned()
			assert(s.limits.now(&x.toSite).Room() <= 0 || isPlanned || s.wanting(x.site, t.ring), "site %s has a free session for which thread %v is not woken", x.site.name, t)
		}
		counts[x.site] = n
	}
	for name, st := range s.limits.sites {
		n := counts[st]
		assert(n.threads == st.threads && n.busy == st.sessions.Busy, "site %s: %d threads, kept %d; %d sessions, kept %d", name, n.threads, st.threads, n.busy, st.sessions.Busy)
		assert(st.sessions.Len() == n.waiting, "site %s: %d threads wait, %d kept", name, n.waiting, st.sessions.Len())
	}
}

// wanting reports whether a thread of the site and the ring may begin a session: it was
// woken, and has not begun yet.
func (s *Scheduler) wanting(st *site, r *ring) bool {
	for _, t := range s.threads.byKey {
		if t.ring == r && t.wants > 0 && t.shaping != nil && t.shaping.site == st {
			return true
		}
	}
	return false
}

// checkShares: each share has its threads, and the demand for it was said as it is.
func (s *Scheduler) checkShares() {
	users, sums := make(map[*clusterShare]int), make(map[*clusterShare]demand)
	for _, t := range s.threads.byKey {
		if x := t.shaping; x != nil {
			for i, at := range x.shares {
				if at.clusterShare == nil {
					continue
				}
				users[at.clusterShare]++
				of := sums[at.clusterShare]
				sums[at.clusterShare] = demand{of.want + at.part.want, of.busy + at.part.busy}
				ofOwn, ofNext := demand{t.usableSessions(), t.busy()}, demand{want: t.busy()}
				assert(i == ofClusterRate || at.part == ofOwn && i != ofNextClusterSite || at.part == ofNext && i == ofNextClusterSite, "thread %v wants %+v of a share", t, at.part)
			}
		}
	}
	for id, c := range s.cluster.shares {
		w := Want{id, c.max, sums[c].want, sums[c].busy}
		assert(c.id == id && c.users > 0 && users[c] == c.users, "%v: %d threads, kept %d", id, users[c], c.users)
		assert(w == c.said || w.Want == 0 && c.said == Want{}, "%v: said %v, demand %v", id, c.said, w)
		assert(c.sessions > 0 || c.index == 0, "%v: no allowance ends", id)
	}
}

// checkRates: a bucket has its users, or is kept until all its tokens are there.
func (s *Scheduler) checkRates() {
	users := map[*bucket]int{s.limits.forkRate: 1}
	for _, t := range s.threads.byKey {
		if x := t.shaping; x != nil {
			users[x.rate]++
			users[x.clusterRate]++
			users[x.toSite.rate]++
		}
	}
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		users[r.channelRate]++
	}
	for name, b := range s.limits.rates {
		assert(b.name == name && users[b] == b.users, "%s: %d users, kept %d", name, users[b], b.users)
		assert(b.users > 0 || b.next.isPlanned(), "%s: nobody uses it, and it is kept", name)
	}
}

// checkGate: a thread whose mail waits for a token is in the agenda.
func (s *Scheduler) checkGate(t *thread) {
	x := t.shaping
	assert(x != nil && x.rate != nil || t.params.Rates.Thread.Recipients == 0, "thread %v has a rate and no tokens", t)
	if x == nil {
		return
	}
	assert((x.slowedBy != nil) == x.slowEnd.isPlanned(), "thread %v: slowed by %v, in the agenda %v", t, x.slowedBy, x.slowEnd.isPlanned())
	tokens := s.limits.own(t).Tokens
	buckets := [...]*bucket{x.rate, x.clusterRate}
	isOverdue := func(b *bucket) bool { return b != nil && s.agenda.plannedAt(&b.next) <= s.agenda.now }
	for _, b := range buckets {
		lacks := b != nil && s.limits.tokensOf(b) == tokens && tokens < min(t.fair.Len(), b.Burst)
		assert(!lacks || b.next.isPlanned() || slices.ContainsFunc(buckets[:], isOverdue), "thread %v waits for a token and is not in the agenda", t)
	}
}

// checkWindow: a window is from 1 to maxthr.
func (s *Scheduler) checkWindow(t *thread) {
	w, size := &t.window, t.windowSize()
	assert(size >= 1 && size <= max(1, t.params.MaxThr), "thread %v has a window of %d", t, size)
	assert(w.Success >= 0 && w.Success < 1 && w.Failure >= 0 && w.Failure < 1, "thread %v has feedback %+v", t, *w)
	assert(w.Size == 0 || t.params.Window.Initial > 0, "thread %v has a constant window and size %d", t, w.Size)
	assert(!w.Dead || size == 1 && *w == limit.Window{Dead: true}, "thread %v is dead with %+v", t, *w)
}

func (s *Scheduler) checkAgent(a *agent, c *view.Counts) {
	switch a.state {
	case idle:
		c.AgentsIdle++
	case closing:
		c.AgentsClosing++
	}
	c.Sessions += a.busy()
	assert(a.freeSessions+a.busy() == a.offered, "agent %d: free %d, busy %d, offered %d", a.id, a.freeSessions, a.busy(), a.offered)
	assert(a.expected >= 0 && a.expected+a.offered <= a.sessions, "agent %d is to offer %d sessions more, has offered %d of %d", a.id, a.expected, a.offered, a.sessions)
	assert(a.offered <= a.sessions, "agent %d offered %d sessions of %d", a.id, a.offered, a.sessions)
	assert(a.state == serving || a.state == closing || len(a.lines) == 0, "agent %d in state %d has lines", a.id, a.state)
	assert(!s.agents.stop.begun || a.state == closing || a.signals > 0, "agent %d works on in a stop", a.id)
	assert(a.state != serving || len(a.lines) > 0, "agent %d has nothing to do and was not told", a.id)
	for i := range a.lines {
		l := a.lines[i]
		assert(l.vertex == nil || l.unreported > 0 && int(l.unreported) == s.countUnreported(l.vertex), "agent %d awaits %d reports on %d", a.id, l.unreported, l.id)
		assert(l.vertex == nil || l.vertex.state == fed && l.vertex.agent == a.id && s.mail.messageOf(l.vertex).id == l.id, "agent %d has a line for %d that is not its own", a.id, l.id)
	}
}

// countUnreported counts the recipients that are open and on which no report
// came.
func (s *Scheduler) countUnreported(v *vertex) int {
	n := 0
	for i := range s.mail.lenOf(v) {
		if s.mail.recipient(v, i).state == open {
			n++
		}
	}
	return n
}

func (s *Scheduler) checkRing(r *ring) {
	procs, busy, coming, wants := 0, 0, 0, 0
	s.checkMembers(r)
	sessions := make(map[*fair.Share]int)
	for _, a := range s.agents.byID {
		if a.ring != r {
			continue
		}
		procs++
		busy += a.busy()
		coming += a.expected
		for _, l := range a.lines {
			if l.share != nil {
				sessions[l.share]++
			}
		}
	}
	counted := 0
	for share, n := range sessions {
		assert(n == share.Sessions(), "ring %q: a share has %d sessions, kept %d", r.key, n, share.Sessions())
		counted += n
	}
	assert(counted == busy, "ring %q: %d sessions, %d of shares", r.key, busy, counted)
	r.fair.ReleaseShares(func(share *fair.Share) bool {
		assert(s.rings.halted() || s.rings.shareRoom(share, r) <= 0, "ring %q: a share with %d sessions is set aside and may take another", r.key, share.Sessions())
		assert(slices.Contains(r.channel.asideShares, r), "ring %q: nobody knows of shares that are set aside", r.key)
		return false
	})
	for t := r.members.Head; t != nil; t = r.members.Next(t) {
		wants += t.wants
	}
	assert(procs == r.processes.Busy && busy == r.sessions.Busy && coming == r.expected, "ring %q: processes %d, kept %d; sessions %d, kept %d; coming %d, kept %d",
		r.key, procs, r.processes.Busy, busy, r.sessions.Busy, coming, r.expected)
	assert(wants == r.wants, "ring %q: wants %d, kept %d", r.key, wants, r.wants)
	assert(procs > 0 || r.members.Len > 0, "ring %q is empty and still there", r.key)
	// Work waits only for a reason: a limit, sessions that agents should still
	// offer, or a halt.
	if r.wants > 0 && !s.rings.halted() && r.expected == 0 {
		reason := r.place.Waits() || r.fair.OnlyAsideShares() || r.backoff.isPlanned() || s.limits.now(r.links.of(ofRing)).Room() <= 0 || s.limits.now(r.links.of(ofRingProcesses)).Room() <= 0
		assert(reason, "ring %q wants %d sessions and waits for nothing", r.key, r.wants)
	}
	// No ring waits at a limit that has room for it.
	for i := range r.links {
		if l := &r.links[i]; r.place.WaitsIn(&l.at.Queue) {
			assert(s.limits.now(l).Room() <= 0 || l.rate != nil && l.rate.next.isPlanned(), "ring %q waits at limit %d, which has room", r.key, l.kind)
		}
	}
	assert(len(r.idle) == 0 || r.wants == 0 || s.rings.halted() || r.place.Waits() || r.fair.OnlyAsideShares() || s.limits.now(r.links.of(ofRing)).Room() <= 0, "ring %q has idle agents and work", r.key)
}

// checkMembers: no thread is in two rings.
func (s *Scheduler) checkMembers(r *ring) {
	n, vertices := 0, 0
	for t := r.members.Head; t != nil; t = r.members.Next(t) {
		assert(t.ring == r, "thread %v is in the list of another ring", t)
		n, vertices = n+1, vertices+t.vertices.Len
	}
	assert(n == r.members.Len && vertices == r.vertices, "ring %q: %d threads, kept %d; %d vertices, kept %d", r.key, n, r.members.Len, vertices, r.vertices)
}

func (s *Scheduler) checkChannel(c *channel) {
	procs, busy, leaving := 0, 0, 0
	for _, a := range s.agents.byID {
		if a.ring.channel == c {
			procs++
			busy += a.busy()
			if a.state == closing && !a.locked {
				leaving++
			}
		}
	}
	assert(procs == c.processes.Busy && busy == c.sessions.Busy && leaving == c.closing, "channel %s: processes %d, kept %d; sessions %d, kept %d; leaving %d, kept %d",
		c.name, procs, c.processes.Busy, busy, c.sessions.Busy, leaving, c.closing)
}

// Check lets the tests in package scheduler_test check the invariants.
func (s *Scheduler) Check() { s.check() }

// busy is how many sessions of the agent are in use. An agent with one session
// uses it for all lines that wait in its pipe.
func (a *agent) busy() int {
	if a.sessions == 1 {
		return min(1, len(a.lines))
	}
	return len(a.lines)
}
