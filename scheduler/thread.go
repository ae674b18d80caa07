package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Threads: the mail for one channel and host. The window is in window.go.

// threads has the mail for each channel and host: what is due, and what waits.
type threads struct {
	s *Scheduler

	byKey map[threadKey]*thread
	fair  *fair.Queue // what is due, but for what waits for the next run of a queueonly thread
}

// threadKey names a thread.
type threadKey struct{ channel, host string }

// thread is the mail for one channel and host.
//
// A thread is fed if none of these holds (mayFeed):
//
//	suspended      begins: the destination is dead (window.go), a retryat, or a reply
//	                       rule (effect.go)
//	               ends:   its time has come, an ETRN, a retry order; a late success
//	                       if it is dead; a LIFT order if it is by a rule
//	held           begins and ends: HeldThread
//	not running    (queueonly only)
//	               begins: no vertex of the run is due any more, a suspension
//	               ends:   an ETRN, a retry order
//	without ring   no clause gives a command
//	not selected   option -p
//
// It is dropped when it has no vertices, no sessions, no suspension and no rate of a reply rule.
//
// There may be very many threads, and most events concern one that is in no cache. So
// the fields that are used together are together: each group begins with a cache line (64
// bytes) and fits into it. The allocator gives a thread the 384 bytes of six lines.
type thread struct {
	// What it is, and whether it may be fed.
	ref            threadRef
	held           bool // not fed and not expired
	updates        bulkUpdate
	params         *rule.Params
	ring           *ring
	shaping        *shaping     // nil: only the window bounds it
	suspendedUntil instant      // 0: not suspended
	wants          int          // how many more sessions it could use now
	waiting        *waitingMail // nil: none of its mail has waited
	nextUpdate     vertexRef    // where the bulk updates continue; 0: none

	// How much of it may be fed.
	window      limit.Window
	suspensions uint32 // begun and ended so far
	running     bool   // a run of a queueonly thread, begun by an ETRN
	selected    bool   // by option -p
	retry       uint8  // index in Retries of the next suspension
	// barred: its due mail is blocked by what it is itself (isBarred).
	// Invariant: mail.barred counts the due vertices of the threads that are barred.
	barred bool
	// sessionCap bounds busy if wakeuprestartonly keeps new mail from starting
	// more agents; 0: no bound.
	sessionCap int
	lastAgent  *agent // the last that served it; nil: none, or gone

	// Its mail.
	vertices   store.List[vertexRef] // in the order in which they joined
	states     [vertexStates]int32   // vertices by state
	recipients int                   // not done

	// Its due vertices, but for those that wait for the next run of a queueonly thread; and its
	// place in the ring.
	fair        fair.Thread
	memberLinks store.Links[*thread]

	// What changes when mail comes, is fed or is reported.
	// agents has one entry for each busy session.
	agents      []*agent
	oldest      second        // mtime of its oldest message file; 0: none; see unlinkVertex
	lastEventAt second        // mail arrived, or was fed
	diagnostic  diagnosticRef // last report on any recipient
	lastFedAt   second        // when the job line of that report was fed
	shared      diagnosticRef // what was kept last for a recipient; recipients share it
	attempts    int32         // results so far
	resume      timer         // the suspension ends, or the bulk updates continue

	// What names it.
	key threadKey
}

// name is how people write the channel and the host.
func (t *thread) name() string { return t.key.channel + "/" + t.key.host }

// mayFeed reports whether the state of the thread allows feeding.
func (t *thread) mayFeed() bool {
	return !t.ring.isBlocked() && t.selected && t.suspendedUntil == 0 && !t.held && (!t.params.QueueOnly || t.running)
}

// isProbed reports whether a session tries the destination, which is dead.
func (t *thread) isProbed() bool { return t.window.Dead && t.busy() > 0 }

// isBarred reports whether its state keeps back its due mail, or all but what a probe has.
func (t *thread) isBarred() bool { return !t.mayFeed() || t.isProbed() }

