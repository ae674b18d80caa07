package scheduler

import (
	"iter"

	"zsched/scheduler/store"
)

// Flows: the due vertices of a thread, grouped by share and by the size of their
// jobs.

// dueQueue has the due vertices of a thread.
type dueQueue struct {
	// flows has one flow for each share. Its siblings are found through it.
	flows   flowTable
	n       int32 // vertices
	limited int32 // vertices in flowExtras.limited
}

// flow is the due vertices of one thread in one share whose jobs have the same size.
//
//	linked: in a heap of its share, where picks find it
//	parked: its thread was found closed; it is linked when the thread opens
//
// There may be as many flows as vertices. So flows are in a slab and fill one cache
// line each: a flow itself has its first vertex, and most flows have no other.
type flow struct {
	thread *thread
	share  *share
	extras *flowExtras // nil in most flows
	key    instant     // of the first vertex, its place in the job list; never: no vertex
	vertex vertexRef   // the first; 0: none, but extras.limited may have some
	size   int32       // of the jobs
	ref    flowRef
	// heapIndex is its place in a heap of its share.
	heapIndex int32
	picks     int32  // in this round of the share, siblings included
	round     uint32 // of picks
	queue     uint8  // index in thread.queues
	place     place
}

// flowExtras is what a flow needs that has several vertices, or one that may only ride,
// or a sibling.
type flowExtras struct {
	due store.Heap[instant, vertexRef] // in the order of the job list, the first one included
	// limited has vertices whose message may not take a new session. They can
	// still be fed to a session that the thread already has ("ride" on it).
	limited store.Heap[instant, vertexRef]
	// sibling is another flow of the same thread and share, for another size. All of
	// them form a circle. nil: there is none.
	sibling *flow
}

// place is where a flow is.
type place uint8

const (
	inNone   place = iota
	inOpen         // shareSize.open
	inSpent        // shareSize.spent
	inParked       // thread.parked
)

type flowRef uint32

// flowOf returns a flow of the thread for a share, or nil. It may have siblings.
func (q *queue) flowOf(t *thread, queue uint8, s *share) *flow {
	return q.flows.Get(t.queues[queue].flows.find(s.ref))
}

// eachFlow yields the flows of a queue.
func (q *queue) eachFlow(dq *dueQueue) iter.Seq[*flow] {
	return func(yield func(*flow) bool) {
		for ref := range dq.flows.all {
			for f := range q.flows.At(ref).siblings {
				if !yield(f) {
					return
				}
			}
		}
	}
}

func (dq *dueQueue) len() int { return int(dq.n) }

// pickable is how many vertices may take a new session.
func (dq *dueQueue) pickable() int { return int(dq.n - dq.limited) }

// obtainFlow finds or makes the flow for a share and a size.
func (q *queue) obtainFlow(t *thread, queue uint8, s *share, size int32) *flow {
	known := q.flowOf(t, queue, s)
	if known == nil {
		return q.newFlow(t, queue, s, size, nil)
	}
	for f := range known.siblings {
		if f.size == size {
			return f
		}
	}
	return q.newFlow(t, queue, s, size, known)
}

// newFlow makes a flow that has the given sibling, or none.
func (q *queue) newFlow(t *thread, queue uint8, s *share, size int32, sibling *flow) *flow {
	ref, f := q.flows.Alloc()
	*f = flow{thread: t, share: s, key: never, size: size, ref: ref, queue: queue, round: s.round}
	if sibling != nil {
		q.joinSiblings(f, sibling)
		return f
	}
	s.flows++
	t.queues[queue].flows.put(s.ref, ref)
	return f
}

// dropFlow removes an empty flow, which is in no heap.
func (q *queue) dropFlow(f *flow) {
	flows, s := &f.thread.queues[f.queue].flows, f.share
	if next := f.next(); next != f {
		q.leaveSiblings(f)
		flows.put(s.ref, next.ref)
	} else {
		flows.remove(s.ref)
		s.flows--
	}
	q.flows.Release(f.ref)
	s.dropWhenEmpty()
}

