package scheduler

import "zsched/scheduler/store"

// Stubs: what stays in memory of a message that is not loaded (PARAMactive-limit,
// PARAMrecipient-limit). unload.go says when a message is unloaded, load.go when it is loaded
// again.

// stub stands for a vertex of a message whose control file must be read before the vertex can
// be fed. A message is either wholly loaded or wholly stubs. A stub has no pointers (see package store).
//
// A stub is due, waiting, or blocked, as its vertex would be, and counts as such. Those that are
// due are in a queue of the thread, and the others are in threadStubs.times. While its file is
// being read, a stub is in neither.
type stub struct {
	id                   MessageID
	modifiedAt           date // mtime of the message file
	thread               threadRef
	store.Links[stubRef]                      // in the thread
	queued               store.Links[stubRef] // in a queue of the thread
	next                 stubRef              // of the message, in the order of its vertices; 0: none
	index                int32                // in threadStubs.times; 0: it is due, or being read
	offset               uint32               // of the first recipient, for the saved state
	open                 int32                // recipients that are not done
	fedAt                second               // as in vertex
	attempts             uint8                // the fewest of its recipients; stops at the maximum
	told                 uint8                // how many of the reporttimes had passed when it was last loaded
	retry                uint8                // as in vertex
	flags                stubFlags            // and how many hash levels the path has
}

type (
	stubRef   uint32
	stubFlags uint8
)

const (
	stubLevels            stubFlags = 3 // two bits: 0 to 2 levels
	stubDestinationFailed stubFlags = 2 << iota
	stubInRetryStep
	stubTried       // each recipient had an attempt since the process was started
	stubMustAttempt // it was held, and must have an attempt before it can expire
	stubWantsDelays // the sender wants to be told of delays
	stubNextRun     // it waits for the next run of a queueonly thread, if it is due
)

// unloaded has all mail that is not loaded.
type unloaded struct {
	stubs     store.Slab[stubRef, stub]
	byID      store.SlabIndex[stubRef]      // the first stub of each message
	logHashes store.Column[stubRef, uint32] // of the log identity, for the first stub of a message
	looks     watch[stubRef]                // when something must be written: an expiry, a notice
	plans     map[MessageID]stubPlan        // for few messages
	loading   map[MessageID]*load           // being read
	urgent    []MessageID                   // to be loaded because something must be written, in order
	isUrgent  map[MessageID]bool            // of those in urgent
	writes    int                           // loads of urgent mail under way
	filling   store.List[*thread]           // with due stubs, and little mail that is loaded
	// What is not loaded. Messages that are being read count as loaded.
	messages, recipients int
	candidates           []candidate // messages that may be unloaded at the end of the Step

	// Where a stub keeps its places in its thread.
	links  func(stubRef) *store.Links[stubRef]
	queued func(stubRef) *store.Links[stubRef]
	index  func(stubRef) *int32
}

// stubPlan is what is planned for a message that is not loaded, besides its expiry and notices
// of delay. Both are zero if there is none.
type stubPlan struct {
	noticeAt instant // of the notice that it owes
	loadAt   date    // when a deadline passes (DELIVERBY), or a failed load is tried again
}

// threadStubs is the stubs of a thread.
type threadStubs struct {
	all    store.List[stubRef]
	queues [2]store.List[stubRef]       // due ones, by thisRun and nextRun
	times  store.Heap[instant, stubRef] // waiting ones by the end of their wait, and blocked ones (never)
	wake   timer                        // at the first of times
	// loading is how many of those that are due are being read.
	loading int
	// hungry says that it is in ring.hungry, and filling that it is in unloaded.filling.
	hungry, filling           bool
	hungryLinks, fillingLinks store.Links[*thread]
}

func (u *unloaded) init() {
	u.byID = store.NewSlabIndex(func(n stubRef) uint64 { return uint64(u.stubs.At(n).id) })
	u.plans, u.loading, u.isUrgent = make(map[MessageID]stubPlan), make(map[MessageID]*load), make(map[MessageID]bool)
	u.links = func(n stubRef) *store.Links[stubRef] { return &u.stubs.At(n).Links }
	u.queued = func(n stubRef) *store.Links[stubRef] { return &u.stubs.At(n).queued }
	u.index = func(n stubRef) *int32 { return &u.stubs.At(n).index }
	u.looks.first = noLook
	u.filling.Of = func(t *thread) *store.Links[*thread] { return &t.stubs.fillingLinks }
}

