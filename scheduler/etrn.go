package scheduler

// ETRN and queueonly: delivery of the mail for a host begins on request. Also
// the bulk updates that this needs: changes to all vertices of a thread, a batch
// at a time.

// triggered makes the mail for a host due now, on each channel, whether or not
// it is waiting or queueonly (ETRN, RFC 1985). A queueonly thread begins a run,
// in which everything is tried once; what is deferred waits for the next run.
func (q *queue) triggered(host string) {
	for _, c := range q.channelOrder {
		t := q.threads[threadKey{c.name, host}]
		if t == nil || t.held || q.holdOrders.suspended[t.key] != nil {
			continue
		}
		if t.params.QueueOnly && t.busy > 0 { // in the middle of a run
			continue
		}
		if t.suspendedUntil != 0 {
			t.undoRetryStep()
			t.suspendedUntil = q.now
		}
		q.liftRuleSuspensions(t)
		if t.params.QueueOnly && !t.running {
			// What has waited for the next run belongs to this run.
			t.running = true
		}
		q.beginUpdate(t, wakeWaiting)
	}
}

// HasMail reports whether there is mail for a host, on any channel, that a
// Triggered event would make due.
func (s *Scheduler) HasMail(host string) bool {
	for _, c := range s.channelOrder {
		if t := s.threads[threadKey{c.name, host}]; t != nil && !t.isEmpty() && !t.isHeld() && s.holdOrders.suspended[t.key] == nil {
			return true
		}
	}
	return false
}

// bulkUpdate is a change to all vertices of a thread. It is carried out a batch
// at a time, so that agents are answered in between.
type bulkUpdate uint8

const (
	wakeWaiting bulkUpdate = 1 << iota // waiting vertices are due now
	releaseHeld                        // the thread was held
	pullForward                        // vertices that failed with the destination are due now
	unloadIdle                         // idle messages may be unloaded
)

// beginUpdate begins a bulk update. An unfinished one starts again together
// with it.
func (q *queue) beginUpdate(t *thread, e bulkUpdate) {
	t.updates |= e
	q.updateStubsInBulk(t, e)
	t.nextUpdate = t.vertices.Head
	q.resumeThread(t)
}

func (q *queue) updateVertex(v *vertex) {
	t := q.threadOf(v)
	if t.updates&releaseHeld != 0 {
		q.releaseHeldVertex(v)
	}
	if t.updates&unloadIdle != 0 {
		q.considerUnloading(q.messageOf(v))
	}
	switch {
	case v.state == due && t.updates&wakeWaiting != 0 && !v.place.Queued():
		q.enqueueVertex(t, v)
	case v.state != waiting:
	case t.updates&wakeWaiting != 0:
		v.undoRetryStep()
		q.makeDue(v)
	case t.updates&pullForward != 0 && v.destinationFailed:
		q.makeDue(v)
	}
}

// resumeThread ends a suspension, or continues the bulk updates. It returns how
// many vertices it updated.
func (q *queue) resumeThread(t *thread) int {
	if t.suspendedUntil != 0 && t.suspendedUntil <= q.now {
		t.suspendedUntil = 0
		t.suspensions++
	}
	t.setSessionCap(false)
	n := 0
	for ; n < wakeSlice && t.nextUpdate != 0; n++ {
		ref := t.nextUpdate
		t.nextUpdate = t.vertices.Next(ref)
		q.updateVertex(q.vertices.At(ref))
	}
	q.planResume(t)
	q.updateThread(t)
	return n
}

// planResume puts a thread into the agenda at the time when its bulk updates
// continue or its suspension ends.
func (ag *agenda) planResume(t *thread) {
	if t.resume.due == nil { // most threads never need it
		t.resume.due = func(s *Scheduler) { s.work += s.resumeThread(t) }
	}
	switch {
	case t.nextUpdate != 0:
		ag.plan(&t.resume, ag.now)
		return
	case t.suspendedUntil != 0:
		ag.plan(&t.resume, t.suspendedUntil)
	default:
		ag.plan(&t.resume, never)
	}
	t.updates = 0
}
