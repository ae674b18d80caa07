package scheduler

import "slices"

// Depth is how far down a Walk goes.
type Depth uint8

const (
	Rings    Depth = iota + 1
	Threads        // with their rings
	Vertices       // with their threads and rings
)

// Item is one thing that a Walk comes by: one of the three is set.
type Item struct {
	Ring   *RingView
	Thread *ThreadView
	Vertex *VertexView
}

// Walk goes over the queue in slices, so that the queue can go on in between:
// rings in the order of making, under each its threads in the order of joining
// it (which is that of making, unless a reload has moved some), under each its
// vertices in the order of linking. What is there from the first slice to the
// last comes by exactly once; what comes or goes meanwhile may or may not. A
// ring comes by again in front of a thread that a reload has moved to where
// the walk had been already.
//
// The scheduler keeps an open walk until it has come to its end. One that is
// given up before must be closed.
type Walk struct {
	s     *Scheduler // nil: closed
	depth Depth

	// A walk over everything: the ring under way, whether it has come by
	// itself, and the next of its threads. No ring: only owed are left.
	ring  *ring
	begun bool
	next  *thread
	// What a reload has moved: threads that have not come by and now stand
	// where the walk has been, and those that have and stand before it.
	owed []*thread
	seen map[*thread]bool

	vertex *vertex // the next of its thread
	// Instead, a message whose vertices come by.
	message *message
	index   int // among its vertices
	part    part
}

// part is where a vertex of very many recipients goes on.
type part struct {
	index  int // of the next recipient
	before int // how many have come by
}

const (
	// walkMost bounds the recipients and agents that one slice shows, beside
	// the number of items.
	maxSlice = 2000
	// partMost is how many recipients an item has at most.
	maxPart = 500
)

// Walk begins a walk over everything.
func (s *Scheduler) Walk(depth Depth) *Walk {
	w := &Walk{s: s, depth: depth, ring: s.order.head}
	if w.ring == nil {
		w.ring = &s.orphans
	}
	s.walks = append(s.walks, w)
	return w
}

// WalkThread begins a walk over the vertices of one thread.
func (s *Scheduler) WalkThread(channel, host string) *Walk {
	w := &Walk{s: s, depth: Vertices}
	if t := s.threads[threadKey{channel, host}]; t != nil {
		w.enter(t)
	}
	s.walks = append(s.walks, w)
	return w
}

// WalkMessage begins a walk over the vertices of one message.
func (s *Scheduler) WalkMessage(id MessageID) *Walk {
	w := &Walk{s: s, depth: Vertices, message: s.message(id)}
	s.walks = append(s.walks, w)
	return w
}

// Close gives up a walk. Closing it twice does nothing.
func (w *Walk) Close() {
	if w.s != nil {
		w.s.walks = slices.DeleteFunc(w.s.walks, func(other *Walk) bool { return other == w })
		w.s = nil
	}
}

// Next returns what comes next, at most n items and no more than can be shown
// quickly. It reports whether there may be more; when not, the walk is closed.
func (w *Walk) Next(n int) (items []Item, more bool) {
	for shown := 0; len(items) < n && shown < maxSlice; {
		if w.s == nil {
			return items, false
		}
		item := w.nextItem()
		switch {
		case item.Thread != nil:
			shown += len(item.Thread.Agents)
		case item.Vertex != nil:
			shown += len(item.Vertex.Recipients)
		case item.Ring == nil:
			w.Close()
			return items, false
		}
		items = append(items, item)
	}
	return items, true
}

// one returns the next item, an empty one at the end.
func (w *Walk) nextItem() Item {
	switch {
	case w.message != nil:
		return w.nextOfMessage()
	case w.vertex != nil:
		v := w.vertex
		item := w.visitVertex(v)
		if w.part.index == 0 {
			w.vertex = w.s.vertices.get(v.next)
		}
		return item
	case w.next != nil:
		return w.visitThread()
	case w.ring == nil:
		return w.repay()
	case !w.begun:
		return w.visitRing()
	}
	w.toRing(w.s.ringAfter(w.ring))
	return w.nextItem()
}

// meetRing shows the ring. The threads without one are shown if there are any.
func (w *Walk) visitRing() Item {
	r := w.ring
	w.begun = true
	if w.depth > Rings {
		w.next = r.members.head
	}
	if r == &w.s.orphans && r.members.len == 0 {
		return w.nextItem()
	}
	return Item{Ring: w.s.viewRing(r)}
}

// meet shows the next thread, unless it came by where it was before.
func (w *Walk) visitThread() Item {
	t := w.next
	w.next = w.ring.members.next(t)
	if w.seen[t] {
		delete(w.seen, t)
		return w.nextItem()
	}
	w.enter(t)
	return Item{Thread: w.s.viewThread(t)}
}

