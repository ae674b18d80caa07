package scheduler

import (
	"slices"

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
//
// The scheduler keeps an open walk until the walk has reached its end. A walk
// that is abandoned earlier must be closed.
type Walk struct {
	s           *Scheduler // nil: closed
	depth       Depth
	interrupted bool

	// The cursor of a walk over everything: the current ring, whether it has
	// been returned, and its next thread. ring is nil in other walks and at the
	// end.
	ring   *ring
	shown  bool
	next   *thread
	vertex vertexRef   // the next one of a thread; 0: none is left
	ready  []view.Item // come first
}

// maxBatch bounds the recipients and agents that one batch shows, besides the bound on the
// number of items. A single item may have more: it shows what has arrived in one Step.
const maxBatch = 2000

// Walk begins a walk over everything.
func (s *Scheduler) Walk(depth Depth) *Walk {
	w := &Walk{s: s, depth: depth, ring: s.rings.inOrder.Head}
	s.mail.walks = append(s.mail.walks, w)
	return w
}

// WalkThread begins a walk over the vertices of one thread.
func (s *Scheduler) WalkThread(channel, host string) *Walk {
	w := &Walk{s: s, depth: Vertices}
	if t := s.threads.byKey[threadKey{channel, host}]; t != nil {
		w.enter(t)
	}
	s.mail.walks = append(s.mail.walks, w)
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

// Close ends a walk before its end. Closing it twice does nothing.
func (w *Walk) Close() {
	if w.s != nil {
		w.s.mail.walks = slices.DeleteFunc(w.s.mail.walks, func(other *Walk) bool { return other == w })
		w.s = nil
	}
}

// Interrupted reports whether a reload has ended the walk before its end.
func (w *Walk) Interrupted() bool { return w.interrupted }

// Next returns the next items: at most n, and no more than can be converted
// quickly. more is false at the end; the walk is then closed.
func (w *Walk) Next(n int) (items []view.Item, more bool) {
	for shown := 0; len(items) < n && shown < maxBatch; {
		if w.s == nil {
			return items, false
		}
		item := w.nextItem()
		switch {
		case item.Thread != nil:
			shown += len(item.Thread.Agents)
		case item.JobLine != nil:
			shown += len(item.JobLine.Recipients)
		case item.Ring == nil:
			w.Close()
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
		case w.vertex != 0:
			v := w.s.mail.vertices.At(w.vertex)
			w.vertex = w.s.mail.threadLinks(w.vertex).Next
			return w.s.views.visitVertex(v)
		case w.next != nil:
			t := w.next
			w.next = w.ring.members.Next(t)
			return w.visitThread(t)
		case w.ring == nil:
			return view.Item{}
		case !w.shown:
			w.shown = true
			if w.depth > Rings {
				w.next = w.ring.members.Head
			}
			return view.Item{Ring: w.s.views.viewRing(w.ring)}
		default:
			w.toRing(w.s.rings.inOrder.Next(w.ring))
		}
	}
}

// visitThread returns a thread and makes its vertices the next items.
func (w *Walk) visitThread(t *thread) view.Item {
	w.enter(t)
	return view.Item{Thread: w.s.views.viewThread(t)}
}

func (w *Walk) enter(t *thread) {
	if w.depth == Vertices {
		w.vertex = t.vertices.Head
	}
}

// visitVertex returns a vertex with its recipients that are not done.
func (vi *views) visitVertex(v *vertex) view.Item {
	line := vi.viewVertex(v)
	if line.NotLoaded > 0 {
		return view.Item{JobLine: line}
	}
	for i := range vi.s.mail.lenOf(v) {
		if r := vi.s.mail.recipient(v, i); r.state != done {
			line.Recipients = append(line.Recipients, vi.viewRecipient(r))
		}
	}
	return view.Item{JobLine: line}
}

func (w *Walk) toRing(r *ring) { w.ring, w.shown, w.next = r, false, nil }

// interruptWalks ends the walks over everything at a reload.
func (vi *views) interruptWalks() {
	for _, w := range slices.Clone(vi.s.mail.walks) {
		if w.ring != nil && w.depth > Rings {
			w.interrupted = true
			w.Close()
		}
	}
}

// The scheduler tells each open walk when something leaves the queue.

func (w *Walk) vertexLeaves(v vertexRef) {
	if w.vertex == v {
		w.vertex = w.s.mail.threadLinks(v).Next
	}
}

// threadLeaves: the thread leaves its ring. Its vertices are still returned if
// the walk has reached them.
func (w *Walk) threadLeaves(t *thread) {
	if w.next == t {
		w.next = w.ring.members.Next(t)
	}
}

// ringLeaves: the ring, which has no threads, is dropped.
func (w *Walk) ringLeaves(r *ring) {
	if w.ring == r {
		w.toRing(w.s.rings.inOrder.Next(r))
	}
}
