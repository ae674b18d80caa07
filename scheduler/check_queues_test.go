package scheduler

// Invariants of what is fed next. Package fair tests its own.

// checkQueue: what is due in a thread is queued, or waits for the next run.
func (s *Scheduler) checkQueue(t *thread) {
	queued, dueNow := 0, 0
	s.threads.eachVertex(t, func(v *vertex) {
		if v.state == due {
			dueNow++
		}
		if v.place.Queued() {
			queued++
		}
	})
	assert(queued == t.fair.Len(), "thread %v: %d queued, kept %d", t, queued, t.fair.Len())
	assert(dueNow == int(t.states[due]), "thread %v: %d due, kept %d", t, dueNow, t.states[due])
}

// checkSessions: the sessions of a message with several vertices are counted.
func (s *Scheduler) checkSessions(m *message) {
	if s.mail.jobs(m) == nil {
		return
	}
	sessions := int32(0)
	s.mail.eachVertex(m, func(v *vertex) {
		if v.state == fed {
			sessions++
		}
	})
	x := s.mail.extrasOf(m)
	assert(x.sessions == sessions, "message %d has %d sessions, kept %d", m.id, sessions, x.sessions)
}
