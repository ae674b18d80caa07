package scheduler

// holdThread keeps the mail of a channel and host from being fed and from
// expiring, or lets it go. What is with an agent by then stays there.
func (s *Scheduler) holdThread(key threadKey, held bool) {
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
		s.settleThread(t)
		return
	}
	s.send(t, release)
}

// releaseVertex gives the recipients of a vertex whose thread was held an
// attempt before they can expire. After that it has its place in the agenda
// again.
func (s *Scheduler) releaseVertex(v *vertex) {
	for i := range v.len() {
		s.recipient(v, i).flags |= spared
	}
	if v.state == poisoned {
		v.deaths = 0
		s.makeDue(v)
	}
}

// restVertex keeps a vertex of a message that is to be held from being fed,
// until all of the message can be moved away.
func (s *Scheduler) restVertex(v *vertex) {
	t := s.threadOf(v)
	t.dequeue(v)
	s.wakes.remove(v.ref)
	s.become(v, resting, v.wakeAt)
	s.settleThread(t)
	s.advance(s.messageOf(v))
}

// rests reports whether nothing of the message can change any more.
func (s *Scheduler) rests(m *message) bool {
	rests := true
	s.verticesOf(m, func(v *vertex) { rests = rests && (v.state == 0 || v.state == resting) })
	return rests
}

// moveAway has the files of a message moved to hold/.
func (s *Scheduler) moveAway(m *message) {
	m.flags |= moving
	op := s.nextOp()
	s.issue(op, &pending{action: Hold{Op: op, Message: m.id, Path: s.path(m)}, message: m})
}

// unheld takes a message that could not be moved back into the queue.
func (s *Scheduler) unheld(m *message) {
	m.flags &^= moving | holding
	s.verticesOf(m, func(v *vertex) {
		if v.state != resting {
			return
		}
		v.ordered = 0
		switch {
		case s.openNow(v) == 0:
			s.idleVertex(v)
		case v.wakeAt > s.now:
			s.become(v, waiting, v.wakeAt)
			s.planWake(v)
		default:
			s.makeDue(v)
		}
	})
}
