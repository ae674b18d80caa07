package fair

import "zsched/scheduler/store"

// Flows: the due vertices of a thread, grouped by share and by the size of their jobs.

// flow is the due vertices of one thread in one share whose jobs have the same size.
//
//	linked: in a heap of its share, where picks find it
//	parked: its thread was found closed; it is linked when the thread opens
//
// There may be as many flows as vertices. So flows are in a slab and fill one cache
// line each: a flow itself has its first vertex, and most flows have no other.
type flow struct {
	thread *Thread
	share  *share
	extras *flowExtras // nil in most flows
	key    Key         // of the first vertex, its place in the job list; never: no vertex
	vertex Vertex      // the first; 0: none, but extras.aside may have some
	size   int32       // of the jobs
	ref    flowRef
	// heapIndex is its place in a heap of its share.
	heapIndex int32
	picks     int32  // in this round of the share, siblings included
	round     uint32 // of picks
	place     place
}

type flowRef uint32

// flowExtras is what a flow needs that has several vertices, or one that is set aside, or a
// sibling.
type flowExtras struct {
	due store.Heap[Key, Vertex] // in the order of the job list, the first one included
	// aside has vertices whose message may not take a new session.
	aside store.Heap[Key, Vertex]
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
	inParked       // Thread.parked
)

// flowOf returns a flow of the thread for a share, or nil. It may have siblings.
func (t *Thread) flowOf(s *share) *flow {
	flows := &s.ring.queue.flows
	if f := flows.Get(t.flow); f != nil && f.share == s {
		return f
	}
	return flows.Get(t.more[s])
}

// setFlow makes a flow the one that is found for its share, in place of the one before, if there
// was one.
func (t *Thread) setFlow(f, before *flow) {
	switch {
	case t.flow == 0 && before == nil, before != nil && t.flow == before.ref:
		t.flow = f.ref
	default:
		if t.more == nil {
			t.more = make(map[*share]flowRef)
		}
		t.more[f.share] = f.ref
	}
}

// obtainFlow finds or makes the flow for a share and a size.
func (q *Queue) obtainFlow(t *Thread, s *share, size int32) *flow {
	known := t.flowOf(s)
	if known == nil {
		return q.newFlow(t, s, size, nil)
	}
	for f := range known.siblings {
		if f.size == size {
			return f
		}
	}
	return q.newFlow(t, s, size, known)
}

// newFlow makes a flow that has the given sibling, or none.
func (q *Queue) newFlow(t *Thread, s *share, size int32, sibling *flow) *flow {
	ref, f := q.flows.Alloc()
	*f = flow{thread: t, share: s, key: never, size: size, ref: ref, round: s.round}
	if sibling != nil {
		q.obtainExtras(f).sibling, q.obtainExtras(sibling).sibling = sibling.next(), f
		f.round, f.picks = sibling.round, sibling.picks
		return f
	}
	t.setFlow(f, nil)
	s.flows++
	return f
}

// dropFlow removes an empty flow, which is in no heap.
func (q *Queue) dropFlow(f *flow) {
	s, t := f.share, f.thread
	if next := f.next(); next != f {
		before := next
		for before.next() != f {
			before = before.next()
		}
		before.extras.sibling = next
		if t.flowOf(s) == f {
			t.setFlow(next, f)
		}
	} else {
		if t.flow == f.ref {
			t.flow = 0
		} else {
			delete(t.more, s)
		}
		s.flows--
	}
	q.flows.Release(f.ref)
	s.dropWhenEmpty()
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
		return f.extras.due.Len() + f.extras.aside.Len()
	case f.vertex != 0:
		return 1
	}
	return 0
}

// put adds a vertex, or changes its key. Its key is its place in the job list.
func (q *Queue) put(f *flow, key Key, v Vertex) {
	if f.extras == nil && (f.vertex == 0 || f.vertex == v) {
		f.key, f.vertex = key, v
		return
	}
	h := q.obtainExtras(f)
	h.due.Put(key, v)
	f.key, f.vertex = h.due.Next(), h.due.First()
}

