package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Threads: the mail for one channel and host. The window is in window.go.

// threadKey names a thread.
type threadKey struct{ channel, host string }

// thread is the mail for one channel and host.
//
// A thread is fed if none of these holds (mayFeed):
//
//	suspended      begins: the destination is dead (window.go), or a retryat
//	               ends:   its time has come, an ETRN, a retry order, a late
//	                       success
//	               begins: a reply rule, a SUSPEND order (effect.go)
//	               ends:   its time has come, a LIFT order; if by a rule, also an
//	                       ETRN, a retry order
//	held           begins and ends: HeldThread
//	not running    (queueonly only)
//	               begins: no vertex of the run is due any more, a suspension
//	               ends:   an ETRN, a retry order
//	without ring   no clause gives a command
//	not selected   option -p
//
// It is dropped when it has no vertices, no sessions and no suspension, and all
// tokens of its rate.
//
// There may be very many threads, and most events concern one that is in no cache. So
// the fields that are used together are together: each group begins with a cache line (64
// bytes). A thread has 512 bytes; with one more, the allocator gives it 576.
type thread struct {
	// What it is, and whether it may be fed.
	ref            threadRef
	held           bool // not fed and not expired
	updates        bulkUpdate
	params         *rule.Params
	ring           *ring // nil: no clause gives it a command
	memberOf       *ring // ring, or queue.orphans
	channel        *channel
	shaping        *shaping // nil: only the window bounds it
	suspendedUntil instant  // 0: not suspended
	busy           int      // sessions

	// How much of it may be fed.
	window      limit.Window
	wants       int          // how many more sessions it could use now
	stubs       *threadStubs // nil if all of its mail has always been loaded
	running     bool         // a run of a queueonly thread, begun by an ETRN
	suspensions uint32       // begun and ended so far
	selected    bool         // by option -p
	retry       uint8        // index in Retries of the next suspension
	inRetryStep bool         // the suspension is a step of retries, not a retryat

	// Its mail. fair has the due vertices, but for those that wait for the next run of a
	// queueonly thread.
	vertices   store.List[vertexRef] // that are loaded, in the order in which they joined
	states     [vertexStates]int32   // vertices by state
	recipients int                   // not done, loaded or not

	fair fair.Thread
	// agents has one entry for each session, and the agents that were started
	// for the thread and have not said #hungry yet.
	agents []*agent

	// What changes when mail comes or is fed, for queries and limits.
	modTimes    timeMultiset  // mtimes of the message files
	lastEventAt second        // mail arrived, or was fed
	diagnostic  diagnosticRef // last report on any recipient; recipients share it
	resume      timer         // the suspension ends, or the bulk updates continue
	lastAgent   *agent        // the last that served it; nil: none, or gone
	// sessionCap bounds busy if wakeuprestartonly keeps new mail from starting
	// more agents; 0: no bound.
	sessionCap int
	// sequence is the place among the members of memberOf, in ascending order.
	sequence uint64

	// What changes with a report.
	key         threadKey
	completions rate // of outcomes
	attempts    int  // results so far

	waiting     *waitingMail // nil: none of its mail has waited
	memberLinks store.Links[*thread]
	revivable   int32     // waiting vertices that a revival of the thread makes due
	nextUpdate  vertexRef // where the bulk updates continue; 0: none
}

// mayFeed reports whether the state of the thread allows feeding.
func (t *thread) mayFeed() bool {
	return t.ring != nil && t.selected && t.suspendedUntil == 0 && !t.held && (t.shaping == nil || !t.shaping.suspended) && (!t.params.QueueOnly || t.running)
}

// isHeld reports whether the thread is held, or all of its mail is.
func (t *thread) isHeld() bool {
	return t.held || t.vertices.Len > 0 && int(t.states[held]) == t.vertices.Len+t.notLoaded()
}

func (q *queue) obtainThread(key threadKey) *thread {
	if t := q.threads[key]; t != nil {
		return t
	}
	t := &thread{key: key, channel: q.obtainChannel(key.channel), held: q.holdOrders.threads[key] != nil}
	ref, entry := q.threadTable.Alloc()
	t.ref, *entry = ref, t
	t.vertices.Of = q.threadLinks
	q.threads[key] = t
	q.counts.Threads++
	order := q.holdOrders.suspended[key]
	q.assignRing(t)
	if t.ring != nil {
		t.ring.rebindAgent(t)
	}
	if order != nil {
		q.obtainShaping(t).order = order
		q.updateEffects(t)
		q.recordOrder(key, order)
	}
	q.restoreThread(t)
	q.askDestination(t)
	return t
}

// backlog is how many vertices may be fed now, loaded or not.
func (t *thread) backlog() int {
	if t.stubs == nil {
		return t.fair.Len()
	}
	return t.fair.Len() + t.dueStubs() + t.stubs.loading
}

// assignRing finds the clauses and the ring of the thread under the current
// configuration.
func (q *queue) assignRing(t *thread) {
	t.selected = q.config.Only.Selects(t.key.channel, t.key.host) // option -p
	r, params := q.obtainRing(t.key)
	if r == nil && t.params == nil {
		q.do(Note{Severity: Error, Text: "no clause with a command matches " + t.key.channel + "/" + t.key.host + ", its mail waits"})
	}
	if r == nil && (t.params == nil || t.ring != nil) {
		q.recordThread(t, "blocked", 0)
	}
	if t.params != nil && t.params.InitialConcurrency != params.InitialConcurrency {
		t.window = limit.Window{Dead: t.window.Dead}
	}
	t.params = params
	q.setThreadRate(t)
	q.setClusterLimits(t)
	q.setSite(t)
	if t.memberOf != nil && r == t.ring {
		return
	}
	queued := q.emptyQueue(t)
	from, to := t.memberOf, &q.orphans
	if r != nil {
		to = r
	}
	if from != nil {
		q.moveJobs(t, from, to)
	}
	q.detachThread(t)
	t.ring, t.memberOf = r, to
	t.fair.SetRing(to.fair)
	q.threadSequence++
	t.sequence = q.threadSequence
	t.memberOf.members.Append(t)
	t.memberOf.vertices += t.vertices.Len + t.notLoaded()
	if t.stubs != nil {
		t.memberOf.loading += t.stubs.loading
	}
	for _, v := range queued {
		q.enqueueVertex(t, v)
	}
}

