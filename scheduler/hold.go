package scheduler

// Hold: messages that an administrator keeps back, and mail of held threads.
//
//	                every vertex is held, and nothing is being written: Hold
//	in transport/ ────────────────────────────────────────────────────────► under hold/
//	              ◄────────────────────────────────────────────────────────
//	                no order holds the message any more: Release
//
// Orders that come while the files are being moved wait until they have arrived.
//
// The vertices of a held thread keep their states. As their times come they
// leave the agenda, so they do not expire. Recipients that were held, in a
// thread or with their message, must have an attempt after the release before
// they can expire, however long that takes.

// releaseHeldVertex gives the recipients of a vertex of a released thread an
// attempt before they can expire. After that the vertex is in the agenda again.
func (q *queue) releaseHeldVertex(v *vertex) {
	for i := range q.lenOf(v) {
		q.recipient(v, i).flags |= mustAttempt
	}
}

// setHold notes by which order a message is held.
func (q *queue) setHold(m *message, o *HoldOrder) {
	q.holdOrders.messages[m.ref] = o
	q.planHoldEnd(o)
}

// holdArrived holds a message that arrives, if its files lie under hold/ or its hold was
// recorded before it was carried out.
func (dv *delivery) holdArrived(m *message, in *Message) {
	switch o := in.Hold; {
	case m.flags&underHold == 0 && o == nil:
	case m.flags&underHold == 0:
		dv.hold(m, o)
	case in.Released:
		dv.advance(m)
	case o == nil:
		dv.do(Note{Severity: Warning, Message: m.id, Text: "nothing says who holds it: it is held until it is released"})
		o = new(HoldOrder)
		fallthrough
	default:
		dv.setHold(m, o)
	}
}

// hold keeps a message from being fed, and moves it to hold/ when no agent has any of it. The
// orders that wait on it are replaced. Under hold/, only the order changes.
func (dv *delivery) hold(m *message, o *HoldOrder) {
	dv.setHold(m, o)
	if m.flags&(underHold|moving) != 0 {
		return
	}
	for _, v := range dv.openVertices(m) {
		delete(dv.orders, v.ref)
		dv.carryOutPending(v)
	}
	dv.advance(m)
}

// holdVertex keeps a vertex from being fed, because its message is under hold/ or is to be
// moved there.
func (dv *delivery) holdVertex(v *vertex) {
	dv.fair.Remove(v.ref)
	dv.setState(v, held, 0)
	dv.updateThread(dv.threadOf(v))
}

// allHeld reports whether all vertices of the message are held, so that nothing in it
// changes any more.
func (ml *mail) allHeld(m *message) bool {
	all := true
	ml.eachVertex(m, func(v *vertex) { all = all && (v.state == 0 || v.state == held) })
	return all
}

// isToBeMoved reports whether the files of a message are where they are not to be, and can
// be moved.
func (q *queue) isToBeMoved(m *message) bool {
	isUnder, isHeld := m.flags&underHold != 0, q.holdOrders.messages[m.ref] != nil
	return isUnder != isHeld && (isUnder || q.allHeld(m))
}

// moveFiles moves a message to hold/, or back from there.
func (dv *delivery) moveFiles(m *message) {
	m.flags |= moving
	op := dv.nextOp()
	var a Action = Hold{Op: op, Message: m.id, Path: dv.path(m)}
	if m.flags&underHold != 0 {
		a = Release{Op: op, Message: m.id, Path: dv.path(m)}
	}
	dv.issue(op, pending{action: a, message: m})
}

// filesMoved is called when a message lies under hold/ now, or in transport/ again.
func (dv *delivery) filesMoved(m *message) {
	m.flags &^= moving
	m.flags ^= underHold
	isUnder, vertices := m.flags&underHold != 0, dv.openVertices(m)
	if isUnder {
		dv.countUnderHold(m, 1)
		dv.counts.MessagesHeld++
		dv.counts.RecipientsHeld += uint64(m.open)
	} else {
		dv.countUnderHold(m, -1)
		dv.counts.MessagesReleased++
		dv.counts.RecipientsReleased += uint64(m.open)
	}
	for _, v := range vertices {
		if c := dv.threadOf(v).channel; isUnder {
			c.held += uint64(dv.openOf(v))
		} else {
			c.released += uint64(dv.openOf(v))
		}
		dv.carryOutPending(v)
	}
	if dv.holdOrders.messages[m.ref] == nil && !isUnder {
		dv.resumeReleased(vertices)
	}
	dv.advance(m)
}

// countUnderHold counts a message that comes under hold/ (1), or leaves (-1).
func (ml *mail) countUnderHold(m *message, sign int) {
	ml.holdOrders.underHold += sign
	ml.holdOrders.recipients += sign * int(m.open)
}

// resumeReleased lets the vertices of a message be fed that comes back from hold/.
func (dv *delivery) resumeReleased(vertices []*vertex) {
	for _, v := range vertices {
		v.crashes = 0
		for i := range dv.lenOf(v) {
			dv.recipient(v, i).flags |= mustAttempt
		}
		if v.state == held {
			dv.endHoldOf(v)
			dv.overfeedThread(dv.threadOf(v))
		}
	}
}

// endHoldOf makes a held vertex due, or blocks it until something of it can be fed.
func (dv *delivery) endHoldOf(v *vertex) {
	if dv.feedable(v) == 0 {
		dv.blockVertex(v)
	} else {
		dv.makeDue(v)
	}
}

// undoHold takes back into the queue a message that could not be moved, or that
// is no longer to be held.
func (dv *delivery) undoHold(m *message) {
	m.flags &^= moving
	delete(dv.holdOrders.messages, m.ref)
	for _, v := range dv.openVertices(m) {
		dv.carryOutPending(v)
		if v.state == held {
			dv.endHoldOf(v)
		}
	}
	dv.advance(m)
}