// joinSiblings puts a new flow into the circle of a sibling.
func (q *queue) joinSiblings(f, sibling *flow) {
	q.obtainFlowExtras(f).sibling, q.obtainFlowExtras(sibling).sibling = sibling.next(), f
	f.round, f.picks = sibling.round, sibling.picks
}

// leaveSiblings takes a flow out of the circle of its siblings.
func (q *queue) leaveSiblings(f *flow) {
	before := f.next()
	for before.next() != f {
		before = before.next()
	}
	before.extras.sibling = f.next()
}

// next returns the next sibling, or the flow itself if it has none.
func (f *flow) next() *flow {
	if f.extras == nil || f.extras.sibling == nil {
		return f
	}
	return f.extras.sibling
}

// siblings yields the flow and its siblings.
func (f *flow) siblings(yield func(*flow) bool) {
	for g := f; yield(g); {
		if g = g.next(); g == f {
			return
		}
	}
}

// len is how many vertices the flow has.
func (f *flow) len() int {
	switch {
	case f.extras != nil:
		return f.extras.due.Len() + f.extras.limited.Len()
	case f.vertex != 0:
		return 1
	}
	return 0
}

// put adds a vertex, or changes its key. Its key is its place in the job list.
func (q *queue) put(f *flow, key instant, v vertexRef) {
	if f.extras == nil && (f.vertex == 0 || f.vertex == v) {
		f.key, f.vertex = key, v
		return
	}
	h := q.obtainFlowExtras(f)
	h.due.Put(key, v)
	f.key, f.vertex = h.due.Next(), h.due.First()
}

// remove removes a vertex that was put into the flow.
func (f *flow) remove(v vertexRef) {
	f.key, f.vertex = never, 0
	if h := f.extras; h != nil {
		h.due.Remove(v)
		if h.due.Len() > 0 {
			f.key, f.vertex = h.due.Next(), h.due.First()
		}
	}
}

// eachBelow is as in heap.
func (f *flow) eachBelow(limit instant, do func(vertexRef) bool) bool {
	if f.extras != nil {
		return f.extras.due.EachBelow(limit, do)
	}
	return f.key >= limit || do(f.vertex)
}

func (q *queue) obtainFlowExtras(f *flow) *flowExtras {
	if f.extras == nil {
		f.extras = new(flowExtras)
		f.extras.due.Index, f.extras.limited.Index = q.heapIndex, q.heapIndex
		if f.vertex != 0 {
			f.extras.due.Put(f.key, f.vertex)
		}
	}
	return f.extras
}

// first returns the first vertex of the flow and its siblings, even if it may only
// ride; 0: they have none.
func (f *flow) first() (first vertexRef, key instant) {
	key = never
	for g := range f.siblings {
		if g.vertex != 0 && (first == 0 || g.key < key) {
			first, key = g.vertex, g.key
		}
		if h := g.extras; h != nil && h.limited.Len() > 0 && (first == 0 || h.limited.Next() < key) {
			first, key = h.limited.First(), h.limited.Next()
		}
	}
	return first, key
}

// verticesOf returns the vertices of a queue, in no particular order.
func (q *queue) verticesOf(dq *dueQueue) []vertexRef {
	vertices := make([]vertexRef, 0, dq.n)
	add := func(v vertexRef) bool {
		vertices = append(vertices, v)
		return true
	}
	for f := range q.eachFlow(dq) {
		f.eachBelow(never, add)
		if f.extras != nil {
			f.extras.limited.EachBelow(never, add)
		}
	}
	return vertices
}

// firstOf returns the first vertex of a queue in the order of the job list; 0 if it
// has none.
func (q *queue) firstOf(dq *dueQueue) vertexRef {
	first, least := vertexRef(0), never
	for ref := range dq.flows.all {
		if v, key := q.flows.At(ref).first(); v != 0 && (first == 0 || key < least) {
			first, least = v, key
		}
	}
	return first
}

