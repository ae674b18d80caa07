package scheduler

import (
	"slices"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/store"
	"zsched/scheduler/view"
)

// Work on control files: outcomes are written and messages are finished. Actions that
// fail are in fulldisk.go.

// writes has the actions on control files that have no answer yet. Each is kept
// until it is known to be on disk. One that has failed is issued again.
type writes struct {
	s *Scheduler

	issued    Op                   // actions so far
	pending   []*pending           // by Op.place
	spare     store.Spare[pending] // those of them that are answered
	failed    []Op                 // to be issued again, in order
	batch     batch                // of the message in inBatch
	trouble   view.Trouble         // why the actions in failed have failed, or why the spool is down
	failedAt  instant              // when the last of them failed
	retry     timer                // when to probe, or to issue failed again
	spoolDown bool                 // no outcome can be written, so nothing is fed
	full      bool                 // the log says that there was no room for an action
}

// Times between attempts to write.
const (
	probeInterval = 10 * time.Second // while the spool is down
	retryInterval = 20 * time.Second // after one file has failed
	roomInterval  = time.Second      // after a message has made room for one of them
	lockedDelay   = 32 * time.Second // for a recipient that a live process has locked
)

// maxReissued bounds the failed actions that are issued again at a time. Each reads its file.
const maxReissued = 1000

// pending is one action on files that has no answer yet.
type pending struct {
	op         Op     // only its place if it is answered
	action     Action // may be &finish
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

// placeBits are the lower bits of an Op: the place of its action in writes.pending. The others
// count the actions.
const placeBits = 28

func (op Op) place() Op { return op & (1<<placeBits - 1) }

// begin returns what is to be kept of a new action on the files of a message.
func (wr *writes) begin(m *message) *pending {
	p := wr.spare.Take()
	if p == nil {
		p = &pending{op: Op(len(wr.pending))}
		wr.pending = append(wr.pending, p)
	}
	wr.issued++
	p.op |= wr.issued << placeBits
	p.message, p.id, p.sequence = m, m.id, m.sequence
	return p
}

// issue issues an action, which is kept until it is answered.
func (wr *writes) issue(p *pending, a Action) {
	p.action = a
	wr.s.agenda.do(a)
}

// find returns what is kept of an action; nil: it is answered.
func (wr *writes) find(op Op) *pending {
	if place := op.place(); op != place && int(place) < len(wr.pending) && wr.pending[place].op == op {
		return wr.pending[place]
	}
	return nil
}

// answered forgets an action.
func (wr *writes) answered(p *pending) {
	*p = pending{op: p.op.place()}
	wr.spare.Put(p)
}

// unanswered is how many actions have no answer yet.
func (wr *writes) unanswered() int { return len(wr.pending) - len(wr.spare) }

// endRecipient ends a recipient with an outcome. It is done when the outcome is
// written, or at once if the agent has written everything.
func (wr *writes) endRecipient(v *vertex, i int, mark *ctlfile.Mark) {
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
		marks, settles := wr.s.mail.endSet(set, *mark, []alternative{{v, i}})
		wr.write(m, marks, settles)
	case mark.LeaveTag && !mark.Diagnose:
		wr.recipientDone(v, i)
	case wr.endsMessage(m, mark):
		wr.settle(v, i)
		wr.finish(m, mark.Offset, mark.Tag)
	default:
		wr.write(m, []ctlfile.Mark{*mark}, []alternative{{v, i}})
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
	m.pendingWrites++
	p := wr.begin(m)
	p.recipients = settles
	wr.issue(p, Mark{Op: p.op, Message: m.id, Path: wr.s.mail.file(m), Marks: marks})
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
	p := wr.begin(m)
	f := &p.finish
	f.Op, f.Message, f.Path, f.Owes = p.op, m.id, wr.s.mail.file(m), m.flags&owesNotice != 0
	f.Untagged, f.Tag, f.ModifiedAt = untagged, tag, m.modifiedAt.time()
	f.Recipients, f.Failed = wr.s.mail.outcomes(m)
	wr.issue(p, f)
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
	p := wr.find(e.Op)
	if p == nil {
		return
	}
	if !p.stale() {
		wr.markSent(p, e.Unmarked)
		wr.applyDone(p, &e)
	}
	wr.answered(p)
}

// markSent writes the outcomes of recipients that a Resubmit has sent and could not mark, and of
// their alternatives. Then the Resubmit is about the others.
func (wr *writes) markSent(p *pending, marks []ctlfile.Mark) {
	if len(marks) == 0 {
		return
	}
	offset := func(a alternative) int64 { return int64(wr.s.mail.recipient(a.vertex, a.index).offset) }
	sent := map[int64]bool{}
	for _, mark := range marks {
		sent[mark.Offset] = true
	}
	ended := map[alternative]bool{}
	for _, a := range p.recipients {
		if set := wr.s.mail.exclusiveSetOf(p.message, a.vertex, a.index); set != nil && sent[offset(a)] {
			set.done = true
			for _, member := range set.members {
				ended[member] = true
			}
		}
	}
	var settles []alternative
	p.recipients = slices.DeleteFunc(p.recipients, func(a alternative) bool {
		switch {
		case sent[offset(a)]:
		case ended[a]:
			marks = append(marks, ctlfile.Mark{Offset: offset(a), Tag: ctlfile.Delivered})
		default:
			return false
		}
		settles = append(settles, a)
		return true
	})
	wr.write(p.message, marks, settles)
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
		wr.hasMadeRoom()
		return
	case Hold, Release:
		m.flags ^= underHold
		wr.s.orders.endMove(m)
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
