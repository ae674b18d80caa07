package fair

import (
	"math/bits"

	"zsched/scheduler/store"
)

// Flows: the due vertices of a thread, grouped by share and by the size of their jobs.

// flow is the due vertices of one thread in one share whose jobs have the same size.
//
//	linked: in a heap of its share, where picks find it
//	parked: its thread was found closed; it is linked when the thread opens
//	spent:  its thread has used its quantum; it is linked in the next round
//
// There may be as many flows as vertices. So flows are in a slab and fill one cache
// line each: a flow itself has its first vertex, and most flows have no other.
type flow struct {
	thread *Thread
	share  *Share
	extras *flowExtras // nil in most flows
	key    Key         // of the first vertex, its place in the job list; never: no vertex
	vertex Vertex      // the first; 0: none, but extras.aside may have some
	size   int32       // of the jobs
	ref    flowRef
	// heapIndex is its place in a heap of its share; 0: it is in none.
	heapIndex int32
	picks     int32   // in this round of the share
	round     uint32  // of picks
	next      flowRef // in its chain; 0: none
	place     place
}

type flowRef uint32

type chainRef uint32

// flowExtras is what a flow needs that has several vertices, or one that is set aside.
type flowExtras struct {
	due store.Heap[Key, Vertex] // in the order of the job list, the first one included
	// aside has vertices whose message may not take a new session.
	aside store.Heap[Key, Vertex]
}

// place is where a flow is.
type place uint8

const (
	inOpen   place = iota // shareSize.open, unless it has no vertex that picks find
	inParked              // Thread.parked
	inSpent               // share.spent
)

// chain returns where the chain begins that has the flows of a thread for a share. Others may
// be in it too. The hash spreads both numbers, which are small and follow each other.
func (q *Queue) chain(t *Thread, s *Share) *flowRef {
	hi, lo := bits.Mul64(uint64(t.Number)*0x9e3779b97f4a7c15+s.number*0xbf58476d1ce4e5b9, 0x94d049bb133111eb)
	hash := chainRef(hi ^ lo)
	// Chains that were divided, and those that this has made, are for one more bit of the hash.
	half := chainRef(1) << (bits.Len32(uint32(q.chains.Last)) - 1)
	n := hash & (2*half - 1)
	if n >= q.chains.Last {
		n -= half
	}
	return q.chains.At(n + 1)
}

// addChain makes one more chain, and divides the first that is not divided yet (linear hashing):
// to move all flows at once would take long.
func (q *Queue) addChain() {
	half := chainRef(1) << (bits.Len32(uint32(q.chains.Last)) - 1)
	first := q.chains.At(q.chains.Last - half + 1)
	q.chains.Alloc()
	ref := *first
	*first = 0
	for ref != 0 {
		f := q.flows.At(ref)
		chain := q.chain(f.thread, f.share)
		ref, f.next, *chain = f.next, *chain, ref
	}
}

// eachOf yields the flows of the thread for a share, in no particular order.
func (t *Thread) eachOf(s *Share) func(func(*flow) bool) {
	return func(yield func(*flow) bool) {
		q := s.ring.queue
		for f := q.flows.Get(*q.chain(t, s)); f != nil; f = q.flows.Get(f.next) {
			if f.thread == t && f.share == s && !yield(f) {
				return
			}
		}
	}
}

// obtainFlow finds or makes the flow for a share and a size.
func (q *Queue) obtainFlow(t *Thread, s *Share, size int32) *flow {
	for f := range t.eachOf(s) {
		if f.size == size {
			return f
		}
	}
	for q.flows.Used() >= q.chains.Used()/2 {
		q.addChain()
	}
	ref, f := q.flows.Alloc()
	f.thread, f.share, f.key, f.size, f.ref, f.round = t, s, never, size, ref, s.round
	chain := q.chain(t, s)
	f.next, *chain = *chain, ref
	s.size(size).members++
	return f
}

// dropFlow removes an empty flow, which is in no heap.
func (q *Queue) dropFlow(f *flow) {
	s := f.share
	link := q.chain(f.thread, s)
	for *link != f.ref {
		link = &q.flows.At(*link).next
	}
	*link = f.next
	s.size(f.size).members--
	q.flows.Release(f.ref)
	s.dropWhenEmpty()
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

// first returns the first vertex of the flow, even if it is set aside; 0: it has none.
func (f *flow) first() (first Vertex, key Key) {
	if h := f.extras; h != nil && h.aside.Next() < f.key {
		return h.aside.First(), h.aside.Next()
	}
	return f.vertex, f.key
}

// withoutTurn yields the flows of the thread while no share of the ring has a turn, in no particular
// order, and some of them twice. All of them are parked, or their share or a vertex of theirs is
// set aside: if picks found any other, its share would have a turn.
func (t *Thread) withoutTurn(yield func(*flow) bool) {
	for _, ref := range t.parked {
		// The flow may have been dropped, and another may have its number.
		if f := t.ring.queue.flows.At(ref); f.place == inParked && f.thread == t && !yield(f) {
			return
		}
	}
	var shares []*Share
	for _, j := range t.ring.aside {
		shares = append(shares, j.share)
	}
	for _, s := range append(shares, t.ring.asideShares...) {
		for f := range t.eachOf(s) {
			if !yield(f) {
				return
			}
		}
	}
}

// firstOf returns the flow with the first vertex in the order of the job list, and that vertex; 0:
// none of the flows has any.
func firstOf(flows func(func(*flow) bool)) (best *flow, first Vertex) {
	least := never
	for f := range flows {
		if v, key := f.first(); v != 0 && (first == 0 || key < least || key == least && v < first) {
			best, first, least = f, v, key
		}
	}
	return best, first
}

// relink puts the flow into the heap where picks find it, ordered by its first
// vertex. An empty flow is in no heap.
func (f *flow) relink() {
	s := f.share
	switch {
	case f.place != inOpen:
	case f.vertex == 0:
		s.size(f.size).open.Remove(f.ref)
	case f.heapIndex != 0 || f.thread.open:
		s.size(f.size).open.Put(f.key, f.ref)
		s.enlist()
	default:
		f.park(&f.thread.parked, inParked)
	}
}

// park puts a flow, which is in no heap, into a list.
func (f *flow) park(in *[]flowRef, place place) {
	f.place = place
	*in = append(*in, f.ref)
}

// unpark links the flows of a list again. Some of them may have been dropped, and others may have
// their numbers: these are in such a place too, and go there again when picks find them.
func (q *Queue) unpark(in *[]flowRef, place place) {
	parked := *in
	*in = nil
	for _, ref := range parked {
		if f := q.flows.At(ref); f.place == place {
			f.place = inOpen
			f.relink()
		}
	}
	if *in == nil {
		*in = parked[:0]
	}
}

// IsFirst reports whether a vertex is queued, and the first of its share in its thread.
func (q *Queue) IsFirst(v Vertex) bool {
	ref := q.mail.Place(v).flow
	if ref == 0 {
		return false
	}
	f := q.flows.At(ref)
	_, first := firstOf(f.thread.eachOf(f.share))
	return first == v
}