// find returns the first stub of a message, or 0.
func (u *unloaded) find(id MessageID) stubRef { return u.byID.Find(uint64(id)) }

// of returns the stubs of a message, by the first of them.
func (u *unloaded) of(first stubRef) (all []stubRef) {
	for n := first; n != 0; n = u.stubs.At(n).next {
		all = append(all, n)
	}
	return all
}

// withLogID returns the first stubs of the messages that may have the log identity. A false
// match is possible, because the hash has 32 bits.
func (u *unloaded) withLogID(logID string) (found []stubRef) {
	hash := shortHash(hashLogID(logID))
	for n, h := range u.logHashes.All {
		if h == hash && hash != 0 {
			found = append(found, n)
		}
	}
	return found
}

func shortHash(logHash uint64) uint32 {
	if logHash == 0 {
		return 0
	}
	return max(1, uint32(logHash>>32)^uint32(logHash))
}

// stubThread returns the thread of a stub.
func (q *queue) stubThread(s *stub) *thread { return *q.threadTable.At(s.thread) }

// path returns the name of the control file below transport/.
func (s *stub) path() string { return pathOf(s.id, int(s.flags&stubLevels)) }

// undoRetryStep is as in vertex.
func (s *stub) undoRetryStep() {
	if s.flags&stubInRetryStep != 0 && s.retry > 0 {
		s.retry--
	}
	s.flags &^= stubInRetryStep
}

func (q *queue) obtainStubs(t *thread) *threadStubs {
	if t.stubs == nil {
		x := new(threadStubs)
		x.all.Of, x.times.Index = q.unloaded.links, q.unloaded.index
		x.queues[0].Of, x.queues[1].Of = q.unloaded.queued, q.unloaded.queued
		x.wake.due = func(s *Scheduler) { s.work += s.wakeStubs(t) }
		t.stubs = x
	}
	return t.stubs
}

// isEmpty reports whether the thread has no mail.
func (t *thread) isEmpty() bool {
	return t.vertices.Len == 0 && (t.stubs == nil || t.stubs.all.Len == 0)
}

// notLoaded is how many vertices of the thread are not loaded.
func (t *thread) notLoaded() int {
	if t.stubs == nil {
		return 0
	}
	return t.stubs.all.Len
}

// dueStubs is how many due stubs may be loaded in this run.
func (t *thread) dueStubs() int {
	if t.stubs == nil {
		return 0
	}
	return t.stubs.queues[thisRun].Len
}

// addStub puts the stub of a vertex into its thread.
func (q *queue) addStub(m *message, v *vertex, s *stub, n stubRef) {
	t := q.threadOf(v)
	s.id, s.modifiedAt, s.thread, s.open = m.id, m.modifiedAt, t.ref, v.open
	s.fedAt, s.retry = v.fedAt, v.retry
	s.flags = stubFlags(m.levels())
	s.attempts, s.told = ^uint8(0), uint8(min(q.reportTimesPassed(t, m.modifiedAt), 255))
	q.describeRecipients(s, v, m.flags&nullSender == 0)
	x := q.obtainStubs(t)
	x.all.Append(n)
	q.countStub(t, v.state, 1)
	switch v.state {
	case due:
		queue := thisRun
		if !v.place.Queued() {
			queue = nextRun
		}
		q.queueStub(t, n, queue)
	case waiting:
		x.times.Put(q.wakeAt(v), n)
	default:
		x.times.Put(never, n)
	}
	t.recipients += int(v.open)
	t.modTimes.add(m.modifiedAt.second())
	t.memberOf.vertices++
}

// countStub counts a stub in a state (1), or no longer (-1).
func (q *queue) countStub(t *thread, state vertexState, n int32) {
	t.states[state] += n
	q.states[state] += int(n)
}

// The queues of due stubs. The second has those that wait for the next run of a queueonly
// thread.
const (
	thisRun = iota
	nextRun
)

// queueStub puts a stub that is due into one of the two queues of its thread.
func (q *queue) queueStub(t *thread, n stubRef, queue int) {
	s := q.unloaded.stubs.At(n)
	s.flags &^= stubNextRun
	if queue == nextRun {
		s.flags |= stubNextRun
	}
	t.stubs.queues[queue].Append(n)
}

// queueOf returns the queue that a due stub is in.
func (s *stub) queueOf() int {
	if s.flags&stubNextRun != 0 {
		return nextRun
	}
	return thisRun
}

