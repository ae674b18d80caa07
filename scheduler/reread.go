package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// readAgain keeps a vertex from being fed until its file has been read.
func (s *Scheduler) readAgain(v *vertex, why readReason, pid int) {
	m := s.messageOf(v)
	s.setState(v, reading, 0)
	v.readReason = why
	op := s.nextOp()
	s.issue(op, &pending{
		action:  Read{Op: op, Message: m.id, Path: s.path(m), PID: pid},
		message: m, vertex: v,
	})
}

// reread compares a vertex with what its file says.
func (s *Scheduler) reread(e *Reread) {
	p := s.store.pending[e.Op]
	if p == nil {
		return
	}
	delete(s.store.pending, e.Op)
	v, m := p.vertex, p.message
	if p.stale() || v.state != reading {
		return
	}
	if e.Missing {
		s.fileMissing(m)
		return
	}
	if e.Owes {
		m.flags |= owesNotice
	}
	m.pendingWrites++
	locked := s.compareTags(v, e.Recipients)
	if v.state != 0 {
		s.vertexRead(v, locked)
	}
	m.pendingWrites--
	s.advance(m)
}

// compare ends the recipients that the file says are done, and reports
// whether a live process has one locked.
func (s *Scheduler) compareTags(v *vertex, states []RecipientState) (locked bool) {
	for i := range v.len() {
		r := s.recipient(v, i)
		if !r.isOpen() && r.state != promoted {
			continue
		}
		at, found := slices.BinarySearchFunc(states, int64(r.offset), func(st RecipientState, offset int64) int {
			return int(st.Offset - offset)
		})
		if !found {
			continue
		}
		switch states[at].Tag {
		case ctlfile.Delivered:
			s.account(v, i, "ok")
			s.endRecipient(v, i, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Delivered, LeaveTag: true}, true)
		case ctlfile.Failed:
			s.messageOf(v).failed++
			s.account(v, i, "error")
			s.endRecipient(v, i, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Failed, LeaveTag: true}, false)
		case ctlfile.Locked:
			locked = true
		}
	}
	return locked
}

// returned decides what becomes of a vertex whose file has been read. Nothing
// is charged for a line that was not worked on.
func (s *Scheduler) vertexRead(v *vertex, locked bool) {
	why := v.readReason
	v.readReason = noReason
	switch {
	case v.ordered != 0:
		s.reopenRecipients(v)
		s.execute(v)
	case locked:
		s.postpone(v, s.now.after(lockedDelay))
	case why == agentCrashed:
		if v.crashes++; v.crashes >= maxCrashes {
			s.poisonVertex(v)
			return
		}
		s.takeRetryStep(v)
	case why == foundNothing:
		v.crashes = 0
		s.takeRetryStep(v)
	case s.wasReported(v):
		s.takeRetryStep(v)
	default:
		s.reopenRecipients(v)
		if s.feedable(v) == 0 {
			s.blockVertex(v)
			return
		}
		s.makeDue(v)
	}
}

// heardOf reports whether its last agent has deferred a recipient.
func (s *Scheduler) wasReported(v *vertex) bool {
	for i := range v.len() {
		if s.recipient(v, i).state == reported {
			return true
		}
	}
	return false
}

// poison puts a vertex aside that agents die on. The last death, too, costs an
// attempt.
func (s *Scheduler) poisonVertex(v *vertex) {
	s.countAttempts(v)
	s.reopenRecipients(v)
	s.setState(v, poisoned, 0)
	key := s.threadOf(v).key
	s.do(Note{Severity: Error, Message: s.messageOf(v).id, Text: "an agent for " + key.channel + "/" +
		key.host + " died on it three times running: put aside until a retry, a reload, a release or a restart"})
	s.planWake(v)
}

// lose forgets a message whose control file is gone.
func (s *Scheduler) fileMissing(m *message) {
	s.do(Note{Severity: Warning, Message: m.id, Text: "its control file is gone, forgotten: " + s.path(m)})
	s.dropMessage(m)
}