// eachLoaded calls f for each vertex of the thread that is loaded.
func (q *queue) eachLoaded(t *thread, f func(*vertex)) {
	for ref := t.vertices.Head; ref != 0; {
		next := t.vertices.Next(ref)
		f(q.vertices.At(ref))
		ref = next
	}
}

// emptyQueue takes all vertices out of the queue, and returns them.
func (q *queue) emptyQueue(t *thread) []*vertex {
	var out []*vertex
	q.eachLoaded(t, func(v *vertex) {
		if v.place.Queued() {
			q.fair.Remove(v.ref)
			out = append(out, v)
		}
	})
	return out
}

// detachThread takes the thread out of its ring.
func (q *queue) detachThread(t *thread) {
	if t.memberOf == nil {
		return
	}
	if t.shaping != nil {
		t.shaping.place.Leave()
	}
	for _, w := range q.walks {
		w.threadLeaves(t)
	}
	q.leaveLists(t)
	t.memberOf.members.Remove(t)
	t.memberOf.vertices -= t.vertices.Len + t.notLoaded()
	r := t.ring
	t.ring, t.memberOf = nil, nil
	if r == nil {
		return
	}
	r.wants -= t.wants
	t.wants = 0
	q.dropRingWhenEmpty(r)
}

func (q *queue) linkVertex(t *thread, v *vertex) {
	t.vertices.Append(v.ref)
	t.modTimes.add(q.messageOf(v).modifiedAt.second())
	t.states[v.state]++
	t.memberOf.vertices++
}

func (q *queue) unlinkVertex(v *vertex) {
	t := q.threadOf(v)
	if t.nextUpdate == v.ref {
		t.nextUpdate = v.Next
	}
	t.vertices.Remove(v.ref)
	t.modTimes.remove(q.messageOf(v).modifiedAt.second())
	t.states[v.state]--
	t.memberOf.vertices--
}

// removeAgent removes one session of the agent from the thread.
func (t *thread) removeAgent(a *agent) {
	i := slices.Index(t.agents, a)
	t.agents = slices.Delete(t.agents, i, i+1)
}

// makeDue puts a vertex into the queue of its thread.
func (q *queue) makeDue(v *vertex) {
	if q.isWriting(v) {
		q.blockVertex(v)
		return
	}
	t := q.threadOf(v)
	t.setSessionCap(v.state == 0)
	q.setState(v, due, 0)
	q.enqueueVertex(t, v)
	q.planWake(v)
	q.updateThread(t)
}

// updateThread updates what depends on the state of the thread, above all how
// many sessions it wants from its ring. It drops the thread if it is empty.
func (q *queue) updateThread(t *thread) {
	if t.running && t.backlog() == 0 && t.nextUpdate == 0 && (t.stubs == nil || t.stubs.times.Next() > q.now) {
		t.running = false
	}
	if x := t.shaping; x != nil {
		q.updateGate(t)
		if x.share != nil {
			q.markDemand(x.share)
		}
		if x.site != nil {
			q.updateSiteWant(t)
		}
	}
	if t.isEmpty() && t.busy == 0 && t.suspendedUntil == 0 && !q.isShaped(t) {
		q.dropThread(t)
		return
	}
	free := 0 // sessions that it may still take
	if t.mayFeed() {
		free = max(0, t.freeSlots())
	}
	ready := t.fair.Pickable()
	if t.stubs != nil {
		ready += q.updateStubs(t, free-ready)
	}
	wants := min(ready, free)
	t.fair.SetOpen(free > 0)
	r := t.ring
	if r == nil {
		return
	}
	hadWork := r.wants > 0
	hadWants := t.wants > 0
	r.wants += wants - t.wants
	t.wants = wants
	// Other rings may wait for the processes of its idle agents.
	unused := hadWork && r.wants == 0 && len(r.idle) > 0
	if wants > 0 || r.place.Waits() || unused {
		q.markDirty(r)
	}
	if hadWants && wants == 0 && t.shaping != nil && t.shaping.site != nil {
		q.offerSite(t.shaping.site) // the session that it could have taken
	}
}

// dropThread removes an empty thread.
func (q *queue) dropThread(t *thread) {
	for _, a := range t.agents {
		a.startedFor = nil
	}
	q.detachThread(t)
	t.fair.SetRing(nil)
	q.plan(&t.resume, never)
	if x := t.shaping; x != nil {
		q.leaveSite(t)
		q.plan(&x.rate.next, never)
		q.plan(&x.effectEnd, never)
		q.dropTokens(x)
		if x.share != nil {
			q.dropShare(x.share)
		}
	}
	delete(q.threads, t.key)
	q.diagnostics.Release(t.diagnostic)
	q.threadTable.Release(t.ref)
	q.counts.Threads--
}

// threadsInOrder returns all threads in the order of their sequence. Decisions
// must not depend on the order of a map.
func (q *queue) threadsInOrder() []*thread {
	return slices.SortedFunc(maps.Values(q.threads), func(a, b *thread) int {
		return cmp.Compare(a.sequence, b.sequence)
	})
}