// stateOf returns the state of a stub, and the end of its wait.
func (q *queue) stateOf(n stubRef) (state vertexState, wakeAt instant) {
	s := q.unloaded.stubs.At(n)
	if l := q.unloaded.loading[s.id]; l != nil {
		x := l.of(n)
		return x.state, x.wakeAt
	}
	if s.index == 0 {
		return due, 0
	}
	if at := q.stubThread(s).stubs.times.KeyOf(n); at != never {
		return waiting, at
	}
	return blocked, 0
}

// makeStubDue ends the wait of a stub.
func (q *queue) makeStubDue(t *thread, n stubRef) {
	t.stubs.times.Remove(n)
	q.countStub(t, waiting, -1)
	q.countStub(t, due, 1)
	queue := thisRun
	if t.params.QueueOnly && !t.running {
		queue = nextRun
	}
	q.queueStub(t, n, queue)
	q.planLook(n)
}

// wakeStubs makes those stubs of a thread due whose wait is over, a slice at a time. It returns
// how many.
func (q *queue) wakeStubs(t *thread) (n int) {
	for ; n < wakeSlice && t.stubs.times.Next() <= q.now; n++ {
		q.makeStubDue(t, t.stubs.times.First())
	}
	t.setSessionCap(false)
	q.updateThread(t)
	return n
}

// describeRecipients sets what a stub keeps of the recipients of its vertex.
func (q *queue) describeRecipients(s *stub, v *vertex, hasSender bool) {
	set := func(flag stubFlags, on bool) {
		if on {
			s.flags |= flag
		}
	}
	set(stubDestinationFailed, v.destinationFailed)
	set(stubInRetryStep, v.inRetryStep)
	tried := true
	for i := range v.len() {
		r := q.recipient(v, i)
		if r.state == done {
			continue
		}
		if s.offset == 0 {
			s.offset = r.offset
		}
		s.attempts = uint8(min(uint16(s.attempts), r.attempts))
		tried = tried && r.tried()
		set(stubMustAttempt, r.flags&mustAttempt != 0)
		set(stubWantsDelays, hasSender && r.flags&notifyDelay != 0)
	}
	set(stubTried, tried)
}

// dropStub takes a stub, which has been read, out of its thread and frees it. The index of its
// message must not find it any more.
func (q *queue) dropStub(n stubRef, state vertexState) {
	s := q.unloaded.stubs.At(n)
	t := q.stubThread(s)
	q.countStub(t, state, -1)
	for _, w := range q.walks {
		w.stubLeaves(n)
	}
	t.stubs.all.Remove(n)
	t.recipients -= int(s.open)
	t.modTimes.remove(s.modifiedAt.second())
	t.memberOf.vertices--
	q.counts.Vertices--
	q.counts.Recipients -= int(s.open)
	q.unloaded.looks.set(n, noDate)
	q.unloaded.logHashes.Set(n, 0)
	q.unloaded.stubs.Release(n)
}

// updateStubs notes where a thread waits for its stubs to be loaded, and returns for how many
// more sessions there are some. free is how many more it could use.
func (q *queue) updateStubs(t *thread, free int) int {
	x, dueNow := t.stubs, t.dueStubs()
	mayLoad := t.mayFeed() && dueNow > 0 && !t.waitsAtSite()
	if hungry := mayLoad && free > x.loading; hungry != x.hungry {
		x.hungry = hungry
		if hungry {
			t.ring.hungry.Append(t)
		} else {
			t.ring.hungry.Remove(t)
		}
	}
	ahead := t.params.Quantum
	if t.window.Dead {
		ahead = 1
	}
	if filling := mayLoad && t.fair.Len()+x.loading < ahead; filling != x.filling {
		x.filling = filling
		if filling {
			q.unloaded.filling.Append(t)
		} else {
			q.unloaded.filling.Remove(t)
		}
	}
	q.plan(&x.wake, x.times.Next())
	return x.loading + dueNow
}

// leaveLists takes a thread that leaves its ring off the lists of those that want to load mail.
func (q *queue) leaveLists(t *thread) {
	x := t.stubs
	if x == nil {
		return
	}
	t.memberOf.loading -= x.loading
	if x.hungry {
		x.hungry = false
		t.ring.hungry.Remove(t)
	}
	if x.filling {
		x.filling = false
		q.unloaded.filling.Remove(t)
	}
	q.plan(&x.wake, never)
}
