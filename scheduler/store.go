package scheduler

import (
	"time"

	"zsched/ctlfile"
)

// Work on control files: outcomes are written and messages are finished. Actions that
// fail are in fulldisk.go.

// writes has the actions on control files that have no answer yet. Each is kept
// until it is known to be on disk. One that has failed is issued again.
type writes struct {
	s *Scheduler

	last      Op
	pending   map[Op]*pending
	spare     []*pending // answered ones, for reuse
	failed    []Op       // to be issued again, in order
	batch     batch      // of the message in inBatch
	trouble   Trouble    // why the actions in failed have failed, or why the spool is down
	retry     timer      // when to probe, or to issue failed again
	spoolDown bool       // nothing can be written, so nothing is fed
}

// Times between attempts to write.
const (
	probeInterval = 10 * time.Second // while the spool is down
	retryInterval = 20 * time.Second // after one file has failed
	lockedDelay   = 32 * time.Second // for a recipient that a live process has locked
)

// pending is one action on files that has no answer yet.
type pending struct {
	action     Action // nil for issue: finish
	finish     Finish
	message    *message
	id         MessageID     // of message
	sequence   int64         // of message; shows whether it has left
	vertex     *vertex       // of a Read
	attempt    string        // of a Read: what the attempt has led to; "": there was none
	recipients []alternative // of a Mark or Resubmit; they are done after it
}

// stale reports whether the message has left. Its place in memory may be used
// by another.
func (p *pending) stale() bool { return p.message.sequence != p.sequence }

// issue issues an action on files and keeps it until it is answered.
func (wr *writes) issue(op Op, p pending) {
	p.id, p.sequence = p.message.id, p.message.sequence
	var kept *pending
	if last := len(wr.spare) - 1; last >= 0 {
		kept, wr.spare = wr.spare[last], wr.spare[:last]
	} else {
		kept = new(pending)
	}
	*kept = p
	if p.action == nil {
		kept.action = &kept.finish
	}
	wr.pending[op] = kept
	wr.s.agenda.do(kept.action)
}

func (wr *writes) nextOp() Op {
	wr.last++
	return wr.last
}

// endRecipient ends a recipient with an outcome. It is done when the outcome is
// written, or at once if the agent has written everything.
func (wr *writes) endRecipient(v *vertex, i int, mark ctlfile.Mark) {
	r := wr.s.mail.recipient(v, i)
	success := mark.Tag == ctlfile.Delivered && !mark.Killed
	r.state = writing
	r.flags &^= hasFailed
	if mark.Tag == ctlfile.Failed {
		r.flags |= hasFailed
	}
	wr.s.mail.clearDiagnostic(r)
	m := wr.s.mail.messageOf(v)
	set := wr.s.mail.exclusiveSetOf(m, v, i)
	if !success {
		wr.openAlternatives(m)
	}
	switch {
	case set != nil && success:
		marks, settles := wr.s.mail.endSet(set, mark, []alternative{{v, i}})
		wr.write(m, marks, settles)
	case mark.LeaveTag && !mark.Diagnose:
		wr.recipientDone(v, i)
	case wr.endsMessage(m, &mark):
		wr.settle(v, i)
		wr.finish(m, mark.Offset, mark.Tag)
	default:
		wr.write(m, []ctlfile.Mark{mark}, []alternative{{v, i}})
	}
	wr.s.threads.blockIfEmpty(v)
}

// endsMessage reports whether an outcome of an open recipient ends its message
// and need not be written before the files are removed. A crash before the
// removal costs the same as one before the tag: the recipient may be delivered
// again. An outcome that must be reported to somebody is always written.
func (wr *writes) endsMessage(m *message, mark *ctlfile.Mark) bool {
	return m.open == 1 && !mark.Diagnose && m.pendingWrites == 0 && m.flags&(owesNotice|removing|moving) == 0
}

