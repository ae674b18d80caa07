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
func (dv *delivery) issue(op Op, p *pending) {
	p.id, p.order = p.message.id, p.message.sequence
	dv.store.pending[op] = p
	dv.do(p.action)
}

func (dv *delivery) nextOp() Op {
	dv.store.last++
	return dv.store.last
}

// settle ends a recipient with an outcome. It is gone once the outcome is
// written, or at once where the agent has written all there is.
func (dv *delivery) endRecipient(v *vertex, i int, mark RecipientMark, success bool) {
	r := dv.recipient(v, i)
	hadTurn := r.state != standby
	r.state = writing
	dv.clearDiagnostic(r)
	m := dv.messageOf(v)
	set, place := dv.exclusiveSetOf(m, v, i)
	if set != nil && !success && hadTurn {
		dv.promote(set, place)
	}
	switch {
	case set != nil && success:
		marks, settles := dv.endSet(set, mark, []alternative{{v, i}})
		dv.write(m, marks, settles)
	case mark.LeaveTag && !mark.Diagnose:
		dv.recipientDone(v, i)
	default:
		dv.write(m, []RecipientMark{mark}, []alternative{{v, i}})
	}
	dv.blockIfEmpty(v)
}

// write has outcomes written; the recipients are gone when they are.
func (dv *delivery) write(m *message, marks []RecipientMark, settles []alternative) {
	if b := &dv.store.batch; b.message == m {
		b.marks, b.recipients = append(b.marks, marks...), append(b.recipients, settles...)
		return
	}
	if len(marks) == 0 {
		return
	}
	op := dv.nextOp()
	m.pendingWrites++
	dv.issue(op, &pending{
		action:  Mark{Op: op, Message: m.id, Path: dv.path(m), Marks: marks},
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
func (dv *delivery) inBatch(m *message, work func()) {
	dv.store.batch = batch{message: m}
	m.pendingWrites++ // it must not leave while it is walked
	work()
	b := dv.store.batch
	dv.store.batch = batch{}
	dv.write(m, b.marks, b.recipients)
	m.pendingWrites--
	dv.advance(m)
}

// quiet takes a vertex out of the queue of which nothing can be fed now.
func (q *queue) blockIfEmpty(v *vertex) {
	if (v.state == due || v.state == waiting) && q.feedable(v) == 0 {
		q.blockVertex(v)
	}
}

// gone drops a recipient that is done, and what it was the last of.
func (dv *delivery) recipientDone(v *vertex, i int) {
	t := dv.threadOf(v)
	dv.countOut(t, dv.recipient(v, i))
	v.open--
	t.recipients--
	m := dv.messageOf(v)
	m.open--
	dv.counts.Recipients--
	dv.counts.RecipientsOut++
	if v.open == 0 {
		dv.removeVertex(v)
	}
	dv.advance(m)
}

// countOut counts a recipient that leaves, unless its outcome has been counted.
func (ml *mail) countOut(t *thread, r *recipient) {
	if r.state != done && r.flags&counted == 0 {
		t.channel.dropped++
	}
	r.state = done
}

// finish has the files of a message removed, or parked when it owes notices.
func (dv *delivery) finish(m *message) {
	m.flags |= removing
	op := dv.nextOp()
	dv.do(Complete{
		Message: m.id, ModifiedAt: m.modifiedAt.time(),
		Recipients: int(m.recipients), Failed: int(m.failed),
	})
	dv.issue(op, &pending{
		action:  Finish{Op: op, Message: m.id, Path: dv.path(m), Owes: m.flags&owesNotice != 0},
		message: m,
	})
}

func (dv *delivery) killVertex(v *vertex) {
	m := dv.messageOf(v)
	var marks []RecipientMark
	var settles []alternative
	for i := range v.len() {
		r := dv.recipient(v, i)
		if r.state == writing || r.state == done {
			continue
		}
		hadTurn := r.state != standby
		r.state = writing
		dv.clearDiagnostic(r)
		if set, place := dv.exclusiveSetOf(m, v, i); set != nil && hadTurn {
			dv.promote(set, place)
		}
		marks = append(marks, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Delivered})
		settles = append(settles, alternative{v, i})
	}
	dv.blockVertex(v)
	dv.write(m, marks, settles)
}

// done is the completion of an action other than a Read.
func (dv *delivery) writeDone(op Op) {
	p := dv.store.pending[op]
	if p == nil {
		return
	}
	delete(dv.store.pending, op)
	m := p.message
	if p.stale() {
		return
	}
	switch p.action.(type) {
	case Finish:
		dv.removeMessage(m)
		return
	case Hold:
		dv.dropMessage(m)
		return
	}
	for _, a := range p.recipients {
		if dv.recipient(a.vertex, a.index).state == writing {
			dv.recipientDone(a.vertex, a.index)
		}
	}
	m.pendingWrites--
	dv.advance(m)
}

// failed keeps what could not be written and plans to issue it again.
func (dv *delivery) writeFailed(e Failed) {
	p := dv.store.pending[e.Op]
	if p == nil {
		return
	}
	if e.Missing {
		delete(dv.store.pending, e.Op)
		if !p.stale() {
			dv.fileMissing(p.message)
		}
		return
	}
	if e.SpoolDown && !dv.spoolDown {
		dv.spoolDown, dv.store.retryAt = true, dv.now.after(probeInterval)
		dv.do(Note{Severity: Error, Message: p.id, Text: "the spool cannot be written, nothing is fed until it can: " + e.Reason})
	}
	if dv.moveFailed(p, e) {
		return
	}
	dv.store.failed = append(dv.store.failed, e.Op)
	dv.counts.FailedWrites = len(dv.store.failed)
	if e.SpoolDown {
		return
	}
	dv.do(Note{Severity: Error, Message: p.id, Text: "cannot be written, will be tried again: " + strings.TrimSpace(e.Reason)})
	if dv.store.retryAt == 0 {
		dv.store.retryAt = dv.now.after(retryInterval)
	}
}

// refused takes mail back into the queue that could not be moved elsewhere. An
// order is not carried out later than its answer says.
func (dv *delivery) moveFailed(p *pending, e Failed) bool {
	m, why := p.message, ""
	switch p.action.(type) {
	case Hold:
		why = "cannot be held, is back in the queue: "
	case Resubmit:
		why = "cannot be sent elsewhere, is back in the queue: "
	default:
		return false
	}
	delete(dv.store.pending, e.Op)
	if p.stale() {
		return true
	}
	dv.do(Note{Severity: Warning, Message: m.id, Text: why + strings.TrimSpace(e.Reason)})
	if p.recipients == nil {
		dv.undoHold(m)
		return true
	}
	dv.resubmitFailed(p)
	m.pendingWrites--
	dv.advance(m)
	return true
}

// wakeStore probes a spool that is down, or tries failed writes again.
func (dv *delivery) retryWritesDue() {
	if dv.store.next() > dv.now {
		return
	}
	if dv.spoolDown {
		dv.store.retryAt = dv.now.after(probeInterval)
		dv.do(Probe{})
		return
	}
	dv.reissueFailed()
}

// spoolBack goes on where the spool failed.
func (dv *delivery) spoolBack() {
	if !dv.spoolDown {
		return
	}
	dv.spoolDown = false
	dv.do(Note{Text: "the spool can be written again"})
	dv.reissueFailed()
	for r := dv.order.head; r != nil; r = dv.order.next(r) {
		dv.markDirty(r)
	}
}

// retryStores issues again, in order, what could not be written.
func (dv *delivery) reissueFailed() {
	ops := dv.store.failed
	dv.store.failed, dv.store.retryAt = nil, 0
	dv.counts.FailedWrites = 0
	for _, op := range ops {
		p := dv.store.pending[op]
		if p == nil {
			continue
		}
		if p.stale() {
			// Lost meanwhile; the number may be another message's by now.
			delete(dv.store.pending, op)
			continue
		}
		dv.do(p.action)
	}
}
