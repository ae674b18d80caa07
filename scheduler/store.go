package scheduler

import (
	"strings"
	"time"

	"zsched/ctlfile"
)

// Times between attempts at the spool.
const (
	probeInterval = 10 * time.Second // while nothing can be written
	retryInterval = time.Minute      // after one file failed
	lockedDelay   = 32 * time.Second // a recipient that a live process has locked
	// deadliest is how many deaths running make a vertex poison.
	maxCrashes = 3
)

// store is the work on control files that is under way. Each piece is kept
// until it is known to be on disk; what failed is issued again.
type store struct {
	last    Op
	pending map[Op]*pending
	// unstored are the failed ones, in order.
	failed  []Op
	batch   batch   // while one message is walked
	down    bool    // nothing can be written now; nothing is fed
	retryAt instant // when to probe, or to issue unstored again; 0: nothing
}

// pending is one action on files whose answer is awaited.
type pending struct {
	action     Action
	message    *message
	id         MessageID        // of the message
	order      int64            // its, which tells whether it has left
	vertex     *vertex          // of Read
	recipients []alternative    // of Mark and Resubmit: the recipients that are done with it
	previous   []recipientState // of Resubmit: what they were
}

// stale reports whether the message has left: its place may be another's now.
func (p *pending) stale() bool { return p.message.sequence != p.order }

func (st *store) next() instant {
	if st.retryAt == 0 {
		return never
	}
	return st.retryAt
}

// issue sends an action on files out and keeps it until it is answered.
func (s *Scheduler) issue(op Op, p *pending) {
	p.id, p.order = p.message.id, p.message.sequence
	s.store.pending[op] = p
	s.do(p.action)
}

func (s *Scheduler) nextOp() Op {
	s.store.last++
	return s.store.last
}

// settle ends a recipient with an outcome. It is gone once the outcome is
// written, or at once where the agent has written all there is.
func (s *Scheduler) endRecipient(v *vertex, i int, mark RecipientMark, success bool) {
	r := s.recipient(v, i)
	hadTurn := r.state != standby
	r.state = writing
	s.clearDiagnostic(r)
	m := s.messageOf(v)
	set, place := s.exclusiveSetOf(m, v, i)
	if set != nil && !success && hadTurn {
		s.promote(set, place)
	}
	switch {
	case set != nil && success:
		marks, settles := s.endSet(set, mark, []alternative{{v, i}})
		s.write(m, marks, settles)
	case mark.LeaveTag && !mark.Diagnose:
		s.recipientDone(v, i)
	default:
		s.write(m, []RecipientMark{mark}, []alternative{{v, i}})
	}
	s.blockIfEmpty(v)
}

// write has outcomes written; the recipients are gone when they are.
func (s *Scheduler) write(m *message, marks []RecipientMark, settles []alternative) {
	if b := &s.store.batch; b.message == m {
		b.marks, b.recipients = append(b.marks, marks...), append(b.recipients, settles...)
		return
	}
	if len(marks) == 0 {
		return
	}
	op := s.nextOp()
	m.pendingWrites++
	s.issue(op, &pending{
		action:  Mark{Op: op, Message: m.id, Path: s.path(m), Marks: marks},
		message: m, recipients: settles,
	})
}

// batch gathers what is to be written into one file.
type batch struct {
	message    *message
	marks      []RecipientMark
	recipients []alternative
}

// together has all that is written of a message on the way written at once.
func (s *Scheduler) inBatch(m *message, work func()) {
	s.store.batch = batch{message: m}
	m.pendingWrites++ // it must not leave while it is walked
	work()
	b := s.store.batch
	s.store.batch = batch{}
	s.write(m, b.marks, b.recipients)
	m.pendingWrites--
	s.advance(m)
}

// quiet takes a vertex out of the queue of which nothing can be fed now.
func (s *Scheduler) blockIfEmpty(v *vertex) {
	if (v.state == due || v.state == waiting) && s.feedable(v) == 0 {
		s.blockVertex(v)
	}
}

// gone drops a recipient that is done, and what it was the last of.
func (s *Scheduler) recipientDone(v *vertex, i int) {
	t := s.threadOf(v)
	s.countOut(t, s.recipient(v, i))
	v.open--
	t.recipients--
	m := s.messageOf(v)
	m.open--
	s.counts.Recipients--
	s.counts.RecipientsOut++
	if v.open == 0 {
		s.removeVertex(v)
	}
	s.advance(m)
}

// countOut counts a recipient that leaves, unless its outcome has been counted.
func (s *Scheduler) countOut(t *thread, r *recipient) {
	if r.state != done && r.flags&counted == 0 {
		t.channel.dropped++
	}
	r.state = done
}

