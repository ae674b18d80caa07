package scheduler

import (
	"slices"
	"time"
)

// threadKey names a thread.
type threadKey struct{ channel, host string }

// thread is the mail for one channel and host.
//
// Invariant: a thread is in its ring's ready or spent list if and only if
// wants is above 0.
type thread struct {
	ref      threadRef
	key      threadKey
	channel  *channel
	params   *Params
	ring     *ring           // nil: no clause gives it a command
	memberOf *ring           // the ring, or Scheduler.lone
	vertices list[vertexRef] // in the order of linking
	// What queries show of them, kept as they change.
	states      [vertexStates]int32
	recipients  int          // not done
	modTimes    timeMultiset // mtimes of their message files
	wakeTimes   timeMultiset // ends of their waits
	lastEventAt second       // mail came, or was fed
	attempts    int          // results so far
	completions rate         // of outcomes
	// seat is the thread's place among those of its home.
	sequence    uint64
	memberLinks links[*thread]
	held        bool // not fed and not expired
	updates     bulkUpdate
	// queues hold the due vertices by place in line: queues[run] those that
	// may be fed, the other those of a queueonly thread's next run.
	// Invariant: only a queueonly thread has a next run, and while its gate
	// is closed all wait there.
	queues   [2]heap[vertexRef]
	active   uint8
	running  bool // of a queueonly thread: a run is under way
	selected bool // option -p does not rule it out

	busy int // sessions on it now
	// agents are those of the sessions, one for each, and those that were
	// started for the thread and have not said #hungry yet.
	agents []*agent
	// allowed bounds busy below the window where wakeuprestartonly keeps
	// arrivals from starting more. Whatever wakes the thread lifts it.
	sessionCap int
	// wants is how many sessions more it could use now.
	wants int

	suspendedUntil instant // 0: not suspended
	suspensions    uint32  // begun and ended so far; see vertex.joined
	retry          uint8   // index in Retries of the next suspension
	resumeIndex    int32
	nextUpdate     vertexRef // where its errands go on, 0: none

	picks     int            // picks in this round of its ring
	round     uint32         // to which used belongs
	turnList  *list[*thread] // of the ring's two, the one it is in; nil: none
	turnLinks links[*thread] // there

	lastAgent  *agent        // that served it last
	diagnostic diagnosticRef // last said of any recipient; shared by equals
}

// window is how many sessions the thread may use now.
func (t *thread) window() int { return max(1, t.params.MaxThr) }

// room is how many sessions the thread may still take.
func (t *thread) freeSlots() int {
	window := t.window()
	if t.params.WakeupRestartOnly {
		window = min(window, t.sessionCap)
	}
	return window - t.busy
}

// allow says how many sessions the thread may have from now on, as far as
// wakeuprestartonly goes: mail that arrives starts no agent while one is at
// work or about to be, unless more are wanted anyway.
func (t *thread) setSessionCap(arrival bool) {
	t.sessionCap = t.window()
	if !arrival || !t.params.WakeupRestartOnly || len(t.agents) == 0 {
		return
	}
	starting := 0
	for _, a := range t.agents {
		if a.startedFor == t {
			starting += a.sessions
		}
	}
	if t.wants <= starting {
		t.sessionCap = min(t.sessionCap, t.busy+starting)
	}
}

// fit reports whether its due vertices may be fed as far as the thread goes.
func (t *thread) mayFeed() bool {
	return t.ring != nil && t.selected && t.suspendedUntil == 0 && !t.held && (!t.params.QueueOnly || t.running)
}

func (q *queue) obtainThread(key threadKey) *thread {
	if t := q.threads[key]; t != nil {
		return t
	}
	t := &thread{key: key, channel: q.obtainChannel(key.channel), held: q.held[key]}
	ref, place := q.threadTable.alloc()
	t.ref, *place = ref, t
	t.vertices.of = q.threadLinks
	t.queues[0].index, t.queues[1].index = q.queueIndex, q.queueIndex
	q.threads[key] = t
	q.counts.Threads++
	q.assignRing(t)
	if t.ring != nil {
		t.ring.rebindAgent(t)
	}
	return t
}

// queue holds the vertices that may be fed now.
func (t *thread) queue() *heap[vertexRef] { return &t.queues[t.active] }

// enqueue puts a due vertex in line, at its place. While a queueonly thread
// has no run, that is the line of the next.
func (q *queue) enqueueVertex(t *thread, v *vertex, nextRun bool) {
	v.queue = t.active
	if nextRun || t.params.QueueOnly && !t.running {
		v.queue = 1 - t.active
	}
	t.queues[v.queue].put(q.queueKey(t, v), v.ref)
}

func (t *thread) dequeueVertex(v *vertex) { t.queues[v.queue].remove(v.ref) }

// assign finds the thread's clauses and ring under the configuration in force.
func (q *queue) assignRing(t *thread) {
	t.selected = q.config.Only.selects(t.key)
	r, params := q.obtainRing(t.key)
	if r == nil && (t.params == nil || t.ring != nil) {
		q.do(Note{Severity: Error, Text: "no clause with a command matches " + t.key.channel + "/" + t.key.host + ", its mail waits"})
	}
	t.params = params
	if t.memberOf != nil && r == t.ring {
		return
	}
	q.detachThread(t)
	t.ring, t.memberOf = r, &q.orphans
	if r != nil {
		t.memberOf = r
	}
	q.threadSequence++
	t.sequence = q.threadSequence
	t.memberOf.members.append(t)
	t.memberOf.vertices += t.vertices.len
}

