package scheduler

// ETRN and queueonly: delivery of the mail for a host begins on request. Also
// the bulk updates that this needs: changes to all vertices of a thread, a batch
// at a time.

// triggered makes the mail for a host due now, on each channel, whether or not
// it is waiting or queueonly (ETRN, RFC 1985). A queueonly thread begins a run,
// in which everything is tried once; what is deferred waits for the next run.
func (ts *threads) triggered(host string) {
	for _, t := range ts.ofHost(host) {
		if t.params.QueueOnly && t.busy() > 0 { // in the middle of a run
			continue
		}
		ts.s.orders.retryThread(t) // what has waited for the next run belongs to this run
		ts.beginUpdate(t, wakeWaiting)
	}
}

// ofHost returns the threads of a host that have mail and are not held.
func (ts *threads) ofHost(host string) (found []*thread) {
	for _, c := range ts.s.limits.channelOrder {
		if t := ts.byKey[threadKey{c.name, host}]; t != nil && !t.isEmpty() && !t.isHeld() {
			found = append(found, t)
		}
	}
	return found
}

// HasMail reports whether there is mail for a host, on any channel, that a
// Triggered event would make due.
func (s *Scheduler) HasMail(host string) bool { return len(s.threads.ofHost(host)) > 0 }

// bulkUpdate is a change to all vertices of a thread. It is carried out a batch
// at a time, so that agents are answered in between.
type bulkUpdate uint8

const (
	wakeWaiting bulkUpdate = 1 << iota // waiting vertices are due now
	releaseHeld                        // the thread was held
	newParams                          // a reload has changed where vertices belong
)

// beginUpdate begins a bulk update. An unfinished one starts again together
// with it.
func (ts *threads) beginUpdate(t *thread, e bulkUpdate) {
	t.updates |= e
	t.nextUpdate = t.vertices.Head
	ts.resumeThread(t)
}

func (ts *threads) updateVertex(v *vertex) {
	t := ts.s.mail.threadOf(v)
	if t.updates&releaseHeld != 0 {
		ts.s.orders.requireAttempt(v)
	}
	if t.updates&newParams != 0 {
		ts.requeueVertex(t, v)
	}
	switch {
	case v.state == due && t.updates&wakeWaiting != 0 && !v.place.Queued():
		ts.enqueueVertex(t, v)
	case v.state == waiting && t.updates&wakeWaiting != 0:
		ts.makeDue(v)
	}
}

// resumeThread ends a suspension, or continues the bulk updates. It returns how
// many vertices it updated.
func (ts *threads) resumeThread(t *thread) int {
	if t.suspendedUntil != 0 && t.suspendedUntil <= ts.s.agenda.now {
		t.suspendedUntil = 0
		t.suspensions++
	}
	t.setSessionCap(false)
	n := 0
	for ; n < wakeSlice && t.nextUpdate != 0; n++ {
		ref := t.nextUpdate
		t.nextUpdate = t.vertices.Next(ref)
		ts.updateVertex(ts.s.mail.vertices.At(ref))
	}
	ts.planResume(t)
	ts.updateThread(t)
	return n
}

// planResume puts a thread into the agenda at the time when its bulk updates
// continue or its suspension ends.
func (ts *threads) planResume(t *thread) {
	if t.resume.due == nil { // most threads never need it
		t.resume.due = func() { ts.s.agenda.work += ts.resumeThread(t) }
	}
	switch {
	case t.nextUpdate != 0:
		ts.s.agenda.plan(&t.resume, ts.s.agenda.now)
		return
	case t.suspendedUntil != 0:
		ts.s.agenda.plan(&t.resume, t.suspendedUntil)
	default:
		ts.s.agenda.plan(&t.resume, never)
	}
	t.updates = 0
}