// repay shows the threads that a reload has moved behind the walk, each with
// its ring in front.
func (w *Walk) repay() Item {
	if len(w.owed) == 0 {
		return Item{}
	}
	if !w.begun {
		w.begun = true
		return Item{Ring: w.s.viewRing(w.owed[0].memberOf)}
	}
	t := w.owed[0]
	w.owed, w.begun = w.owed[1:], false
	w.enter(t)
	return Item{Thread: w.s.viewThread(t)}
}

func (w *Walk) enter(t *thread) {
	if w.depth == Vertices {
		w.vertex, w.part = w.s.vertices.get(t.vertices.head), part{}
	}
}

// ofMessage shows the message's next vertex.
func (w *Walk) nextOfMessage() Item {
	for {
		v := w.s.nthVertex(w.message, w.index)
		switch {
		case v == nil:
			return Item{}
		case v.state == 0:
			w.index++
			w.part = part{}
			continue
		}
		item := w.visitVertex(v)
		if w.part.index == 0 {
			w.index++
		}
		return item
	}
}

// show is a vertex, or the next part of it.
func (w *Walk) visitVertex(v *vertex) Item {
	view := w.s.viewVertex(v)
	view.First = w.part.before
	i := w.part.index
	for ; i < v.len() && len(view.Recipients) < maxPart; i++ {
		if r := w.s.recipient(v, i); r.state != done {
			view.Recipients = append(view.Recipients, w.s.viewRecipient(r))
		}
	}
	w.part = part{i, w.part.before + len(view.Recipients)}
	if i == v.len() {
		w.part = part{}
	}
	return Item{Vertex: view}
}

func (w *Walk) toRing(r *ring) { w.ring, w.begun, w.next = r, false, nil }

// ringAfter returns the ring made after this one, in the end the one that
// stands for none.
func (s *Scheduler) ringAfter(r *ring) *ring {
	if r == &s.orphans {
		return nil
	}
	if next := s.order.next(r); next != nil {
		return next
	}
	return &s.orphans
}

// passVertex is told of a vertex that leaves.
func (w *Walk) passVertex(v *vertex) {
	if w.vertex == v {
		w.vertex, w.part = w.s.vertices.get(v.next), part{}
	}
}

// passThread is told of a thread that leaves its ring. Its vertices go on
// coming by.
func (w *Walk) passThread(t *thread) {
	if w.next == t {
		w.next = w.ring.members.next(t)
	}
}

// passRing is told of a ring that leaves, which has no threads.
func (w *Walk) passRing(r *ring) {
	if w.ring == r {
		w.toRing(w.s.ringAfter(r))
	}
}

// passMessage is told of a message that leaves.
func (w *Walk) passMessage(m *message) {
	if w.message == m {
		w.message = nil
	}
}

// leaveThread is told of a thread that leaves for good.
func (w *Walk) leaveThread(t *thread) {
	delete(w.seen, t)
	w.forgive(t)
}

// forgive takes a thread off those that are owed.
func (w *Walk) forgive(t *thread) {
	i := slices.Index(w.owed, t)
	if i < 0 {
		return
	}
	if i == 0 && w.ring == nil {
		w.begun = false // the next one's ring is another
	}
	w.owed = slices.Delete(w.owed, i, i+1)
}

// behind reports whether the walk has been where the thread stands.
func (w *Walk) behind(t *thread) bool {
	switch {
	case w.ring == nil:
		return true
	case t.memberOf != w.ring:
		return t.memberOf.id < w.ring.id
	case !w.begun:
		return false
	}
	return w.next == nil || t.sequence < w.next.sequence
}

// seenBy returns the walks that a thread has come by, before a reload moves it.
func (s *Scheduler) seenBy(t *thread) []*Walk {
	if t.memberOf == nil {
		return nil
	}
	var seen []*Walk
	for _, w := range s.walks {
		if w.seen[t] || w.behind(t) && !slices.Contains(w.owed, t) {
			seen = append(seen, w)
		}
	}
	return seen
}

// moved has the walks come by a thread that has moved once and no more.
func (s *Scheduler) moved(t *thread, seenBy []*Walk) {
	for _, w := range s.walks {
		delete(w.seen, t)
		w.forgive(t)
		seen, behind := slices.Contains(seenBy, w), w.behind(t)
		switch {
		case w.depth == Rings:
		case !seen && behind:
			w.owed = append(w.owed, t)
		case seen && !behind:
			if w.seen == nil {
				w.seen = make(map[*thread]bool)
			}
			w.seen[t] = true
		}
	}
}