// write asks for outcomes to be written. Their recipients are done after that.
func (wr *writes) write(m *message, marks []ctlfile.Mark, settles []alternative) {
	if b := &wr.batch; b.message == m {
		b.marks, b.recipients = append(b.marks, marks...), append(b.recipients, settles...)
		return
	}
	if len(marks) == 0 {
		return
	}
	op := wr.nextOp()
	m.pendingWrites++
	wr.issue(op, pending{
		action:  Mark{Op: op, Message: m.id, Path: wr.s.mail.file(m), Marks: marks},
		message: m, recipients: settles,
	})
}

// batch collects what is to be written into one file.
type batch struct {
	message    *message
	marks      []ctlfile.Mark
	recipients []alternative
}

// inBatch runs work and then writes all outcomes of the message in one action.
func (wr *writes) inBatch(m *message, work func()) {
	if wr.batch.message == m {
		work()
		return
	}
	wr.batch = batch{message: m}
	m.pendingWrites++ // keeps the message until work returns
	work()
	b := wr.batch
	wr.batch = batch{}
	wr.write(m, b.marks, b.recipients)
	m.pendingWrites--
}

// recipientDone ends a recipient whose outcome is on disk. If it was the last
// one, its vertex and its message end too.
func (wr *writes) recipientDone(v *vertex, i int) {
	m := wr.s.mail.messageOf(v)
	wr.settle(v, i)
	wr.advance(m)
}

// settle ends a recipient, and its vertex if it was the last one.
func (wr *writes) settle(v *vertex, i int) {
	t := wr.s.mail.threadOf(v)
	wr.s.mail.recipient(v, i).state = done
	if v.more != 0 {
		wr.s.mail.moreRecipients.At(v.more).open--
	}
	t.recipients--
	m := wr.s.mail.messageOf(v)
	m.open--
	wr.s.mail.counts.Recipients--
	wr.s.mail.counts.RecipientsOut++
	if wr.s.mail.openOf(v) == 0 {
		wr.s.threads.removeVertex(v)
	}
}

// finish asks for the files of a message to be removed, after the notice that it
// may owe has been written. Untagged and tag are as in Finish.
func (wr *writes) finish(m *message, untagged int64, tag ctlfile.Tag) {
	m.flags |= removing
	op := wr.nextOp()
	recipients, failed := wr.s.mail.outcomes(m)
	wr.issue(op, pending{message: m, finish: Finish{
		Op: op, Message: m.id, Path: wr.s.mail.file(m), Owes: m.flags&owesNotice != 0,
		Untagged: untagged, Tag: tag,
		ModifiedAt: m.modifiedAt.time(), Recipients: recipients, Failed: failed,
	}})
}

// outcomes counts the recipients of a message that are done, and those of them that have failed.
func (ml *mail) outcomes(m *message) (recipients, failed int) {
	ml.eachVertex(m, func(v *vertex) {
		recipients += ml.lenOf(v)
		for i := range ml.lenOf(v) {
			if ml.recipient(v, i).flags&hasFailed != 0 {
				failed++
			}
		}
	})
	return recipients, failed
}

// writeDone handles the success of an action on files.
func (wr *writes) writeDone(e Done) {
	p := wr.pending[e.Op]
	if p == nil {
		return
	}
	delete(wr.pending, e.Op)
	if !p.stale() {
		wr.applyDone(p, &e)
	}
	*p = pending{}
	wr.spare = append(wr.spare, p)
}

// applyDone applies the success of an action to its message.
func (wr *writes) applyDone(p *pending, e *Done) {
	m := p.message
	if e.Owes {
		m.flags |= owesNotice
	}
	switch p.action.(type) {
	case Read:
		wr.s.lines.reread(p.vertex, p.attempt, e.Recipients)
		return
	case *Finish:
		wr.removeMessage(m)
		return
	case Hold, Release:
		wr.s.orders.filesMoved(m)
		return
	}
	for _, a := range p.recipients {
		if wr.s.mail.recipient(a.vertex, a.index).state == writing {
			wr.recipientDone(a.vertex, a.index)
		}
	}
	eachVertexOf(p.recipients, wr.s.orders.resume)
	m.pendingWrites--
	wr.advance(m)
}
