package scheduler

import "slices"

// Waiting stubs: when mail that is not loaded is due, and when something must be written about
// it. Also the orders about it: RETRY and ETRN make it due, for the others it is loaded.

// putStub puts a stub into its thread: it is due if at is 0, otherwise it waits.
func (lo *loads) putStub(t *thread, n stubRef, at instant) {
	s := lo.unloaded.stubs.At(n)
	if at == 0 {
		s.flags |= stubDue
		lo.unloaded.lastDue++
		t.stubs.due.Put(lo.unloaded.lastDue, n)
	} else {
		s.flags &^= stubDue
		t.stubs.times.Put(at, n)
	}
	lo.countStub(t, at, 1)
}

// takeStub takes a stub out of its thread, and returns the end of its wait; 0: it was due.
func (lo *loads) takeStub(t *thread, n stubRef) (at instant) {
	if lo.unloaded.stubs.At(n).flags&stubDue != 0 {
		t.stubs.due.Remove(n)
	} else {
		at = t.stubs.times.KeyOf(n)
		t.stubs.times.Remove(n)
	}
	lo.countStub(t, at, -1)
	return at
}

// countStub counts a stub in its state (1), or no longer (-1). What waits without an end counts
// as due.
func (lo *loads) countStub(t *thread, at instant, n int32) {
	state := stateUntil(at)
	t.states[state] += n
	lo.s.mail.states[state] += int(n)
}

func stateUntil(at instant) vertexState {
	if at == 0 || at == never {
		return due
	}
	return waiting
}

// stateOf returns the state of a stub, and the end of its wait.
func (lo *loads) stateOf(n stubRef) (state vertexState, wakeAt instant) {
	s := lo.unloaded.stubs.At(n)
	if l := lo.unloaded.loading[s.id]; l != nil {
		wakeAt = l.of(n).at
	} else if s.flags&stubDue == 0 {
		wakeAt = lo.stubThread(s).stubs.times.KeyOf(n)
	}
	if stateUntil(wakeAt) == due {
		return due, 0
	}
	return waiting, wakeAt
}

// wakeStubs makes those stubs of a thread due whose wait is over, a slice at a time. It returns
// how many.
func (lo *loads) wakeStubs(t *thread) (n int) {
	next := instant(0)
	if t.params.QueueOnly && !t.running {
		next = never
	}
	for ; n < wakeSlice && t.stubs.times.Next() <= lo.s.agenda.now; n++ {
		ref := t.stubs.times.First()
		lo.takeStub(t, ref)
		lo.putStub(t, ref, next)
	}
	t.setSessionCap(false)
	lo.s.threads.updateThread(t)
	return n
}

// changeWaits gives each waiting stub of a thread the end of its wait that f returns, also those
// that are being read.
func (lo *loads) changeWaits(t *thread, f func(at instant) instant) {
	change := func(n stubRef, at instant) instant {
		next := f(at)
		lo.countStub(t, at, -1)
		lo.countStub(t, next, 1)
		return next
	}
	t.stubs.times.Rekey(change)
	lo.s.agenda.plan(&t.stubs.wake, t.stubs.times.Next())
	for _, l := range lo.unloaded.loading {
		for i := range l.stubs {
			if x := &l.stubs[i]; x.at != 0 && lo.unloaded.stubs.At(x.ref).thread == t.ref {
				x.at = change(x.ref, x.at)
			}
		}
	}
}

// updateStubsInBulk carries out a bulk update on the stubs of a thread, all at once. Those that need
// not wait any more are made due a slice at a time (wakeStubs).
func (lo *loads) updateStubsInBulk(t *thread, e bulkUpdate) {
	if t.stubs == nil {
		return
	}
	if e&releaseHeld != 0 {
		for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
			lo.unloaded.stubs.At(n).flags |= stubMustAttempt
		}
	}
	if e&newParams != 0 {
		lo.requeueStubs(t)
	}
	if e&wakeWaiting != 0 {
		lo.changeWaits(t, func(at instant) instant { return min(at, lo.s.agenda.now) })
	}
}

