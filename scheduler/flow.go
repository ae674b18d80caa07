package scheduler

// Flows: the due vertices of a thread, grouped by share and by the size of their
// jobs.

// dueQueue has the due vertices of a thread.
type dueQueue struct {
	flows   []*flow
	indexed bool // the flows are in queue.flowIndex
	n       int  // vertices
	limited int  // vertices in sizeQueue.limited
}

// manyFlows is the number of flows in a dueQueue above which they are looked up
// in queue.flowIndex.
const manyFlows = 4

// keyOfFlow returns the key in queue.flowIndex of the flow for a share in one of
// the two queues of a thread.
func keyOfFlow(t *thread, queue uint8, s *share) uint64 {
	return uint64(t.ref)<<33 | uint64(queue)<<32 | uint64(s.ref)
}

// flow is the due vertices of one thread in one share. There may be as many flows
// as vertices. So flows are kept in a slab, and a flow contains the queue of its
// first size.
type flow struct {
	thread *thread
	share  *share
	ref    flowRef
	index  int32 // in dueQueue.flows
	n      int32 // vertices
	picks  int32 // in this round of the share
	round  uint32
	queue  uint8 // index in thread.queues
	own    sizeQueue
	others []*sizeQueue // of other sizes; nil in most flows
}

// sizeQueue is the vertices of a flow whose jobs have the same size.
//
//	linked: in a heap of its share, where picks find it
//	parked: its thread was found closed; it is linked when the thread opens
type sizeQueue struct {
	flow  *flow
	size  int32 // 0: not in use yet
	index int32 // in a heap of the share
	place place
	due   heap[vertexRef] // in the order of the job list
	// limited has vertices whose message may not take a new session. They can
	// still be fed to a session that the thread already has ("ride" on it).
	limited *heap[vertexRef] // nil: none yet
}

// place is where a sizeQueue is.
type place uint8

const (
	inNone   place = iota
	inOpen         // shareSize.open
	inSpent        // shareSize.spent
	inParked       // thread.parked
)

type flowRef uint32

// flowOf returns the flow of the thread for a share, or nil.
func (q *queue) flowOf(t *thread, queue uint8, s *share) *flow {
	dq := &t.queues[queue]
	if dq.indexed {
		return q.flows.get(q.flowIndex.find(keyOfFlow(t, queue, s)))
	}
	for _, f := range dq.flows {
		if f.share == s {
			return f
		}
	}
	return nil
}

func (dq *dueQueue) len() int { return dq.n }

// pickable is how many vertices may take a new session.
func (dq *dueQueue) pickable() int { return dq.n - dq.limited }

func (q *queue) obtainFlow(t *thread, queue uint8, s *share) *flow {
	if f := q.flowOf(t, queue, s); f != nil {
		return f
	}
	dq := &t.queues[queue]
	ref, f := q.flows.alloc()
	f.thread, f.share, f.ref, f.queue, f.index = t, s, ref, queue, int32(len(dq.flows))
	f.round = s.round
	f.own.flow, f.own.due.index = f, q.queueIndex
	dq.flows = append(dq.flows, f)
	switch {
	case dq.indexed:
		q.flowIndex.add(ref)
	case len(dq.flows) > manyFlows:
		dq.indexed = true
		for _, f := range dq.flows {
			q.flowIndex.add(f.ref)
		}
	}
	s.flows++
	return f
}

// dropFlow removes an empty flow.
func (q *queue) dropFlow(f *flow) {
	dq, s := &f.thread.queues[f.queue], f.share
	if dq.indexed {
		q.flowIndex.remove(f.ref)
	}
	last := len(dq.flows) - 1
	dq.flows[f.index] = dq.flows[last]
	dq.flows[f.index].index = f.index
	dq.flows[last] = nil
	dq.flows = dq.flows[:last]
	if last == 0 {
		dq.indexed = false
	}
	for _, sq := range f.others {
		sq.flow = nil
	}
	q.flows.release(f.ref)
	s.flows--
	s.dropWhenEmpty()
}

// all yields the queues of the flow.
func (f *flow) all(yield func(*sizeQueue) bool) {
	if !yield(&f.own) {
		return
	}
	for _, sq := range f.others {
		if !yield(sq) {
			return
		}
	}
}

// find returns the queue of the size, or nil.
func (f *flow) find(size int32) *sizeQueue {
	if f.own.size == size {
		return &f.own
	}
	for _, sq := range f.others {
		if sq.size == size {
			return sq
		}
	}
	return nil
}

// obtainSize finds or makes the queue of the size. An empty one is reused.
func (q *queue) obtainSize(f *flow, size int32) *sizeQueue {
	if sq := f.find(size); sq != nil {
		return sq
	}
	for sq := range f.all {
		if sq.empty() && sq.place == inNone {
			sq.size = size
			return sq
		}
	}
	sq := &sizeQueue{flow: f, size: size}
	sq.due.index = q.queueIndex
	f.others = append(f.others, sq)
	return sq
}

func (sq *sizeQueue) len() int {
	if sq.limited == nil {
		return sq.due.len()
	}
	return sq.due.len() + sq.limited.len()
}

func (sq *sizeQueue) empty() bool { return sq.len() == 0 }

// limit puts a vertex among those that can only ride. key is its place in the job
// list.
func (sq *sizeQueue) limit(key instant, v vertexRef) {
	if sq.limited == nil {
		sq.limited = &heap[vertexRef]{index: sq.due.index}
	}
	sq.limited.put(key, v)
}

