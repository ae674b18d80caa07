package scheduler

import "zsched/scheduler/store"

// Waiting mail: the vertices of a thread that wait for their next attempt, by time.

// waitingMail is the vertices of a thread that wait.
type waitingMail struct {
	times store.Heap[instant, vertexRef] // by the end of their waits
	wake  timer                          // the first of them
}

// wakeAt returns the end of the wait of a vertex; 0: it does not wait.
func (ts *threads) wakeAt(v *vertex) instant {
	if v.state != waiting {
		return 0
	}
	return ts.s.mail.threadOf(v).waiting.times.KeyOf(v.ref)
}

// beginWait makes a vertex wait until a time.
func (ts *threads) beginWait(t *thread, v *vertex, until instant) {
	x := t.waiting
	if x == nil {
		x = new(waitingMail)
		x.times.Index = ts.s.mail.heapIndex
		x.wake.due = func() { ts.s.lines.wakeVertex(ts.s.mail.vertices.At(x.times.First())) }
		t.waiting = x
	}
	x.times.Put(until, v.ref)
	ts.s.agenda.plan(&x.wake, x.times.Next())
}

// endWait ends the wait of a vertex.
func (ts *threads) endWait(t *thread, v *vertex) {
	t.waiting.times.Remove(v.ref)
	ts.s.agenda.plan(&t.waiting.wake, t.waiting.times.Next())
}

// nextWake returns when the first waiting vertex is due; never: none waits.
func (t *thread) nextWake() instant {
	if t.waiting == nil {
		return never
	}
	return t.waiting.times.Next()
}
