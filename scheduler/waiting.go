package scheduler

import "zsched/scheduler/store"

// Waiting mail: the vertices of a thread that wait for their next attempt, by time.

// waitingMail is the vertices of a thread that wait.
type waitingMail struct {
	thread *thread
	times  store.Heap[instant, vertexRef] // by the end of their waits
	index  int32                          // in agenda.wakes
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
		x = &waitingMail{thread: t}
		x.times.Index = ts.s.mail.heapIndex
		t.waiting = x
	}
	x.times.Put(until, v.ref)
	ts.s.agenda.wakes.Put(x.times.Next(), x)
}

// endWait ends the wait of a vertex.
func (ts *threads) endWait(t *thread, v *vertex) {
	x := t.waiting
	x.times.Remove(v.ref)
	if x.times.Len() == 0 {
		ts.s.agenda.wakes.Remove(x)
	} else {
		ts.s.agenda.wakes.Put(x.times.Next(), x)
	}
}

// nextWake returns when the first waiting vertex is due; never: none waits.
func (t *thread) nextWake() instant {
	if t.waiting == nil {
		return never
	}
	return t.waiting.times.Next()
}

// wakeVertices ends the waits that are over, a slice at a time.
func (ts *threads) wakeVertices() {
	for n := 0; n < wakeSlice && ts.s.agenda.wakes.Next() <= ts.s.agenda.now; n++ {
		ts.s.lines.wakeVertex(ts.s.mail.vertices.At(ts.s.agenda.wakes.First().times.First()))
	}
}
