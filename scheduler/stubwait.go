package scheduler

import "slices"

// Waiting stubs: when mail that is not loaded is due, and when something must be written about
// it. Also the orders about it: RETRY and ETRN make it due, for the others it is loaded.

// putStub puts a stub into its thread: it is due if at is 0, otherwise it waits.
func (q *queue) putStub(t *thread, n stubRef, at instant) {
	s := q.unloaded.stubs.At(n)
	if at == 0 {
		s.flags |= stubDue
		q.unloaded.lastDue++
		t.stubs.due.Put(q.unloaded.lastDue, n)
	} else {
		s.flags &^= stubDue
		t.stubs.times.Put(at, n)
	}
	q.countStub(t, at, 1)
}

// takeStub takes a stub out of its thread, and returns the end of its wait; 0: it was due.
func (q *queue) takeStub(t *thread, n stubRef) (at instant) {
	if q.unloaded.stubs.At(n).flags&stubDue != 0 {
		t.stubs.due.Remove(n)
	} else {
		at = t.stubs.times.KeyOf(n)
		t.stubs.times.Remove(n)
	}
	q.countStub(t, at, -1)
	return at
}

// countStub counts a stub in its state (1), or no longer (-1). What waits without an end counts
// as due.
func (q *queue) countStub(t *thread, at instant, n int32) {
	state := stateUntil(at)
	t.states[state] += n
	q.states[state] += int(n)
}

func stateUntil(at instant) vertexState {
	if at == 0 || at == never {
		return due
	}
	return waiting
}

// stateOf returns the state of a stub, and the end of its wait.
func (q *queue) stateOf(n stubRef) (state vertexState, wakeAt instant) {
	s := q.unloaded.stubs.At(n)
	if l := q.unloaded.loading[s.id]; l != nil {
		wakeAt = l.of(n).at
	} else if s.flags&stubDue == 0 {
		wakeAt = q.stubThread(s).stubs.times.KeyOf(n)
	}
	if stateUntil(wakeAt) == due {
		return due, 0
	}
	return waiting, wakeAt
}

// wakeStubs makes those stubs of a thread due whose wait is over, a slice at a time. It returns
// how many.
func (q *queue) wakeStubs(t *thread) (n int) {
	next := instant(0)
	if t.params.QueueOnly && !t.running {
		next = never
	}
	for ; n < wakeSlice && t.stubs.times.Next() <= q.now; n++ {
		ref := t.stubs.times.First()
		q.takeStub(t, ref)
		q.putStub(t, ref, next)
	}
	t.setSessionCap(false)
	q.updateThread(t)
	return n
}

// changeWaits gives each waiting stub of a thread the end of its wait that f returns, also those
// that are being read.
func (q *queue) changeWaits(t *thread, f func(s *stub, at instant) instant) {
	if t.stubs == nil {
		return
	}
	change := func(n stubRef, at instant) instant {
		next := f(q.unloaded.stubs.At(n), at)
		q.countStub(t, at, -1)
		q.countStub(t, next, 1)
		return next
	}
	t.stubs.times.Rekey(change)
	q.plan(&t.stubs.wake, t.stubs.times.Next())
	for _, l := range q.unloaded.loading {
		for i := range l.stubs {
			if x := &l.stubs[i]; x.at != 0 && q.unloaded.stubs.At(x.ref).thread == t.ref {
				x.at = change(x.ref, x.at)
			}
		}
	}
}

// updateStubsInBulk carries out a bulk update on the stubs of a thread, all at once. Those that need
// not wait any more are made due a slice at a time (wakeStubs).
func (q *queue) updateStubsInBulk(t *thread, e bulkUpdate) {
	if e&releaseHeld != 0 && t.stubs != nil {
		for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
			q.unloaded.stubs.At(n).flags |= stubMustAttempt
		}
	}
	if e&(wakeWaiting|pullForward) == 0 {
		return
	}
	q.changeWaits(t, func(s *stub, at instant) instant {
		switch {
		case e&wakeWaiting != 0:
			s.undoRetryStep()
		case s.flags&stubDestinationFailed == 0:
			return at
		}
		return min(at, q.now)
	})
}

