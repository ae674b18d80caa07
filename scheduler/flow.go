package scheduler

// Flows: the due vertices of a thread, grouped by share and by the size of their
// jobs.

// dueQueue has the due vertices of a thread.
type dueQueue struct {
	flows   []*flow
	byShare map[*share]*flow // if there are many flows; else nil
	n       int              // vertices
	limited int              // vertices in sizeQueue.limited
}

// manyFlows is the number of flows above which a map finds them.
const manyFlows = 8

// flow is the due vertices of one thread in one share.
type flow struct {
	thread *thread
	share  *share
	ref    flowRef
	queue  uint8 // index in thread.queues
	index  int   // in dueQueue.flows
	sizes  []*sizeQueue
	n      int // vertices
	picks  int // in this round of the share
	round  uint32
}

// sizeQueue is the vertices of a flow whose jobs have the same size.
//
//	linked: in a heap of its share, where picks find it
//	parked: its thread was found closed; it is linked when the thread opens
type sizeQueue struct {
	flow  *flow
	size  int32
	due   heap[vertexRef] // in the order of the job list
	place place
	index int32 // in a heap of the share
	// limited has vertices whose message may not take a new session. They can
	// still be fed to a session that the thread already has ("ride" on it).
	limited heap[vertexRef]
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

// of returns the flow for a share, or nil.
func (dq *dueQueue) of(s *share) *flow {
	if dq.byShare != nil {
		return dq.byShare[s]
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
	dq := &t.queues[queue]
	if f := dq.of(s); f != nil {
		return f
	}
	var f *flow
	if last := len(q.spareFlows) - 1; last >= 0 {
		f = q.spareFlows[last]
		q.spareFlows = q.spareFlows[:last]
	} else {
		f = new(flow)
		ref, entry := q.flows.alloc()
		f.ref, *entry = ref, f
	}
	f.thread, f.share, f.queue, f.index = t, s, queue, len(dq.flows)
	f.picks, f.round = 0, s.round
	dq.flows = append(dq.flows, f)
	switch {
	case dq.byShare != nil:
		dq.byShare[s] = f
	case len(dq.flows) > manyFlows:
		dq.byShare = make(map[*share]*flow)
		for _, f := range dq.flows {
			dq.byShare[f.share] = f
		}
	}
	s.flows++
	return f
}

// maxSpareFlows bounds the empty flows that are kept for reuse.
const maxSpareFlows = 1000

// dropFlow removes an empty flow.
func (q *queue) dropFlow(f *flow) {
	dq := &f.thread.queues[f.queue]
	last := len(dq.flows) - 1
	dq.flows[f.index] = dq.flows[last]
	dq.flows[f.index].index = f.index
	dq.flows[last] = nil
	dq.flows = dq.flows[:last]
	delete(dq.byShare, f.share)
	if last == 0 {
		dq.byShare = nil
	}
	s := f.share
	s.flows--
	f.thread, f.share = nil, nil
	f.sizes = f.sizes[:min(1, len(f.sizes))]
	for _, sq := range f.sizes {
		sq.due.trim()
		sq.limited.trim()
	}
	if len(q.spareFlows) < maxSpareFlows {
		q.spareFlows = append(q.spareFlows, f)
	} else {
		q.flows.release(f.ref)
	}
	s.dropWhenEmpty()
}

// find returns the queue of the size, or nil.
func (f *flow) find(size int32) *sizeQueue {
	for _, sq := range f.sizes {
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
	for _, sq := range f.sizes {
		if sq.empty() && sq.place == inNone {
			sq.size = size
			return sq
		}
	}
	sq := &sizeQueue{flow: f, size: size}
	sq.due.index, sq.limited.index = q.queueIndex, q.queueIndex
	f.sizes = append(f.sizes, sq)
	return sq
}

func (sq *sizeQueue) empty() bool { return sq.due.len()+sq.limited.len() == 0 }

// first returns the first vertex of the flow, even if it may only ride. The flow
// must not be empty.
func (f *flow) first() vertexRef {
	var first vertexRef
	least := never
	for _, sq := range f.sizes {
		for _, h := range []*heap[vertexRef]{&sq.due, &sq.limited} {
			if h.len() > 0 && (first == 0 || h.next() < least) {
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
	return (*ml.flows.at(v.flow)).find(ml.sizeOf(v))
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
	sq.relink()
}

// dequeueVertex takes a vertex out of the queue, if it is in one.
func (q *queue) dequeueVertex(v *vertex) {
	if v.flow == 0 {
		return
	}
	f := *q.flows.at(v.flow)
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
	q.delistVertex(v)
	if f.n == 0 && !f.hasParked() {
		q.dropFlow(f)
	}
}

func (f *flow) hasParked() bool {
	for _, sq := range f.sizes {
		if sq.place == inParked {
			return true
		}
	}
	return false
}

// relink puts the queue where picks find it, at the position that its first
// vertex gives it; or nowhere if it is empty or waits for the next run.
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

// park takes a queue out of its share until its thread opens.
func (sq *sizeQueue) park() {
	sq.unlink()
	sq.setParked()
}

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
		if f.thread != t {
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
			for _, sq := range f.sizes {
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
