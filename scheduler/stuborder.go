package scheduler

import "slices"

// Stubs in bulk, and orders about mail that is not loaded: RETRY and ETRN change when it is due, for
// the others it is loaded.

// updateStubsInBulk carries out a bulk update on the stubs of a thread, all at once. Those that
// need not wait any more are made due a slice at a time.
func (q *queue) updateStubsInBulk(t *thread, e bulkUpdate) {
	if t.stubs == nil {
		return
	}
	if e&releaseHeld != 0 {
		for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
			q.unloaded.stubs.At(n).flags |= stubMustAttempt
		}
	}
	wake := func(n stubRef, at instant) instant {
		s := q.unloaded.stubs.At(n)
		switch {
		case at == never:
		case e&wakeWaiting != 0:
			s.undoRetryStep()
			return min(at, q.now)
		case e&pullForward != 0 && s.flags&stubDestinationFailed != 0:
			return min(at, q.now)
		}
		return at
	}
	t.stubs.times.Rekey(wake)
	for _, l := range q.unloaded.loading {
		for i := range l.stubs {
			x := &l.stubs[i]
			switch s := q.unloaded.stubs.At(x.ref); {
			case s.thread != t.ref:
			case x.state == waiting:
				x.wakeAt = wake(x.ref, x.wakeAt)
			case e&wakeWaiting != 0:
				s.flags &^= stubNextRun
			}
		}
	}
}

// moveStubs moves the due stubs in one queue of a thread to the other one.
func (q *queue) moveStubs(t *thread, from, to int) {
	if t.stubs == nil {
		return
	}
	for l := &t.stubs.queues[from]; l.Len > 0; {
		n := l.Head
		l.Remove(n)
		q.queueStub(t, n, to)
	}
}

// orderStubs executes an order on a message that is not loaded, given by its first stub, or has
// the message loaded for it. It returns how many recipients are affected.
func (dv *delivery) orderStubs(e *Ordered, first stubRef, targets []Target) (n int) {
	id := dv.unloaded.stubs.At(first).id
	saved := dv.savedOrders[id]
	isHeld := slices.ContainsFunc(saved, func(o SavedOrder) bool { return o.Verb == VerbHold })
	if e.Verb == VerbRetry && len(saved) > 0 || e.Verb == VerbRelease && !isHeld || e.movesAway() && isHeld {
		return 0
	}
	touched := slices.DeleteFunc(dv.stubsOf(e, first, targets), func(ref stubRef) bool {
		s := dv.unloaded.stubs.At(ref)
		key := dv.stubThread(s).key
		isThere := e.Verb == VerbReroute && !e.Back && key == threadKey{e.To.Channel, e.To.Host}
		if isThere || e.Verb == VerbRetry && dv.isBlocked(ref) {
			return true
		}
		if only := e.Only[id]; only != nil && e.Verb.takesParts() {
			n += min(len(only), int(s.open))
		} else {
			n += int(s.open)
		}
		return false
	})
	if n == 0 || e.DryRun {
		return n
	}
	dv.recordTouchedMessage(e, id, dv.unloaded.stubs.At(first).modifiedAt, n)
	switch e.Verb {
	case VerbRetry:
		for _, ref := range touched {
			dv.retryStub(ref)
		}
	case VerbRelease:
		dv.savedOrders[id] = slices.DeleteFunc(saved, func(o SavedOrder) bool { return o.Verb == VerbHold })
	default:
		dv.saveOrder(e, dv.unloaded.stubs.At(first).modifiedAt, targets)
		dv.loadSoon(id)
	}
	return n
}

// isBlocked reports whether a stub waits for something else than a time.
func (dv *delivery) isBlocked(n stubRef) bool {
	state, _ := dv.stateOf(n)
	return state == blocked
}

// stubsOf returns those stubs of a message that are targets of an order.
func (q *queue) stubsOf(e *Ordered, first stubRef, targets []Target) []stubRef {
	return slices.DeleteFunc(q.unloaded.of(first), func(n stubRef) bool {
		key := q.stubThread(q.unloaded.stubs.At(n)).key
		return e.Verb != VerbHold && !hasTarget(targets, key)
	})
}

// retryStub makes a stub due now, as retryNow does with a vertex.
func (dv *delivery) retryStub(n stubRef) {
	s := dv.unloaded.stubs.At(n)
	t := dv.stubThread(s)
	dv.retryThread(t)
	if l := dv.unloaded.loading[s.id]; l != nil {
		x := l.of(n)
		x.wakeAt = min(x.wakeAt, dv.now)
	} else if s.index != 0 {
		s.undoRetryStep()
		dv.makeStubDue(t, n)
	} else if s.flags&stubNextRun != 0 {
		t.stubs.queues[nextRun].Remove(n)
		dv.queueStub(t, n, thisRun)
	}
	dv.updateThread(t)
}