// detach takes the thread out of its ring.
func (q *queue) detachThread(t *thread) {
	if t.memberOf == nil {
		return
	}
	for _, w := range q.walks {
		w.threadLeaves(t)
	}
	t.memberOf.members.remove(t)
	t.memberOf.vertices -= t.vertices.len
	r := t.ring
	t.ring, t.memberOf = nil, nil
	if r == nil {
		return
	}
	t.delist()
	r.wants -= t.wants
	t.wants = 0
	q.dropRingWhenEmpty(r)
}

func (sel Selection) selects(key threadKey) bool {
	return (sel.Channel == "" || sel.Channel == "*" || sel.Channel == key.channel) &&
		(sel.Host == "" || sel.Host == "*" || sel.Host == key.host)
}

func (q *queue) linkVertex(t *thread, v *vertex) {
	m := q.messageOf(v)
	// Mail of one sender tends to come together: share the string.
	if last := q.vertices.get(t.vertices.tail); last != nil {
		if other := q.messageOf(last); other.sender != m.sender && q.sender(other) == q.sender(m) {
			q.senders.release(m.sender)
			m.sender = q.senders.retain(other.sender)
		}
	}
	t.vertices.append(v.ref)
	t.modTimes.add(m.modifiedAt.second())
	t.lastEventAt = q.now.second()
	t.states[v.state]++
	t.memberOf.vertices++
}

func (q *queue) unlinkVertex(v *vertex) {
	t := q.threadOf(v)
	if t.nextUpdate == v.ref {
		t.nextUpdate = v.next
	}
	t.vertices.remove(v.ref)
	t.modTimes.remove(q.messageOf(v).modifiedAt.second())
	t.states[v.state]--
	t.recipients -= int(v.open)
	t.memberOf.vertices--
}

// quit takes one session of the agent off the thread.
func (t *thread) removeAgent(a *agent) {
	i := slices.Index(t.agents, a)
	t.agents = slices.Delete(t.agents, i, i+1)
}

// makeDue puts a vertex into its thread's queue.
func (q *queue) makeDue(v *vertex) {
	t := q.threadOf(v)
	t.setSessionCap(v.state == 0)
	q.setState(v, due, 0)
	v.readReason = noReason
	v.suspensionsWhenDue = t.suspensions
	q.enqueueVertex(t, v, false)
	q.planWake(v)
	q.updateThread(t)
}

// place is the vertex's place in line: in the order of taking or, with
// ageorder, by the age of its message.
func (q *queue) queueKey(t *thread, v *vertex) instant {
	if t.params.AgeOrder {
		return q.messageOf(v).modifiedAt
	}
	return instant(q.messageOf(v).sequence)
}

// settleThread brings what hangs on the thread's state up to date: its place
// in the ring and, when nothing is left of it, its existence.
func (q *queue) updateThread(t *thread) {
	if t.params.QueueOnly && t.running && t.queue().len() == 0 && t.nextUpdate == 0 {
		t.running = false
	}
	if t.vertices.len == 0 && t.busy == 0 && t.suspendedUntil == 0 {
		q.dropThread(t)
		return
	}
	wants := 0
	if t.mayFeed() {
		wants = max(0, min(t.queue().len(), t.freeSlots()))
	}
	r := t.ring
	if r == nil {
		return
	}
	r.wants += wants - t.wants
	t.wants = wants
	switch {
	case wants == 0:
		t.delist()
	case t.turnList == nil:
		r.enlist(t)
	}
	if wants > 0 || r.limitQueue != nil {
		q.markDirty(r)
	}
}

// dropThread forgets a thread of which nothing is left.
func (q *queue) dropThread(t *thread) {
	for _, a := range t.agents {
		a.startedFor = nil
	}
	q.detachThread(t)
	q.resumes.remove(t)
	delete(q.threads, t.key)
	q.diagnostics.release(t.diagnostic)
	q.threadTable.release(t.ref)
	q.counts.Threads--
}

// suspend keeps the thread from being fed until then. Mail that arrives
// meanwhile waits with it.
func (q *queue) suspend(t *thread, till instant) {
	if t.params.QueueOnly {
		q.endRun(t)
	}
	t.suspendedUntil = till
	t.suspensions++
	q.resumes.put(till, t)
	q.updateThread(t)
}

// endRun closes the gate of a queueonly thread: what was not fed in the run
// waits for the next with what was deferred. The shorter line joins the longer.
func (q *queue) endRun(t *thread) {
	t.running = false
	if t.queues[t.active].len() > t.queues[1-t.active].len() {
		t.active = 1 - t.active
	}
	for t.queue().len() > 0 {
		q.enqueueVertex(t, q.vertices.at(t.queue().pop()), true)
	}
}

// suspendFor returns how long a failing destination is left alone and moves
// the thread's own retries on.
func (dv *delivery) suspensionLength(t *thread) time.Duration {
	oldest := dv.now
	if head := dv.vertices.get(t.vertices.head); head != nil {
		oldest = dv.messageOf(head).modifiedAt
	}
	wait, next := retryStep(t.params, t.retry, dv.now.since(oldest), dv.rand)
	t.retry = next
	return wait
}