// keyOf returns the key of a vertex that is queued.
func (ml *mail) keyOf(v *vertex) instant {
	switch f := ml.flows.At(v.flow); {
	case v.aside:
		return f.extras.limited.KeyOf(v.ref)
	case f.extras != nil:
		return f.extras.due.KeyOf(v.ref)
	default:
		return f.key
	}
}

// enqueueVertex puts a due vertex into the queue. In a queueonly thread without
// a run, or if nextRun, it waits for the next run.
func (q *queue) enqueueVertex(t *thread, v *vertex, nextRun bool) {
	v.queue = t.active
	if nextRun || t.params.QueueOnly && !t.running {
		v.queue = 1 - t.active
	}
	m := q.messageOf(v)
	s := q.obtainShare(t.memberOf, t.params.Share, q.senders.At(m.sender))
	q.enlistVertex(v, s)
	f := q.obtainFlow(t, v.queue, s, q.sizeOf(v))
	q.put(f, q.queueKey(t, v), v.ref)
	v.flow = f.ref
	t.queues[v.queue].n++
	s.due++
	q.relink(f)
}

// dequeueVertex takes a vertex out of the queue, if it is in one.
func (q *queue) dequeueVertex(v *vertex) {
	if v.flow == 0 {
		return
	}
	f := q.flows.At(v.flow)
	dq := &f.thread.queues[v.queue]
	if v.aside {
		f.extras.limited.Remove(v.ref)
		dq.limited--
		v.aside = false
	} else {
		f.remove(v.ref)
		q.relink(f)
	}
	v.flow = 0
	dq.n--
	f.share.due--
	q.delistVertex(v)
	if f.len() == 0 && f.place != inParked {
		q.dropFlow(f)
	}
}

// relink puts the flow into the heap where picks find it, ordered by its first
// vertex. A flow that is empty or waits for the next run is in no heap.
func (q *queue) relink(f *flow) {
	s, t := f.share, f.thread
	switch {
	case f.place == inParked:
	case f.vertex == 0 || f.queue != t.active:
		f.unlink()
	case f.place == inSpent:
		s.size(f.size).spent.Put(f.key, f.ref)
	case f.place == inOpen || t.open:
		s.size(f.size).open.Put(f.key, f.ref)
		f.place = inOpen
		s.enlist()
	default:
		f.setParked()
	}
}

func (f *flow) unlink() {
	switch f.place {
	case inOpen:
		f.share.size(f.size).open.Remove(f.ref)
	case inSpent:
		f.share.size(f.size).spent.Remove(f.ref)
	}
	f.place = inNone
}

// setParked parks a flow, which is in no heap, until its thread opens.
func (f *flow) setParked() {
	f.place = inParked
	f.thread.parked = append(f.thread.parked, f)
}

// setOpen notes whether the thread may take another session. If so, its parked
// flows are linked again.
func (q *queue) setOpen(t *thread, open bool) {
	t.open = open
	if open && len(t.parked) > 0 {
		q.unpark(t)
	}
}

// unpark links the parked flows of a thread again. Those that still must wait are parked
// again.
func (q *queue) unpark(t *thread) {
	parked := t.parked
	t.parked = nil
	for _, f := range parked {
		f.place = inNone
	}
	for _, f := range parked {
		if f.len() == 0 {
			q.dropFlow(f)
			continue
		}
		q.relink(f)
	}
	clear(parked)
	if t.parked == nil {
		t.parked = parked[:0]
	}
}

// swapQueues makes the other queue of a queueonly thread the one that is fed.
func (q *queue) swapQueues(t *thread) {
	t.active = 1 - t.active
	q.unpark(t)
	for i := range t.queues {
		for f := range q.eachFlow(&t.queues[i]) {
			q.relink(f)
		}
	}
}
