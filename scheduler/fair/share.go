package fair

import (
	"slices"

	"zsched/scheduler/store"
)

// Shares: whose turn it is in a ring (share, PARAMshares, quantum).

// turnVertices is how many vertices a share of weight 1 may pick in one turn.
const turnVertices = 8

// recipientsAsVertex is how many recipients of a vertex count as one more vertex: whoever sends to many
// at once has fewer turns.
const recipientsAsVertex = 50

// Share is the due mail of one ring that has the same source, sender, or domain of the
// sender. Every pick first selects the share whose turn it is, by deficit round
// robin.
//
// A new share is the last, behind all that wait for their turn: if it were the
// first, somebody with many names could keep the others waiting for ever. One that
// runs empty is new when it has mail again. A share whose mail is all for closed
// threads lets the others pass and keeps its place; otherwise a sender could wait at a busy host for
// any number of rounds, because its place would depend on which thread opens first.
// So does one that is set aside, because it has as many sessions as it may have.
type Share struct {
	name    string
	ring    *Ring
	weight  int
	deficit int    // how many vertices it may still pick in this turn; below 0: what it has had too many
	number  uint64 // 0: it is forgotten
	// turnKey is its place in the sequence of turns; 0: none yet.
	turnKey   Key
	inLine    bool                // of Ring.turns
	links     store.Links[*Share] // in that line
	turnIndex int32               // in turns.back
	aside     bool
	due       int         // vertices
	sessions  int         // that have begun with its mail and have not ended
	sizes     []shareSize // in ascending order of size
	spent     []flowRef   // of flows whose threads have used their quantum in this round
	// round counts the rounds in which each thread of the share gets quantum
	// picks.
	round uint32
}

// shareSize has the flows of a share for one size.
type shareSize struct {
	size    int32
	members int32 // flows, linked or parked
	flows   *store.Slab[flowRef, flow]
	open    store.Heap[Key, flowRef] // those that are linked, in the order of the job list
}

// maxEmptySizes is the number of sizes above which a share drops those without
// flows.
const maxEmptySizes = 4

// obtainShare finds or makes the share with a name.
func (r *Ring) obtainShare(name string) *Share {
	s := r.shares[name]
	if s == nil {
		if s = r.spare.Take(); s == nil {
			s = new(Share)
		}
		weight := r.queue.mail.Weight(name)
		r.lastShare++
		*s = Share{
			name: name, ring: r, weight: weight, deficit: weight * turnVertices, number: r.lastShare,
			sizes: s.sizes, spent: s.spent[:0],
		}
		r.shares[name] = s
	}
	return s
}

// turns has the shares that take turns, in the order of their turnKeys. Nearly all come to the end of
// the line. One that comes back to its place is in a heap.
type turns struct {
	line store.List[*Share]
	back store.Heap[Key, *Share]
}

// first returns the share whose turn it is, or nil if there is none.
func (t *turns) first() *Share {
	s := t.line.Head
	if t.back.Len() > 0 && (s == nil || t.back.Next() < s.turnKey) {
		s = t.back.First()
	}
	return s
}

func (t *turns) remove(s *Share) {
	if s.inLine {
		t.line.Remove(s)
		s.inLine = false
	}
	t.back.Remove(s)
}

// size returns the heaps for jobs of a size. They are valid until the next call.
func (s *Share) size(size int32) *shareSize {
	if len(s.sizes) > 0 && s.sizes[0].size == size {
		return &s.sizes[0]
	}
	return s.obtainSize(size)
}

func (s *Share) obtainSize(size int32) *shareSize {
	i := 0
	for i < len(s.sizes) && s.sizes[i].size < size {
		i++
	}
	if i == len(s.sizes) || s.sizes[i].size != size {
		q := s.ring.queue
		sz := shareSize{size: size, flows: &q.flows}
		sz.open.Index = q.flowPlace
		s.sizes = slices.Insert(s.sizes, i, sz)
	}
	return &s.sizes[i]
}

// enlist puts the share among those that take turns, in its place.
func (s *Share) enlist() {
	switch {
	case s.takesTurns(), s.aside:
	case s.turnKey == 0:
		s.becomeLast()
	default:
		s.ring.turns.back.Put(s.turnKey, s)
	}
}

// becomeLast makes the share the last of those that take turns.
func (s *Share) becomeLast() {
	r := s.ring
	r.turns.remove(s)
	r.lastTurn++
	s.turnKey, s.inLine = r.lastTurn, true
	r.turns.line.Append(s)
}

func (s *Share) takesTurns() bool { return s.inLine || s.turnIndex != 0 }

// maxSpare is how many shares a ring keeps for reuse.
const maxSpare = 100

// dropWhenEmpty forgets a share without mail. While it has sessions, it stays, as one that is new.
func (s *Share) dropWhenEmpty() {
	r := s.ring
	if s.due > 0 || s.takesTurns() || s.number == 0 {
		return
	}
	s.aside = false
	if s.sessions > 0 {
		s.turnKey, s.deficit, s.spent = 0, s.weight*turnVertices, s.spent[:0]
		return
	}
	s.number = 0
	delete(r.shares, s.name)
	if len(r.spare) < maxSpare {
		r.spare.Put(s)
	}
}

