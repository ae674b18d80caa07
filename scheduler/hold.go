package scheduler

// Hold: threads that an administrator holds, and messages that are moved to
// hold/.
//
// The vertices of a held thread keep their states. As their times come they
// leave the agenda, so they do not expire. Recipients that were held, in a
// thread or with their message, must have an attempt after the release before
// they can expire, however long that takes.

// heldThread holds the mail for a channel and host, or releases it. What an
// agent has stays with the agent.
func (q *queue) heldThread(key threadKey, held bool) {
	if held {
		q.held[key] = true
	} else {
		delete(q.held, key)
	}
	t := q.threads[key]
	if t == nil || t.held == held {
		return
	}
	t.held = held
	if held {
		q.updateThread(t)
		q.considerUnloadingThread(t)
		return
	}
	q.beginUpdate(t, releaseHeld)
}

// releaseHeldVertex gives the recipients of a vertex of a released thread an
// attempt before they can expire. After that the vertex is in the agenda again.
func (q *queue) releaseHeldVertex(v *vertex) {
	for i := range v.len() {
		q.recipient(v, i).flags |= mustAttempt
	}
	if v.state == poisoned {
		v.crashes = 0
		q.makeDue(v)
	}
}

// holdVertex keeps a vertex from being fed until its whole message can be moved
// to hold/.
func (dv *delivery) holdVertex(v *vertex) {
	dv.wakes.remove(v.ref)
	dv.setState(v, holding, 0)
	dv.updateThread(dv.threadOf(v))
}

// allHolding reports whether all vertices of the message are holding, so that
// nothing in it changes any more.
func (ml *mail) allHolding(m *message) bool {
	all := true
	ml.eachVertex(m, func(v *vertex) { all = all && (v.state == 0 || v.state == holding) })
	return all
}

// undoHold takes back into the queue a message that could not be moved, or that
// is no longer to be held.
func (dv *delivery) undoHold(m *message) {
	m.flags &^= moving
	for _, v := range dv.openVertices(m) {
		dv.dropOrders(v, func(o *order) bool { return o.verb == VerbHold })
		if v.state == holding {
			dv.blockVertex(v) // until what is being written of it is on disk
		}
		dv.resume(v)
	}
}
