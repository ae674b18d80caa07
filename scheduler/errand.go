package scheduler

// errand is something to be done with all vertices of a thread, so many at a
// time that agents are heard in between.
type bulkUpdate uint8

const (
	wakeWaiting bulkUpdate = 1 << iota // what waits is due now
	releaseHeld                        // the thread was held
)

// send begins an errand. One that is under way begins again with it.
func (q *queue) beginUpdate(t *thread, e bulkUpdate) {
	t.updates |= e
	t.nextUpdate = t.vertices.head
	q.resumeThread(t)
}

func (q *queue) updateVertex(v *vertex) {
	t := q.threadOf(v)
	if t.updates&releaseHeld != 0 {
		q.releaseHeldVertex(v)
	}
	if t.updates&wakeWaiting != 0 && v.state == waiting {
		q.makeDue(v)
	}
}

// resume ends a suspension, or goes on with the errands, and returns how
// many vertices that went over.
func (q *queue) resumeThread(t *thread) int {
	if t.suspendedUntil != 0 && t.suspendedUntil <= q.now {
		t.suspendedUntil = 0
		t.suspensions++
	}
	t.setSessionCap(false)
	n := 0
	for ; n < wakeSlice && t.nextUpdate != 0; n++ {
		v := q.vertices.at(t.nextUpdate)
		t.nextUpdate = v.next
		q.updateVertex(v)
	}
	q.planResume(t)
	q.updateThread(t)
	return n
}

// planResume puts a thread into the agenda at the time when its errands go on,
// or its suspension ends.
func (ag *agenda) planResume(t *thread) {
	switch {
	case t.nextUpdate != 0:
		ag.resumes.put(ag.now, t)
		return
	case t.suspendedUntil != 0:
		ag.resumes.put(t.suspendedUntil, t)
	default:
		ag.resumes.remove(t)
	}
	t.updates = 0
}

// trigger starts the mail of a host now, whatever its channel, its waiting
// times and queueonly say (ETRN, RFC 1985).
func (q *queue) triggered(host string) {
	for _, c := range q.channelOrder {
		t := q.threads[threadKey{c.name, host}]
		if t == nil || t.held {
			continue
		}
		if t.params.QueueOnly && t.busy > 0 { // in the middle of a run
			continue
		}
		if t.suspendedUntil != 0 {
			t.suspendedUntil = q.now
		}
		if t.params.QueueOnly && !t.running {
			// All that waits is tried once; what is deferred waits for the
			// next run.
			t.running = true
			t.active = 1 - t.active
		}
		q.beginUpdate(t, wakeWaiting)
	}
}
