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
// thread its vertices in the order in which they were linked. WalkMessages has the vertices message by
// message.
//
// A thread or vertex that is in the queue from the first batch to the last is
// returned exactly once. Whatever arrives or leaves in between may or may not
// be returned. The recipients of a vertex that is very large come from several batches, and it is
// returned with the last of them.
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
	ofOne    []vertexRef // in a walk by message: what comes next of the message with that sequence
	// In a walk over all messages: the message that came last, and the last to come.
	message, until messageRef

	// The job line that is begun, its vertex, of the message with that sequence, and its next recipient.
	line         *view.JobLine // nil: none
	lineVertex   vertexRef
	lineSequence int64
	recipient    int
}

// maxBatch bounds the recipients and agents that one batch shows, besides the bound on the
// number of items.
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
		w.enterMessage(m)
	}
	return w
}

// WalkMessages begins a walk over the vertices of all messages, one message after the other. A reload
// does not interrupt it.
func (s *Scheduler) WalkMessages() *Walk {
	return &Walk{s: s, depth: Vertices, until: s.mail.messages.Last}
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
			n, whole := w.addRecipients(item.JobLine, maxBatch-shown)
			if !whole {
				w.line = item.JobLine
				return items, true
			}
			shown += n
		case item.Ring == nil:
			return items, len(w.ofOne) > 0 || w.message < w.until
		}
		items = append(items, item)
	}
	return items, true
}

// nextItem returns the next item. An empty one is the end or, in a walk over all messages, a pause:
// many of them may have left.
func (w *Walk) nextItem() view.Item {
	for {
		switch {
		case w.line != nil:
			line := w.line
			w.line = nil
			return view.Item{JobLine: line}
		case len(w.ofOne) > 0:
			v := w.s.mail.vertices.At(w.ofOne[0])
			w.ofOne = w.ofOne[1:]
			if w.isOf(v, w.sequence) {
				return w.visit(v)
			}
		case w.vertex != 0 && !w.isAt(w.vertex):
			w.find()
		case w.vertex != 0:
			v := w.s.mail.vertices.At(w.vertex)
			w.setVertex(v.Next)
			return w.visit(v)
		case w.next != nil:
			t := w.next
			w.next = t.memberLinks.Next
			if t.ring == w.ring {
				w.enter(t)
				return view.Item{Thread: w.s.views.viewThread(t)}
			}
		case w.message < w.until:
			w.message++
			w.enterMessage(w.s.mail.messages.At(w.message))
			if w.message%maxBatch == 0 {
				return view.Item{}
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

// enterMessage makes the vertices of a message the next items; those of a message that has left are none.
func (w *Walk) enterMessage(m *message) {
	if m.first == 0 {
		return
	}
	w.sequence, w.ofOne = m.sequence, []vertexRef{m.first}
	if x := w.s.mail.extrasOf(m); x != nil {
		w.ofOne = append(w.ofOne, x.vertices...)
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
	return w.isOf(v, w.sequence) && v.thread == w.thread.ref
}

// isOf reports whether a vertex is one of the message with that sequence, and has not left.
func (w *Walk) isOf(v *vertex, sequence int64) bool {
	return v.state != 0 && w.s.mail.messageOf(v).sequence == sequence
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

// visit begins the job line of a vertex.
func (w *Walk) visit(v *vertex) view.Item {
	w.lineVertex, w.lineSequence, w.recipient = v.ref, w.s.mail.messageOf(v).sequence, 0
	line := w.s.views.viewVertex(v)
	line.Recipients = make([]view.Recipient, 0, w.s.mail.openOf(v))
	return view.Item{JobLine: line}
}

// addRecipients adds to the job line that is begun recipients that are not done, at most so many. It
// returns how many, and whether the line is whole. A vertex that has left has no more.
func (w *Walk) addRecipients(line *view.JobLine, most int) (n int, whole bool) {
	v := w.s.mail.vertices.At(w.lineVertex)
	if !w.isOf(v, w.lineSequence) {
		return 0, true
	}
	for ; w.recipient < w.s.mail.lenOf(v); w.recipient++ {
		r := w.s.mail.recipient(v, w.recipient)
		switch {
		case r.state == done:
		case n == most:
			return n, false
		default:
			line.Recipients = append(line.Recipients, w.s.views.viewRecipient(r))
			n++
		}
	}
	return n, true
}
