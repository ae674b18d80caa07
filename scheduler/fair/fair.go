// Package fair decides which of the mail that is due is sent next. It knows no mail: only
// vertices, each by its number; whose share a vertex is in; and which vertices belong to one
// message.
//
//	q := fair.New(mail)
//	ring := q.NewRing(params, wake)
//	thread.SetRing(ring)
//	q.Put(&thread, v, share)       v is due
//	thread.SetOpen(true)           the thread may take a session
//	v := ring.Next()               whose turn it is
//	p := ring.Preempt(v, may)      what overtakes it
//	ring.Take(p)                   it is fed, and no longer due
//	q.Remove(v)                    it is no longer due for another reason
//
// # What is there
//
//	ring ──< share ──< size ──< flow >── thread
//	  └────< job                  └──< vertex
//
// The shares of a ring take turns by deficit round robin (share.go). The due vertices of one
// message in a ring are its job, and those of a share are in the order of its job list. In each
// round of a share, each flow has as many picks as the quantum says. A flow has the due vertices of
// one thread in one share whose jobs have the same size, so that the first vertex of each size
// is found without a search (flow.go). A job with few vertices overtakes one with many that has
// earned slots (preempt.go).
//
// A thread that can take no session is closed: picks do not find its flows. A vertex whose message
// may take no new session is set aside, and so is a share that may take none. Their vertices can still
// be fed to sessions that their threads already have ("ride" on them): Stay finds them, and Next does not.
package fair

import (
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Vertex is the number of a vertex; 0: none.
type Vertex uint32

// Place is where a vertex keeps its place.
type Place struct {
	flow flowRef // 0: it is in no queue
	// Index is its place in a heap of its flow. While the vertex is in no queue, the caller may use
	// it for a heap of its own. It is 0 when the vertex is put.
	Index int32
}

// Queued reports whether the vertex was put into a queue, and not removed or taken.
func (p *Place) Queued() bool { return p.flow != 0 }

// Mail tells what the package must know about vertices and shares.
type Mail interface {
	// Place returns the place that a vertex keeps.
	Place(Vertex) *Place
	// Message returns what is to be known about the message of a vertex.
	Message(Vertex) Message
	// Age is how old that message is, in seconds.
	Age(Vertex) float64
	// EachInRing calls f for each vertex of a message in the ring that has not left.
	EachInRing(message uint32, r *Ring, f func(Vertex))
	// Weight returns how many turns a share has in each round; 1 is usual.
	Weight(share string) int
}

// Message is what is known about the message of a vertex.
type Message struct {
	Number     uint32
	Sequence   int64  // its place in the order of loading
	ModifiedAt int64  // its place in the order of age
	Ordinal    uint16 // of the vertex, in the message
	Recipients int    // of the vertex
	Jobs       *Jobs  // nil: it has no other vertex
}

// Key is a place in an order.
type Key int64

const never Key = 1<<63 - 1

// Queue has the due vertices of all rings.
type Queue struct {
	mail  Mail
	flows store.Slab[flowRef, flow]
	// chains is a hash table of the flows, by thread and share: the first of each chain. It has two
	// or more chains for each flow.
	chains store.Slab[chainRef, flowRef]
	// Where a flow and a vertex keep their places in heaps.
	flowPlace   func(flowRef) *int32
	vertexPlace func(Vertex) *int32
}

// New returns an empty queue.
func New(mail Mail) *Queue {
	q := &Queue{mail: mail}
	q.chains.Alloc()
	q.flowPlace, q.vertexPlace = q.placeOfFlow, q.placeOfVertex
	return q
}

func (q *Queue) placeOfFlow(n flowRef) *int32 { return &q.flows.At(n).heapIndex }

func (q *Queue) placeOfVertex(v Vertex) *int32 { return &q.mail.Place(v).Index }

// Ring is what is due in a ring.
type Ring struct {
	// Params has the quantum and the settings of preemption. A change of ageorder is for
	// vertices that are put afterwards.
	Params *rule.Params

	queue     *Queue
	wake      func()            // called when vertices that are set aside may be released
	shares    map[string]*Share // by name; those with due mail, and those that still take turns
	spare     store.Spare[Share]
	lastShare uint64 // last share.number that was given
	turns     turns  // the shares that take turns now
	lastTurn  Key    // last share.turnKey that was given
	aside     []*Job // with vertices that are set aside
	// asideShares has the shares that are set aside, and some that no longer are.
	asideShares []*Share
}

// NewRing returns a ring without mail.
func (q *Queue) NewRing(p *rule.Params, wake func()) *Ring {
	r := &Ring{Params: p, queue: q, wake: wake, shares: make(map[string]*Share)}
	r.turns.back.Index = func(s *Share) *int32 { return &s.turnIndex }
	r.turns.line.Of = func(s *Share) *store.Links[*Share] { return &s.links }
	return r
}

// Reweigh gives all shares their weights again.
func (r *Ring) Reweigh() {
	for name, s := range r.shares {
		s.weight = r.queue.mail.Weight(name)
	}
}

// Thread is what is due in a thread. It must have a ring before it has mail.
type Thread struct {
	ring   *Ring
	Number uint32    // should be that of no other thread, so that flows are found fast
	n      int32     // vertices
	parked []flowRef // of flows that picks do not find until the thread opens
	aside  int32     // vertices that are set aside
	open   bool
}

// Len is how many vertices are due.
func (t *Thread) Len() int { return int(t.n) }

// Pickable is how many vertices may take a new session.
func (t *Thread) Pickable() int { return int(t.n - t.aside) }

// IsOpen reports whether picks find the thread.
func (t *Thread) IsOpen() bool { return t.open }

// SetRing moves a thread, which must have no mail, into a ring. It is open until SetOpen says more.
func (t *Thread) SetRing(r *Ring) {
	t.open = true
	t.parked = nil
	t.ring = r
}

// SetOpen says whether the thread may take another session. Picks pass over one that may not,
// because it is full or suspended.
func (t *Thread) SetOpen(open bool) {
	t.open = open
	if open && len(t.parked) > 0 {
		t.ring.queue.unpark(&t.parked, inParked)
	}
}

// Put adds a due vertex to the share with that name in a thread.
func (q *Queue) Put(t *Thread, v Vertex, name string) {
	m := q.mail.Message(v)
	s := t.ring.obtainShare(name)
	var j *Job
	size := int32(1)
	if m.Jobs != nil {
		j = m.Jobs.enlist(s, &m)
		size = j.size
	}
	f := q.obtainFlow(t, s, size)
	q.put(f, t.ring.key(&m, j), v)
	q.mail.Place(v).flow = f.ref
	t.n++
	s.due++
	f.relink()
}

// Remove removes a vertex if it is queued.
func (q *Queue) Remove(v Vertex) {
	p := q.mail.Place(v)
	if p.flow == 0 {
		return
	}
	f := q.flows.At(p.flow)
	q.unlink(v, f, q.jobOf(v, f.share.ring))
	p.flow = 0
}

// unlink takes a vertex out of its flow and its job, which is nil if its message has no other.
func (q *Queue) unlink(v Vertex, f *flow, j *Job) {
	if f.hasAside(v) {
		f.extras.aside.Remove(v)
		f.thread.aside--
	} else {
		f.remove(v)
		f.relink()
	}
	f.thread.n--
	f.share.due--
	if j != nil {
		if j.due--; j.due == 0 {
			j.leaveList()
		}
	}
	if f.len() == 0 {
		q.dropFlow(f)
	}
}