// busy is how many sessions the thread has.
func (t *thread) busy() int { return len(t.agents) }

// isHeld reports whether the thread is held, or all of its mail is.
func (t *thread) isHeld() bool {
	return t.held || t.vertices.Len > 0 && int(t.states[held]) == t.vertices.Len
}

func (ts *threads) obtainThread(key threadKey) *thread {
	if t := ts.byKey[key]; t != nil {
		return t
	}
	t := &thread{key: key, held: ts.s.orders.heldThreads[key] != nil}
	ref, entry := ts.s.mail.threadTable.Alloc()
	t.ref, t.fair.Number, *entry = ref, uint32(ref), t
	t.vertices.Of = ts.s.mail.threadLinks
	ts.byKey[key] = t
	ts.s.mail.counts.Threads++
	ts.assignRing(t)
	t.ring.rebindAgent(t)
	ts.s.cluster.tell(t, Destination{State: DestinationAsked})
	return t
}

// isEmpty reports whether the thread has no mail.
func (t *thread) isEmpty() bool { return t.vertices.Len == 0 }

// assignRing finds the clauses and the ring of the thread under the current
// configuration.
func (ts *threads) assignRing(t *thread) {
	t.selected = ts.s.rules.config.Only.Selects(t.key.channel, t.key.host) // option -p
	r, params := ts.s.rings.obtainRing(t.key)
	if r.isBlocked() && (t.params == nil || !t.ring.isBlocked()) {
		ts.s.agenda.do(Note{Severity: Error, Text: "no clause with a command matches " + t.name() + ", its mail waits"})
		ts.s.log.recordThread(t, "blocked", 0)
	}
	if t.params != nil && t.params.Window.Initial != params.Window.Initial {
		t.window = limit.Window{Dead: t.window.Dead}
	}
	t.params = params
	if r != t.ring {
		ts.moveTo(t, r)
	}
	ts.s.limits.setThreadRate(t)
	ts.s.cluster.setShares(t)
	ts.s.limits.setSite(t)
}

// moveTo puts a thread, with its mail, into a ring.
func (ts *threads) moveTo(t *thread, r *ring) {
	var queued []*vertex
	ts.eachVertex(t, func(v *vertex) {
		if v.place.Queued() {
			ts.fair.Remove(v.ref)
			queued = append(queued, v)
		}
	})
	ts.detachThread(t)
	t.ring = r
	t.fair.SetRing(r.fair)
	r.members.Append(t)
	r.vertices += t.vertices.Len
	for _, v := range queued {
		ts.enqueueVertex(t, v)
	}
}

// eachVertex calls f for each vertex of the thread.
func (ts *threads) eachVertex(t *thread, f func(*vertex)) {
	for ref := t.vertices.Head; ref != 0; {
		next := t.vertices.Next(ref)
		f(ts.s.mail.vertices.At(ref))
		ref = next
	}
}

// detachThread takes the thread out of its ring.
func (ts *threads) detachThread(t *thread) {
	r := t.ring
	if r == nil {
		return
	}
	if t.shaping != nil {
		t.shaping.place.Leave()
	}
	r.members.Remove(t)
	r.vertices -= t.vertices.Len
	r.wants -= t.wants
	t.ring, t.wants = nil, 0
	ts.s.rings.dropRingWhenEmpty(r)
}

// linkVertex puts a vertex that has arrived into its thread.
func (ts *threads) linkVertex(t *thread, v *vertex) {
	t.vertices.Append(v.ref)
	if at := ts.s.mail.messageOf(v).modifiedAt.second(); t.oldest == 0 || at < t.oldest {
		t.oldest = at
	}
	t.lastEventAt = ts.s.agenda.date.second()
	t.states[v.state]++
	t.ring.vertices++
}