// remove removes a vertex that was put into the flow.
func (f *flow) remove(v Vertex) {
	f.key, f.vertex = never, 0
	if h := f.extras; h != nil {
		h.due.Remove(v)
		if h.due.Len() > 0 {
			f.key, f.vertex = h.due.Next(), h.due.First()
		}
	}
}

func (q *Queue) obtainExtras(f *flow) *flowExtras {
	if f.extras == nil {
		f.extras = new(flowExtras)
		f.extras.due.Index, f.extras.aside.Index = q.vertexPlace, q.vertexPlace
		if f.vertex != 0 {
			f.extras.due.Put(f.key, f.vertex)
		}
	}
	return f.extras
}

// hasAside reports whether a vertex of the flow is set aside.
func (f *flow) hasAside(v Vertex) bool { return f.extras != nil && f.extras.aside.Contains(v) }

// keyOf returns the key of a vertex of the flow.
func (f *flow) keyOf(v Vertex) Key {
	switch {
	case f.hasAside(v):
		return f.extras.aside.KeyOf(v)
	case f.extras != nil:
		return f.extras.due.KeyOf(v)
	default:
		return f.key
	}
}

// first returns the first vertex of the flow and its siblings, even if it is set aside; 0: they
// have none.
func (f *flow) first() (first Vertex, key Key) {
	key = never
	for g := range f.siblings {
		if g.vertex != 0 && (first == 0 || g.key < key) {
			first, key = g.vertex, g.key
		}
		if h := g.extras; h != nil && h.aside.Len() > 0 && (first == 0 || h.aside.Next() < key) {
			first, key = h.aside.First(), h.aside.Next()
		}
	}
	return first, key
}

// eachFlow yields a flow for each share, in no particular order.
func (t *Thread) eachFlow(yield func(*flow) bool) {
	flows := &t.ring.queue.flows
	if t.flow != 0 && !yield(flows.At(t.flow)) {
		return
	}
	for _, f := range t.more {
		if !yield(flows.At(f)) {
			return
		}
	}
}

// first returns the first vertex of the thread in the order of the job list; 0 if it has
// none.
func (t *Thread) first() Vertex {
	first, least := Vertex(0), never
	for f := range t.eachFlow {
		v, key := f.first()
		if v != 0 && (first == 0 || key < least || key == least && v < first) {
			first, least = v, key
		}
	}
	return first
}

// relink puts the flow into the heap where picks find it, ordered by its first
// vertex. An empty flow is in no heap.
func (f *flow) relink() {
	s := f.share
	switch {
	case f.place == inParked:
	case f.vertex == 0:
		f.unlink()
	case f.place == inSpent:
		s.size(f.size).spent.Put(f.key, f.ref)
	case f.place == inOpen || f.thread.open:
		s.size(f.size).open.Put(f.key, f.ref)
		f.place = inOpen
		s.enlist()
	default:
		f.park()
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

// park parks a flow, which is in no heap, until its thread opens.
func (f *flow) park() {
	f.place = inParked
	f.thread.parked = append(f.thread.parked, f)
}

// unpark links the parked flows of a thread again. Those that still must wait are parked
// again.
func (t *Thread) unpark() {
	parked := t.parked
	t.parked = nil
	for _, f := range parked {
		f.place = inNone
	}
	for _, f := range parked {
		if f.len() == 0 {
			t.ring.queue.dropFlow(f)
			continue
		}
		f.relink()
	}
	clear(parked)
	if t.parked == nil {
		t.parked = parked[:0]
	}
}

// IsFirst reports whether a vertex is queued, and the first of its share in its thread.
func (q *Queue) IsFirst(v Vertex) bool {
	ref := q.mail.Place(v).flow
	if ref == 0 {
		return false
	}
	first, _ := q.flows.At(ref).first()
	return first == v
}
