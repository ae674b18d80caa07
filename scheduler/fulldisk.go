package scheduler

import (
	"slices"
	"strings"

	"zsched/scheduler/view"
)

// Full disk and other faults: actions on files that have failed are tried again.

// Trouble returns what keeps control files from being written now.
func (s *Scheduler) Trouble() view.Trouble {
	if !s.writes.spoolDown && len(s.writes.failed) == 0 {
		return view.Trouble{}
	}
	t := s.writes.trouble
	t.Down, t.Writes = s.writes.spoolDown, len(s.writes.failed)
	return t
}

// rememberTrouble keeps the reason of a failed write, the last one, and when the first failed. One
// that fails again when it is issued again belongs to the same trouble.
func (wr *writes) rememberTrouble(e Failed) {
	if !wr.spoolDown && len(wr.failed) == 0 && wr.s.agenda.now > wr.failedAt.after(2*retryInterval) {
		wr.trouble.Since = wr.s.agenda.date.time()
	}
	wr.failedAt = wr.s.agenda.now
	wr.trouble.Reason = strings.TrimSpace(e.Reason)
}

// writeFailed handles an action on files that failed.
func (wr *writes) writeFailed(e Failed) {
	if e.SpoolDown {
		wr.stopFeeding(e)
	}
	p := wr.find(e.Op)
	if p == nil {
		return
	}
	_, isResubmit := p.action.(Resubmit)
	switch {
	case p.stale():
	case e.Missing:
		wr.fileMissing(p.message)
	case isResubmit:
		wr.markSent(p, e.Unmarked)
		wr.resubmitFailed(p, e)
	default:
		wr.repeatLater(p, e)
		return
	}
	wr.answered(p)
}

// stopFeeding stops feeding until a probe succeeds, and logs it once.
func (wr *writes) stopFeeding(e Failed) {
	wr.rememberTrouble(e)
	if wr.spoolDown {
		return
	}
	wr.spoolDown = true
	wr.s.agenda.plan(&wr.retry, wr.s.agenda.now.after(probeInterval))
	wr.s.agenda.do(Note{Severity: Error, Text: "the spool cannot be written, nothing is fed until it can: " + e.Reason})
}

// repeatLater keeps an action that failed, to issue it again.
func (wr *writes) repeatLater(p *pending, e Failed) {
	if !e.SpoolDown {
		wr.rememberTrouble(e)
		reason := strings.TrimSpace(e.Reason)
		switch {
		case !e.NoRoom && !wr.failedLast(p.id):
			wr.s.agenda.do(Note{Severity: Error, Message: p.id, Text: "cannot be written, will be tried again: " + reason})
		case e.NoRoom && !wr.full:
			wr.full = true
			wr.s.agenda.do(Note{Severity: Error, Message: p.id, Text: "no room on the disk, it and others wait until deliveries make some: " + reason})
		}
		if !wr.retry.isPlanned() {
			wr.s.agenda.plan(&wr.retry, wr.s.agenda.now.after(retryInterval))
		}
	}
	wr.failed = append(wr.failed, e.Op)
}

// failedLast reports whether the last action that failed was for this message: its recipients need
// no line each in the log.
func (wr *writes) failedLast(id MessageID) bool {
	n := len(wr.failed)
	if n == 0 {
		return false
	}
	p := wr.find(wr.failed[n-1])
	return p != nil && p.id == id
}

// resubmitFailed takes mail that could not be resubmitted back into the queue. It is not tried
// again, because such an order must not be carried out long after its answer. A HOLD is on record:
// its mail stays held, and its files are moved later.
func (wr *writes) resubmitFailed(p *pending, e Failed) {
	verb, reason := string(p.action.(Resubmit).Verb), strings.TrimSpace(e.Reason)
	if len(p.recipients) > 0 {
		what := " cannot be carried out, it is back in the queue: "
		if len(e.Unmarked) > 0 {
			what = " cannot be carried out for all, the others are back in the queue: "
		}
		if !e.SpoolDown { // else the note that the spool cannot be written stands for all
			wr.s.agenda.do(Note{Severity: Warning, Message: p.id, Text: verb + what + reason})
		}
		wr.s.log.record(Condition{State: "undone", Message: p.id, Order: verb, Because: reason})
		wr.s.orders.takeBack(p)
	}
	p.message.pendingWrites--
	wr.advance(p.message)
}

// retryWrites probes a spool that is down, or issues failed writes again.
func (wr *writes) retryWrites() {
	if wr.spoolDown {
		wr.s.agenda.plan(&wr.retry, wr.s.agenda.now.after(probeInterval))
		wr.s.agenda.do(Probe{})
		return
	}
	wr.reissueFailed(false)
}

// spoolBack continues after the spool was down.
func (wr *writes) spoolBack() {
	if !wr.spoolDown {
		return
	}
	wr.spoolDown = false
	wr.s.agenda.do(Note{Text: "the spool can be written again"})
	wr.reissueFailed(false)
	for r := wr.s.rings.inOrder.Head; r != nil; r = wr.s.rings.inOrder.Next(r) {
		wr.s.rings.markDirty(r)
	}
}

// hasMadeRoom plans that actions for which there was no room are issued again soon.
func (wr *writes) hasMadeRoom() {
	if !wr.full || wr.spoolDown || len(wr.failed) == 0 {
		return
	}
	soon := wr.s.agenda.now.after(roomInterval)
	wr.s.agenda.plan(&wr.retry, min(soon, wr.s.agenda.plannedAt(&wr.retry)))
}

// reissueFailed issues the failed actions again, in order, on a full disk a limited number at a
// time unless all is set. If none has failed since the last time, there is room again.
func (wr *writes) reissueFailed(all bool) {
	if wr.full && len(wr.failed) == 0 {
		wr.full = false
		wr.s.agenda.do(Note{Text: "there is room on the disk again"})
	}
	n := len(wr.failed)
	if wr.full && !all {
		n = min(n, maxReissued)
	}
	ops := wr.failed[:n]
	wr.failed = slices.Clone(wr.failed[n:])
	next := never
	switch {
	case len(wr.failed) > 0:
		next = wr.s.agenda.now.after(roomInterval)
	case wr.full:
		next = wr.s.agenda.now.after(retryInterval)
	}
	wr.s.agenda.plan(&wr.retry, next)
	for _, op := range ops {
		p := wr.find(op)
		if p == nil {
			continue
		}
		_, isHold := p.action.(Hold)
		switch m := p.message; {
		case p.stale():
			// Dropped meanwhile; its number may belong to another message now.
			wr.answered(p)
		case isHold && wr.s.orders.heldMessages[m.ref] == nil:
			wr.answered(p)
			wr.s.orders.undoHold(m)
		default:
			wr.s.agenda.do(p.action)
		}
	}
}