// unlinkVertex takes a vertex out of its thread. If its message was the oldest, the one that came
// first of those that are left stands for the oldest.
func (ts *threads) unlinkVertex(v *vertex) {
	t := ts.s.mail.threadOf(v)
	if t.nextUpdate == v.ref {
		t.nextUpdate = v.Next
	}
	t.vertices.Remove(v.ref)
	if ts.s.mail.messageOf(v).modifiedAt.second() <= t.oldest {
		t.oldest = 0
		if t.vertices.Head != 0 {
			t.oldest = ts.s.mail.messageOf(ts.s.mail.vertices.At(t.vertices.Head)).modifiedAt.second()
		}
	}
	t.states[v.state]--
	t.ring.vertices--
}

// makeDue puts a vertex into the queue of its thread, or blocks it while it cannot be fed: it has
// nothing to feed, or an outcome of it is being written.
func (ts *threads) makeDue(v *vertex) {
	if !ts.s.mail.canBeFed(v) {
		ts.blockVertex(v)
		return
	}
	t := ts.s.mail.threadOf(v)
	t.setSessionCap(v.state == 0)
	ts.setState(v, due, 0)
	ts.enqueueVertex(t, v)
	ts.s.notices.planWake(v)
	ts.updateThread(t)
}

// updateThread updates what depends on the state of the thread, above all how
// many sessions it wants from its ring. It drops the thread if it is empty.
func (ts *threads) updateThread(t *thread) {
	if t.running && t.fair.Len() == 0 && t.nextUpdate == 0 {
		t.running = false
	}
	ts.setBarred(t)
	if t.shaping != nil {
		ts.s.limits.planTokens(t)
		ts.s.cluster.updateShares(t)
	}
	if t.isEmpty() && t.busy() == 0 && t.suspendedUntil == 0 && (t.shaping == nil || t.shaping.slowedBy == nil) {
		ts.dropThread(t)
		return
	}
	free := 0 // sessions that it may still take
	if t.mayFeed() {
		free = max(0, ts.s.limits.freeSlots(t))
	}
	wants := min(t.fair.Pickable(), free)
	t.fair.SetOpen(free > 0)
	r := t.ring
	hadWork := r.wants > 0
	hadWants, changed := t.wants > 0, wants != t.wants
	r.wants += wants - t.wants
	t.wants = wants
	// Other rings may wait for the processes of its idle agents.
	unused := hadWork && r.wants == 0 && len(r.idle) > 0
	if r != ts.s.rings.dispatching && ((changed || r.fair.HasAsideShares()) && wants > 0 && !r.isFull() || r.wants == 0 && r.place.Waits() || unused) {
		ts.s.rings.markDirty(r)
	}
	if l := t.siteLink(); l != nil && hadWants && wants == 0 {
		ts.s.limits.wake(l.at) // for the session that it could have taken
	}
}

// setBarred keeps what a thread's state says of its due mail.
func (ts *threads) setBarred(t *thread) {
	switch barred := t.isBarred(); {
	case barred == t.barred:
		return
	case barred:
		ts.s.mail.barred += int(t.states[due])
	default:
		ts.s.mail.barred -= int(t.states[due])
	}
	t.barred = !t.barred
}

// dropThread removes an empty thread.
func (ts *threads) dropThread(t *thread) {
	ts.detachThread(t)
	t.fair.SetRing(nil)
	ts.s.agenda.plan(&t.resume, never)
	ts.s.limits.dropShaping(t)
	delete(ts.byKey, t.key)
	ts.s.mail.diagnostics.Release(t.diagnostic)
	ts.s.mail.diagnostics.Release(t.shared)
	ts.s.mail.threadTable.Release(t.ref)
	ts.s.mail.counts.Threads--
}

// threadsInOrder returns all threads, ring by ring. Decisions must not depend on the order
// of a map.
func (ts *threads) threadsInOrder() []*thread {
	all := make([]*thread, 0, len(ts.byKey))
	for r := ts.s.rings.inOrder.Head; r != nil; r = ts.s.rings.inOrder.Next(r) {
		for t := r.members.Head; t != nil; t = r.members.Next(t) {
			all = append(all, t)
		}
	}
	return all
}
