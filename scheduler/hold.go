package scheduler

// holdThread keeps the mail of a channel and host from being fed and from
// expiring, or lets it go. What is with an agent by then stays there.
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
		return
	}
	q.beginUpdate(t, releaseHeld)
}

// releaseVertex gives the recipients of a vertex whose thread was held an
// attempt before they can expire. After that it has its place in the agenda
// again.
func (q *queue) releaseHeldVertex(v *vertex) {
	for i := range v.len() {
		q.recipient(v, i).flags |= mustAttempt
	}
	if v.state == poisoned {
		v.crashes = 0
		q.makeDue(v)
	}
}

// restVertex keeps a vertex of a message that is to be held from being fed,
// until all of the message can be moved away.
func (dv *delivery) holdVertex(v *vertex) {
	t := dv.threadOf(v)
	t.dequeueVertex(v)
	dv.wakes.remove(v.ref)
	dv.setState(v, holding, v.wakeAt)
	dv.updateThread(t)
	dv.advance(dv.messageOf(v))
}

// rests reports whether nothing of the message can change any more.
func (ml *mail) allHolding(m *message) bool {
	rests := true
	ml.eachVertex(m, func(v *vertex) { rests = rests && (v.state == 0 || v.state == holding) })
	return rests
}

// moveAway has the files of a message moved to hold/.
func (dv *delivery) issueHold(m *message) {
	m.flags |= moving
	op := dv.nextOp()
	dv.issue(op, &pending{action: Hold{Op: op, Message: m.id, Path: dv.path(m)}, message: m})
}

// unheld takes a message that could not be moved back into the queue.
func (dv *delivery) undoHold(m *message) {
	m.flags &^= moving | holdOrdered
	dv.eachVertex(m, func(v *vertex) {
		if v.state != holding {
			return
		}
		v.ordered = 0
		switch {
		case dv.feedable(v) == 0:
			dv.blockVertex(v)
		case v.wakeAt > dv.now:
			dv.setState(v, waiting, v.wakeAt)
			dv.planWake(v)
		default:
			dv.makeDue(v)
		}
	})
}