// first returns the first vertex of the flow, even if it may only ride. The flow
// must not be empty.
func (f *flow) first() vertexRef {
	var first vertexRef
	least := never
	for sq := range f.all {
		for _, h := range []*heap[vertexRef]{&sq.due, sq.limited} {
			if h != nil && h.len() > 0 && (first == 0 || h.next() < least) {
				first, least = h.first(), h.next()
			}
		}
	}
	return first
}

// any returns a vertex of the queue, which must not be empty.
func (dq *dueQueue) any() vertexRef {
	for _, f := range dq.flows {
		if f.n > 0 {
			return f.first()
		}
	}
	panic("scheduler: no vertex in a queue that has some")
}

// first returns the first vertex of all flows in the order of the job list. The
// queue must not be empty.
func (dq *dueQueue) first(ml *mail) vertexRef {
	first, least := vertexRef(0), never
	for _, f := range dq.flows {
		if f.n == 0 {
			continue
		}
		v := f.first()
		if key := ml.keyOf(ml.vertices.at(v)); first == 0 || key < least {
			first, least = v, key
		}
	}
	return first
}

// keyOf returns the key of a vertex that is queued.
func (ml *mail) keyOf(v *vertex) instant {
	sq := ml.sizeQueueOf(v)
	if v.aside {
		return sq.limited.at(int(v.queueIndex) - 1).key
	}
	return sq.due.at(int(v.queueIndex) - 1).key
}

func (ml *mail) sizeQueueOf(v *vertex) *sizeQueue {
	return ml.flows.at(v.flow).find(ml.sizeOf(v))
}

// enqueueVertex puts a due vertex into the queue. In a queueonly thread without
// a run, or if nextRun, it waits for the next run.
func (q *queue) enqueueVertex(t *thread, v *vertex, nextRun bool) {
	v.queue = t.active
	if nextRun || t.params.QueueOnly && !t.running {
		v.queue = 1 - t.active
	}
	m := q.messageOf(v)
	dq := &t.queues[v.queue]
	s := q.obtainShare(t.memberOf, t.params.Share, q.sender(m))
	q.enlistVertex(v, s)
	f := q.obtainFlow(t, v.queue, s)
	sq := q.obtainSize(f, q.sizeOf(v))
	sq.due.put(q.queueKey(t, v), v.ref)
	v.flow = f.ref
	f.n++
	dq.n++
	s.due++
	sq.relink()
}

// dequeueVertex takes a vertex out of the queue, if it is in one.
func (q *queue) dequeueVertex(v *vertex) {
	if v.flow == 0 {
		return
	}
	f := q.flows.at(v.flow)
	dq := &f.thread.queues[v.queue]
	sq := f.find(q.sizeOf(v))
	if v.aside {
		sq.limited.remove(v.ref)
		dq.limited--
		v.aside = false
	} else {
		sq.due.remove(v.ref)
		sq.relink()
	}
	v.flow = 0
	f.n--
	dq.n--
	f.share.due--
	q.delistVertex(v)
	if f.n == 0 && !f.hasParked() {
		q.dropFlow(f)
	}
}

func (f *flow) hasParked() bool {
	for sq := range f.all {
		if sq.place == inParked {
			return true
		}
	}
	return false
}

// relink puts the queue into the heap where picks find it, ordered by its first
// vertex. A queue that is empty or waits for the next run is in no heap.
func (sq *sizeQueue) relink() {
	f := sq.flow
	s, t := f.share, f.thread
	switch {
	case sq.place == inParked:
	case sq.due.len() == 0 || f.queue != t.active:
		sq.unlink()
	case sq.place == inSpent:
		s.size(sq.size).spent.put(sq.due.next(), sq)
	case sq.place == inOpen || t.open:
		s.size(sq.size).open.put(sq.due.next(), sq)
		sq.place = inOpen
		s.enlist()
	default:
		sq.setParked()
	}
}

func (sq *sizeQueue) unlink() {
	switch sq.place {
	case inOpen:
		sq.flow.share.size(sq.size).open.remove(sq)
	case inSpent:
		sq.flow.share.size(sq.size).spent.remove(sq)
	}
	sq.place = inNone
}

// setParked parks a queue, which is in no heap, until its thread opens.
func (sq *sizeQueue) setParked() {
	sq.place = inParked
	t := sq.flow.thread
	t.parked = append(t.parked, sq)
}

// setOpen notes whether the thread may take another session. If so, its parked
// queues are linked again.
func (q *queue) setOpen(t *thread, open bool) {
	t.open = open
	if !open || len(t.parked) == 0 {
		return
	}
	parked := t.parked
	t.parked = nil
	q.unpark(t, parked)
	clear(parked)
	if t.parked == nil {
		t.parked = parked[:0]
	}
}

func (q *queue) unpark(t *thread, parked []*sizeQueue) {
	for _, sq := range parked {
		sq.place = inNone
	}
	for _, sq := range parked {
		f := sq.flow
		if f == nil {
			continue // dropped with another of its queues
		}
		if f.n == 0 {
			q.dropFlow(f)
			continue
		}
		sq.relink()
	}
}

// swapQueues makes the other queue of a queueonly thread the one that is fed.
func (q *queue) swapQueues(t *thread) {
	t.active = 1 - t.active
	q.unpark(t, t.takeParked())
	for i := range t.queues {
		for _, f := range t.queues[i].flows {
			for sq := range f.all {
				sq.relink()
			}
		}
	}
}

func (t *thread) takeParked() []*sizeQueue {
	parked := t.parked
	t.parked = nil
	return parked
}