// finish has the files of a message removed, or parked when it owes notices.
func (s *Scheduler) finish(m *message) {
	m.flags |= removing
	op := s.nextOp()
	s.do(Complete{
		Message: m.id, ModifiedAt: m.modifiedAt.time(),
		Recipients: int(m.recipients), Failed: int(m.failed),
	})
	s.issue(op, &pending{
		action:  Finish{Op: op, Message: m.id, Path: s.path(m), Owes: m.flags&owesNotice != 0},
		message: m,
	})
}

func (s *Scheduler) killVertex(v *vertex) {
	m := s.messageOf(v)
	var marks []RecipientMark
	var settles []alternative
	for i := range v.len() {
		r := s.recipient(v, i)
		if r.state == writing || r.state == done {
			continue
		}
		hadTurn := r.state != standby
		r.state = writing
		s.clearDiagnostic(r)
		if set, place := s.exclusiveSetOf(m, v, i); set != nil && hadTurn {
			s.promote(set, place)
		}
		marks = append(marks, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Delivered})
		settles = append(settles, alternative{v, i})
	}
	s.blockVertex(v)
	s.write(m, marks, settles)
}

// done is the completion of an action other than a Read.
func (s *Scheduler) writeDone(op Op) {
	p := s.store.pending[op]
	if p == nil {
		return
	}
	delete(s.store.pending, op)
	m := p.message
	if p.stale() {
		return
	}
	switch p.action.(type) {
	case Finish:
		s.removeMessage(m)
		return
	case Hold:
		s.dropMessage(m)
		return
	}
	for _, a := range p.recipients {
		if s.recipient(a.vertex, a.index).state == writing {
			s.recipientDone(a.vertex, a.index)
		}
	}
	m.pendingWrites--
	s.advance(m)
}

// failed keeps what could not be written and plans to issue it again.
func (s *Scheduler) writeFailed(e Failed) {
	p := s.store.pending[e.Op]
	if p == nil {
		return
	}
	if e.Missing {
		delete(s.store.pending, e.Op)
		if !p.stale() {
			s.fileMissing(p.message)
		}
		return
	}
	if e.SpoolDown && !s.store.down {
		s.store.down, s.store.retryAt = true, s.now.after(probeInterval)
		s.do(Note{Severity: Error, Message: p.id, Text: "the spool cannot be written, nothing is fed until it can: " + e.Reason})
	}
	if s.moveFailed(p, e) {
		return
	}
	s.store.failed = append(s.store.failed, e.Op)
	s.counts.FailedWrites = len(s.store.failed)
	if e.SpoolDown {
		return
	}
	s.do(Note{Severity: Error, Message: p.id, Text: "cannot be written, will be tried again: " + strings.TrimSpace(e.Reason)})
	if s.store.retryAt == 0 {
		s.store.retryAt = s.now.after(retryInterval)
	}
}

// refused takes mail back into the queue that could not be moved elsewhere. An
// order is not carried out later than its answer says.
func (s *Scheduler) moveFailed(p *pending, e Failed) bool {
	m, why := p.message, ""
	switch p.action.(type) {
	case Hold:
		why = "cannot be held, is back in the queue: "
	case Resubmit:
		why = "cannot be sent elsewhere, is back in the queue: "
	default:
		return false
	}
	delete(s.store.pending, e.Op)
	if p.stale() {
		return true
	}
	s.do(Note{Severity: Warning, Message: m.id, Text: why + strings.TrimSpace(e.Reason)})
	if p.recipients == nil {
		s.undoHold(m)
		return true
	}
	s.resubmitFailed(p)
	m.pendingWrites--
	s.advance(m)
	return true
}

// wakeStore probes a spool that is down, or tries failed writes again.
func (s *Scheduler) retryWritesDue() {
	if s.store.next() > s.now {
		return
	}
	if s.store.down {
		s.store.retryAt = s.now.after(probeInterval)
		s.do(Probe{})
		return
	}
	s.reissueFailed()
}

// spoolBack goes on where the spool failed.
func (s *Scheduler) spoolBack() {
	if !s.store.down {
		return
	}
	s.store.down = false
	s.do(Note{Text: "the spool can be written again"})
	s.reissueFailed()
	for r := s.order.head; r != nil; r = s.order.next(r) {
		s.markDirty(r)
	}
}

// retryStores issues again, in order, what could not be written.
func (s *Scheduler) reissueFailed() {
	ops := s.store.failed
	s.store.failed, s.store.retryAt = nil, 0
	s.counts.FailedWrites = 0
	for _, op := range ops {
		p := s.store.pending[op]
		if p == nil {
			continue
		}
		if p.stale() {
			// Lost meanwhile; the number may be another message's by now.
			delete(s.store.pending, op)
			continue
		}
		s.do(p.action)
	}
}