// requeueStubs gives the stubs of a thread the times that its new parameters call for: only in a
// queueonly thread, mail waits for the next run.
func (lo *loads) requeueStubs(t *thread) {
	if !t.params.QueueOnly {
		lo.changeWaits(t, func(at instant) instant {
			if at == never {
				return lo.s.agenda.now
			}
			return at
		})
	}
	for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
		s := lo.unloaded.stubs.At(n)
		if primary, _ := lo.s.agenda.expiryOf(t.params, s.modifiedAt); primary < lo.unloaded.looks.at(n) {
			lo.unloaded.looks.set(n, max(primary, lo.s.agenda.date))
		}
	}
}

// lookAtStubs finds the mail about which something must be written now. What was held has its next
// look after an attempt. What had no attempt does not expire before expiry2, or before its
// destination is dead.
func (lo *loads) lookAtStubs() {
	u := &lo.unloaded
	if !lo.looksNow() || u.looks.next() > lo.s.agenda.date {
		return
	}
	for _, n := range u.looks.take(lo.s.agenda.date, maxUrgent) {
		s := u.stubs.At(n)
		if s.id == 0 || s.flags&stubMustAttempt != 0 || lo.stubThread(s).held {
			continue
		}
		t := lo.stubThread(s)
		primary, secondary := lo.s.agenda.expiryOf(t.params, s.modifiedAt)
		isBetween := lo.s.agenda.date >= primary && lo.s.agenda.date < secondary
		if isBetween && s.flags&stubTried == 0 && !lo.s.notices.isDead(t, primary) && len(lo.s.orders.savedOrders[s.id]) == 0 {
			u.looks.set(n, lo.s.agenda.lookAgainAt(t.params, secondary))
		} else {
			lo.loadSoon(s.id)
		}
	}
}

// maxUrgent bounds the mail that waits to be loaded because its time has come. What orders
// concern is not bounded.
const maxUrgent = 1000

// looksNow reports whether lookAtStubs looks for more.
func (lo *loads) looksNow() bool { return len(lo.unloaded.urgent) < maxUrgent }

// orderStubs executes an order on a message that is not loaded, given by its first stub, or has
// the message loaded for it. It returns how many recipients are affected.
func (lo *loads) orderStubs(e *Ordered, first stubRef, targets []Target) (n int) {
	u := &lo.unloaded
	id := u.stubs.At(first).id
	saved := lo.s.orders.savedOrders[id]
	isHold := func(o SavedOrder) bool { return o.Verb == VerbHold }
	isHeld := slices.ContainsFunc(saved, isHold)
	if e.Verb == VerbRetry && len(saved) > 0 || e.Verb == VerbRelease && !isHeld || e.movesAway() && isHeld {
		return 0
	}
	touched := slices.DeleteFunc(u.of(first), func(n stubRef) bool {
		key := lo.stubThread(u.stubs.At(n)).key
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
	lo.s.log.recordTouched(e, id, u.stubs.At(first).modifiedAt, n)
	switch e.Verb {
	case VerbRetry:
		for _, ref := range touched {
			lo.retryStub(ref)
		}
	case VerbRelease:
		lo.s.orders.savedOrders[id] = slices.DeleteFunc(saved, isHold)
	default:
		lo.s.orders.saveOrder(e, u.stubs.At(first).modifiedAt, targets)
		lo.loadSoon(id)
	}
	return n
}

// retryStub makes a stub due now, as retryNow does with a vertex.
func (lo *loads) retryStub(n stubRef) {
	s := lo.unloaded.stubs.At(n)
	t := lo.stubThread(s)
	lo.s.orders.retryThread(t)
	if l := lo.unloaded.loading[s.id]; l != nil {
		x := l.of(n)
		lo.countStub(t, x.at, -1)
		x.at = min(x.at, lo.s.agenda.now)
		lo.countStub(t, x.at, 1)
	} else if s.flags&stubDue == 0 {
		lo.takeStub(t, n)
		lo.putStub(t, n, 0)
	}
	lo.s.threads.updateThread(t)
}
