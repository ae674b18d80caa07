package scheduler

// errand is something to be done with all vertices of a thread, so many at a
// time that agents are heard in between.
type errand uint8

const (
	forward errand = 1 << iota // what waits is due now
	release                    // the thread was held
)

// send begins an errand. One that is under way begins again with it.
func (s *Scheduler) send(t *thread, e errand) {
	t.errands |= e
	t.pulling = t.vertices.head
	s.resume(t)
}

func (s *Scheduler) runErrand(v *vertex) {
	t := s.threadOf(v)
	if t.errands&release != 0 {
		s.releaseVertex(v)
	}
	if t.errands&forward != 0 && v.state == waiting {
		s.makeDue(v)
	}
}

// resume ends a suspension, or goes on with the errands, and returns how
// many vertices that went over.
func (s *Scheduler) resume(t *thread) int {
	if t.suspendedTill != 0 && t.suspendedTill <= s.now {
		t.suspendedTill = 0
		t.suspensions++
	}
	t.allow(false)
	n := 0
	for ; n < wakeSlice && t.pulling != 0; n++ {
		v := s.vertices.at(t.pulling)
		t.pulling = v.next
		s.runErrand(v)
	}
	s.planResume(t)
	s.settleThread(t)
	return n
}

// planResume puts a thread into the agenda at the time when its errands go on,
// or its suspension ends.
func (s *Scheduler) planResume(t *thread) {
	switch {
	case t.pulling != 0:
		s.resumes.put(s.now, t)
		return
	case t.suspendedTill != 0:
		s.resumes.put(t.suspendedTill, t)
	default:
		s.resumes.remove(t)
	}
	t.errands = 0
}

// trigger starts the mail of a host now, whatever its channel, its waiting
// times and queueonly say (ETRN, RFC 1985).
func (s *Scheduler) trigger(host string) {
	for _, c := range s.channelOrder {
		t := s.threads[threadKey{c.name, host}]
		if t == nil || t.held {
			continue
		}
		if t.params.QueueOnly && t.busy > 0 { // in the middle of a run
			continue
		}
		if t.suspendedTill != 0 {
			t.suspendedTill = s.now
		}
		if t.params.QueueOnly && !t.gate {
			// All that waits is tried once; what is deferred waits for the
			// next run.
			t.gate = true
			t.run = 1 - t.run
		}
		s.send(t, forward)
	}
}
