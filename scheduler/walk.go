package scheduler

import (
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// Walks: how a query goes through the queue a part at a time.

// Depth says how far down a Walk goes.
type Depth uint8

const (
	Rings    Depth = iota + 1
	Threads        // rings and their threads
	Vertices       // rings, their threads and the threads' vertices
)

// Walk goes through the queue a batch at a time (Next), so that the scheduler can
// work in between. It returns the rings in the order in which they were made; after
// each ring its threads in the order in which they joined it; after each
// thread its vertices in the order in which they were linked.
//
// A thread or vertex that is in the queue from the first batch to the last is
// returned exactly once. Whatever arrives or leaves in between may or may not
// be returned. A message is returned as it was when the walk began.
//
// A reload interrupts a walk over everything: the threads may be in other rings then. Such a walk
// has come to its end, and Interrupted says so.
type Walk struct {
	s           *Scheduler
	depth       Depth
	config      *rule.Config // when the walk began
	interrupted bool

	// The cursor of a walk over everything: the current ring, whether it has
	// been returned, and its next thread. ring is nil in other walks and at the
	// end. What has left the queue in between still leads to the next (List.Remove).
	ring  *ring
	shown bool
	next  *thread
	// thread is the one whose vertices are next, from the message with that sequence on.
	// vertex has that if it has not left; 0: none is left.
	thread   *thread
	vertex   vertexRef
	sequence int64
	ready    []view.Item // come first
}

// maxBatch bounds the recipients and agents that one batch shows, besides the bound on the
// number of items. A single item may have more: it shows what has arrived in one Step.
const maxBatch = 2000

// Walk begins a walk over everything.
func (s *Scheduler) Walk(depth Depth) *Walk {
	return &Walk{s: s, depth: depth, config: s.rules.config, ring: s.rings.inOrder.Head}
}

// WalkThread begins a walk over the vertices of one thread.
func (s *Scheduler) WalkThread(channel, host string) *Walk {
	w := &Walk{s: s, depth: Vertices}
	if t := s.threads.byKey[threadKey{channel, host}]; t != nil {
		w.enter(t)
	}
	return w
}

// WalkMessage begins a walk over the vertices of one message.
func (s *Scheduler) WalkMessage(id MessageID) *Walk {
	w := &Walk{s: s, depth: Vertices}
	if m := s.mail.message(id); m != nil {
		for _, v := range s.mail.openVertices(m) {
			w.ready = append(w.ready, s.views.visitVertex(v))
		}
	}
	return w
}

// Interrupted reports whether a reload has ended the walk before its end.
func (w *Walk) Interrupted() bool { return w.interrupted }

// Next returns the next items: at most n, and no more than can be converted
// quickly. more is false at the end.
func (w *Walk) Next(n int) (items []view.Item, more bool) {
	if w.ring != nil && w.depth > Rings && w.config != w.s.rules.config {
		w.interrupted = true
		return nil, false
	}
	for shown := 0; len(items) < n && shown < maxBatch; {
		item := w.nextItem()
		switch {
		case item.Thread != nil:
			shown += len(item.Thread.Agents)
		case item.JobLine != nil:
			shown += len(item.JobLine.Recipients)
		case item.Ring == nil:
			return items, false
		}
		items = append(items, item)
	}
	return items, true
}

// nextItem returns the next item, or an empty one at the end.
func (w *Walk) nextItem() view.Item {
	for {
		switch {
		case len(w.ready) > 0:
			item := w.ready[0]
			w.ready = w.ready[1:]
			return item
		case w.vertex != 0 && !w.isAt(w.vertex):
			w.find()
		case w.vertex != 0:
			v := w.s.mail.vertices.At(w.vertex)
			w.setVertex(v.Next)
			return w.s.views.visitVertex(v)
		case w.next != nil:
			t := w.next
			w.next = t.memberLinks.Next
			if t.ring == w.ring {
				w.enter(t)
				return view.Item{Thread: w.s.views.viewThread(t)}
			}
		case w.ring == nil:
			return view.Item{}
		case !w.shown && !w.ring.dropped:
			w.shown = true
			if w.depth > Rings {
				w.next = w.ring.members.Head
			}
			return view.Item{Ring: w.s.views.viewRing(w.ring)}
		default:
			w.ring, w.shown = w.ring.inOrder.Next, false
		}
	}
}

// enter makes the vertices of a thread the next items.
func (w *Walk) enter(t *thread) {
	if w.depth == Vertices {
		w.thread = t
		w.setVertex(t.vertices.Head)
	}
}

// setVertex makes a vertex of the thread the next item; 0: none.
func (w *Walk) setVertex(ref vertexRef) {
	if w.vertex = ref; ref != 0 {
		w.sequence = w.s.mail.messageOf(w.s.mail.vertices.At(ref)).sequence
	}
}

// isAt reports whether a vertex is the next item and has not left.
func (w *Walk) isAt(ref vertexRef) bool {
	v := w.s.mail.vertices.At(ref)
	return v.state != 0 && v.thread == w.thread.ref && w.s.mail.messageOf(v).sequence == w.sequence
}

// find makes the vertex the next item that came after the one that has left. The vertices of a
// thread are in the order of their messages.
func (w *Walk) find() {
	ref := w.thread.vertices.Head
	for ref != 0 && w.s.mail.messageOf(w.s.mail.vertices.At(ref)).sequence < w.sequence {
		ref = w.thread.vertices.Next(ref)
	}
	w.setVertex(ref)
}

// visitVertex returns a vertex with its recipients that are not done.
func (vi *views) visitVertex(v *vertex) view.Item {
	line := vi.viewVertex(v)
	for i := range vi.s.mail.lenOf(v) {
		if r := vi.s.mail.recipient(v, i); r.state != done {
			line.Recipients = append(line.Recipients, vi.viewRecipient(r))
		}
	}
	return view.Item{JobLine: line}
}
