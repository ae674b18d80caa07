package scheduler

// holdThread keeps the mail of a channel and host from being fed and from
// expiring, or lets it go. What is with an agent by then stays there.
func (s *Scheduler) heldThread(key threadKey, held bool) {
	if held {
		s.held[key] = true
	} else {
		delete(s.held, key)
	}
	t := s.threads[key]
	if t == nil || t.held == held {
		return
	}
	t.held = held
	if held {
		s.updateThread(t)
		return
	}
	s.beginUpdate(t, releaseHeld)
}

// releaseVertex gives the recipients of a vertex whose thread was held an
// attempt before they can expire. After that it has its place in the agenda
// again.
func (s *Scheduler) releaseHeldVertex(v *vertex) {
	for i := range v.len() {
		s.recipient(v, i).flags |= mustAttempt
	}
	if v.state == poisoned {
		v.crashes = 0
		s.makeDue(v)
	}
}

// restVertex keeps a vertex of a message that is to be held from being fed,
// until all of the message can be moved away.
func (s *Scheduler) holdVertex(v *vertex) {
	t := s.threadOf(v)
	t.dequeueVertex(v)
	s.wakes.remove(v.ref)
	s.setState(v, holding, v.wakeAt)
	s.updateThread(t)
	s.advance(s.messageOf(v))
}

// rests reports whether nothing of the message can change any more.
func (s *Scheduler) allHolding(m *message) bool {
	rests := true
	s.eachVertex(m, func(v *vertex) { rests = rests && (v.state == 0 || v.state == holding) })
	return rests
}

// moveAway has the files of a message moved to hold/.
func (s *Scheduler) issueHold(m *message) {
	m.flags |= moving
	op := s.nextOp()
	s.issue(op, &pending{action: Hold{Op: op, Message: m.id, Path: s.path(m)}, message: m})
}

// unheld takes a message that could not be moved back into the queue.
func (s *Scheduler) undoHold(m *message) {
	m.flags &^= moving | holdOrdered
	s.eachVertex(m, func(v *vertex) {
		if v.state != holding {
			return
		}
		v.ordered = 0
		switch {
		case s.feedable(v) == 0:
			s.blockVertex(v)
		case v.wakeAt > s.now:
			s.setState(v, waiting, v.wakeAt)
			s.planWake(v)
		default:
			s.makeDue(v)
		}
	})
}