// requeueStubs gives the stubs of a thread the times that its new parameters call for: only in a
// queueonly thread, mail waits for the next run.
func (q *queue) requeueStubs(t *thread) {
	if !t.params.QueueOnly {
		q.changeWaits(t, func(_ *stub, at instant) instant {
			if at == never {
				return q.now
			}
			return at
		})
	}
	if t.stubs == nil {
		return
	}
	for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
		s := q.unloaded.stubs.At(n)
		if primary, _ := q.expiryOf(t.params, s.modifiedAt); primary < q.unloaded.looks.at(n) {
			q.unloaded.looks.set(n, max(primary, q.date))
		}
	}
}

// lookAtStubs finds the mail about which something must be written now. What needs an attempt
// first has its next look after that.
func (q *queue) lookAtStubs() {
	u := &q.unloaded
	if !q.looksNow() || u.looks.next() > q.date {
		return
	}
	for _, n := range u.looks.take(q.date, maxUrgent) {
		s := u.stubs.At(n)
		if s.id == 0 || s.flags&stubMustAttempt != 0 || q.stubThread(s).held {
			continue
		}
		if q.waitsForExpiry2(s) {
			u.looks.set(n, q.nextLookAt(q.stubThread(s), s.modifiedAt, true, false))
			continue
		}
		q.loadSoon(s.id)
	}
}

// waitsForExpiry2 reports whether a stub is past its expiry, and had no attempt.
func (q *queue) waitsForExpiry2(s *stub) bool {
	t := q.stubThread(s)
	primary, secondary := q.expiryOf(t.params, s.modifiedAt)
	return q.date >= primary && q.date < secondary && s.flags&stubTried == 0 && !q.isDead(t, primary) && len(q.savedOrders[s.id]) == 0
}

// maxUrgent bounds the mail that waits to be loaded because its time has come. What orders
// concern is not bounded.
const maxUrgent = 1000

// looksNow reports whether lookAtStubs looks for more.
func (q *queue) looksNow() bool { return len(q.unloaded.urgent) < maxUrgent }

// orderStubs executes an order on a message that is not loaded, given by its first stub, or has
// the message loaded for it. It returns how many recipients are affected.
func (dv *delivery) orderStubs(e *Ordered, first stubRef, targets []Target) (n int) {
	u := &dv.unloaded
	id := u.stubs.At(first).id
	saved := dv.savedOrders[id]
	isHold := func(o SavedOrder) bool { return o.Verb == VerbHold }
	isHeld := slices.ContainsFunc(saved, isHold)
	if e.Verb == VerbRetry && len(saved) > 0 || e.Verb == VerbRelease && !isHeld || e.movesAway() && isHeld {
		return 0
	}
	touched := slices.DeleteFunc(u.of(first), func(n stubRef) bool {
		key := dv.stubThread(u.stubs.At(n)).key
		return e.Verb != VerbHold && !hasTarget(targets, key)
	})
	for _, ref := range touched {
		open := int(u.stubs.At(ref).open)
		if only := e.Only[id]; only != nil && e.Verb.takesParts() {
			open = min(len(only), open)
		}
		n += open
	}
	if n == 0 || e.DryRun {
		return n
	}
	dv.recordTouchedMessage(e, id, u.stubs.At(first).modifiedAt, n)
	switch e.Verb {
	case VerbRetry:
		for _, ref := range touched {
			dv.retryStub(ref)
		}
	case VerbRelease:
		dv.savedOrders[id] = slices.DeleteFunc(saved, isHold)
	default:
		dv.saveOrder(e, u.stubs.At(first).modifiedAt, targets)
		dv.loadSoon(id)
	}
	return n
}

// retryStub makes a stub due now, as retryNow does with a vertex.
func (dv *delivery) retryStub(n stubRef) {
	s := dv.unloaded.stubs.At(n)
	t := dv.stubThread(s)
	dv.retryThread(t)
	if l := dv.unloaded.loading[s.id]; l != nil {
		x := l.of(n)
		dv.countStub(t, x.at, -1)
		x.at = min(x.at, dv.now)
		dv.countStub(t, x.at, 1)
	} else if s.flags&stubDue == 0 {
		s.undoRetryStep()
		dv.takeStub(t, n)
		dv.putStub(t, n, 0)
	}
	dv.updateThread(t)
}