// BeginSession counts a session that begins with a queued vertex, in the vertex's share.
func (q *Queue) BeginSession(v Vertex) *Share {
	s := q.flows.At(q.mail.Place(v).flow).share
	s.sessions++
	return s
}

// EndSession counts the end of a session.
func (s *Share) EndSession() {
	if s.sessions--; s.sessions == 0 {
		s.dropWhenEmpty()
	}
}

// Sessions is how many sessions have begun with the mail of the share, and have not ended.
func (s *Share) Sessions() int { return s.sessions }

// Name is the source, sender or domain whose mail the share is.
func (s *Share) Name() string { return s.name }

// AsideShares returns the shares that are set aside and have mail in the thread.
func (t *Thread) AsideShares() (shares []*Share) {
	for _, s := range t.ring.asideShares {
		for range t.eachOf(s) {
			if s.aside && !slices.Contains(shares, s) {
				shares = append(shares, s)
			}
		}
	}
	return shares
}

// Turn returns the share of the vertex that Next has returned.
func (r *Ring) Turn() *Share { return r.turns.first() }

// SetAside lets the share have no turns until it is released.
func (s *Share) SetAside() {
	r := s.ring
	r.turns.remove(s)
	s.aside = true
	r.asideShares = append(r.asideShares, s)
}

// HasAsideShares reports whether shares are set aside.
func (r *Ring) HasAsideShares() bool { return len(r.asideShares) > 0 }

// OnlyAsideShares reports whether shares are set aside, and no other has a turn.
func (r *Ring) OnlyAsideShares() bool { return r.HasAsideShares() && r.turns.first() == nil }

// ReleaseShares gives those shares their turns again that were set aside and may take a session.
func (r *Ring) ReleaseShares(may func(*Share) bool) {
	r.asideShares = slices.DeleteFunc(r.asideShares, func(s *Share) bool {
		if s.aside && !may(s) {
			return false
		}
		if s.aside {
			s.aside = false
			s.enlist()
		}
		return true
	})
}

// turn returns the flow that is next in the share whose turn it is, or nil if nothing
// can be picked.
func (r *Ring) turn() *flow {
	for s := r.turns.first(); s != nil; s = r.turns.first() {
		switch f := s.next(); {
		case f != nil && s.deficit > 0:
			return f
		case f != nil:
			s.deficit += s.weight * turnVertices
			s.becomeLast()
		case s.due > 0: // for closed threads, or set aside
			r.turns.remove(s)
		default:
			r.turns.remove(s)
			s.turnKey = 0
			s.dropWhenEmpty()
		}
	}
	return nil
}

// charge counts a pick from the flow against its share, as a number of vertices. A pick that the share had
// no turn for rides on a session that no other can use, and costs nothing.
func (f *flow) charge(vertices int) {
	s := f.share
	if f.round != s.round {
		f.round, f.picks = s.round, 0
	}
	f.picks++
	if s.deficit > 0 {
		s.deficit -= vertices
	}
}

// next returns the flow with the first vertex, in the order of the job list,
// that can be picked; nil if there is none. If all threads that can be fed have
// used their quantum, a new round begins.
func (s *Share) next() *flow {
	if f := s.firstOpen(); f != nil {
		return f
	}
	if !s.newRound() {
		return nil
	}
	return s.firstOpen()
}

// firstOpen returns the same, but begins no new round. It compares the keys in
// the heaps before it looks at a flow and its thread, because those are
// scattered in memory.
func (s *Share) firstOpen() *flow {
	if len(s.sizes) > maxEmptySizes {
		s.sizes = slices.DeleteFunc(s.sizes, func(sz shareSize) bool { return sz.members == 0 })
	}
	for {
		var best *shareSize
		least := never
		for i := range s.sizes {
			if key := s.sizes[i].open.Next(); key < least {
				best, least = &s.sizes[i], key
			}
		}
		if best == nil {
			return nil
		}
		if f := best.head(); f != nil {
			return f
		}
	}
}

// first returns the flow with the first vertex of the size that can be picked
// in this round.
func (sz *shareSize) first() *flow {
	for sz.open.Len() > 0 {
		if f := sz.head(); f != nil {
			return f
		}
	}
	return nil
}

// head returns the first flow of the heap open. If its thread is closed or has
// used its quantum, head takes the flow out of the heap and returns nil.
func (sz *shareSize) head() *flow {
	f := sz.flows.At(sz.open.First())
	switch {
	case !f.thread.open:
		sz.open.Pop()
		f.park(&f.thread.parked, inParked)
	case f.hasQuantum():
		return f
	default:
		sz.open.Pop()
		f.park(&f.share.spent, inSpent)
	}
	return nil
}

// hasQuantum reports whether the thread may have another pick in this round of
// the share.
func (f *flow) hasQuantum() bool {
	return f.round != f.share.round || int(f.picks) < f.share.ring.Params.Quantum
}

// newRound begins a round. It reports whether there are threads that had used their quantum.
func (s *Share) newRound() bool {
	s.round++
	if len(s.spent) == 0 {
		return false
	}
	s.ring.queue.unpark(&s.spent, inSpent)
	return true
}
