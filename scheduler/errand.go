package scheduler

// errand is something to be done with all vertices of a thread, so many at a
// time that agents are heard in between.
type bulkUpdate uint8

const (
	wakeWaiting bulkUpdate = 1 << iota // what waits is due now
	releaseHeld                        // the thread was held
)

// send begins an errand. One that is under way begins again with it.
func (s *Scheduler) beginUpdate(t *thread, e bulkUpdate) {
	t.updates |= e
	t.nextUpdate = t.vertices.head
	s.resumeThread(t)
}

func (s *Scheduler) updateVertex(v *vertex) {
	t := s.threadOf(v)
	if t.updates&releaseHeld != 0 {
		s.releaseHeldVertex(v)
	}
	if t.updates&wakeWaiting != 0 && v.state == waiting {
		s.makeDue(v)
	}
}

// resume ends a suspension, or goes on with the errands, and returns how
// many vertices that went over.
func (s *Scheduler) resumeThread(t *thread) int {
	if t.suspendedUntil != 0 && t.suspendedUntil <= s.now {
		t.suspendedUntil = 0
		t.suspensions++
	}
	t.setSessionCap(false)
	n := 0
	for ; n < wakeSlice && t.nextUpdate != 0; n++ {
		v := s.vertices.at(t.nextUpdate)
		t.nextUpdate = v.next
		s.updateVertex(v)
	}
	s.planResume(t)
	s.updateThread(t)
	return n
}

// planResume puts a thread into the agenda at the time when its errands go on,
// or its suspension ends.
func (s *Scheduler) planResume(t *thread) {
	switch {
	case t.nextUpdate != 0:
		s.resumes.put(s.now, t)
		return
	case t.suspendedUntil != 0:
		s.resumes.put(t.suspendedUntil, t)
	default:
		s.resumes.remove(t)
	}
	t.updates = 0
}

// trigger starts the mail of a host now, whatever its channel, its waiting
// times and queueonly say (ETRN, RFC 1985).
func (s *Scheduler) triggered(host string) {
	for _, c := range s.channelOrder {
		t := s.threads[threadKey{c.name, host}]
		if t == nil || t.held {
			continue
		}
		if t.params.QueueOnly && t.busy > 0 { // in the middle of a run
			continue
		}
		if t.suspendedUntil != 0 {
			t.suspendedUntil = s.now
		}
		if t.params.QueueOnly && !t.running {
			// All that waits is tried once; what is deferred waits for the
			// next run.
			t.running = true
			t.active = 1 - t.active
		}
		s.beginUpdate(t, wakeWaiting)
	}
}
