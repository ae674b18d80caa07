package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// readAgain keeps a vertex from being fed until its file has been read.
func (dv *delivery) readAgain(v *vertex, why readReason, pid int) {
	m := dv.messageOf(v)
	dv.setState(v, reading, 0)
	v.readReason = why
	op := dv.nextOp()
	dv.issue(op, &pending{
		action:  Read{Op: op, Message: m.id, Path: dv.path(m), PID: pid},
		message: m, vertex: v,
	})
}

// reread compares a vertex with what its file says.
func (dv *delivery) reread(e *Reread) {
	p := dv.store.pending[e.Op]
	if p == nil {
		return
	}
	delete(dv.store.pending, e.Op)
	v, m := p.vertex, p.message
	if p.stale() || v.state != reading {
		return
	}
	if e.Missing {
		dv.fileMissing(m)
		return
	}
	if e.Owes {
		m.flags |= owesNotice
	}
	m.pendingWrites++
	locked := dv.compareTags(v, e.Recipients)
	if v.state != 0 {
		dv.vertexRead(v, locked)
	}
	m.pendingWrites--
	dv.advance(m)
}

// compare ends the recipients that the file says are done, and reports
// whether a live process has one locked.
func (dv *delivery) compareTags(v *vertex, states []RecipientState) (locked bool) {
	for i := range v.len() {
		r := dv.recipient(v, i)
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
			dv.account(v, i, "ok")
			dv.endRecipient(v, i, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Delivered, LeaveTag: true}, true)
		case ctlfile.Failed:
			dv.messageOf(v).failed++
			dv.account(v, i, "error")
			dv.endRecipient(v, i, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Failed, LeaveTag: true}, false)
		case ctlfile.Locked:
			locked = true
		}
	}
	return locked
}

// returned decides what becomes of a vertex whose file has been read. Nothing
// is charged for a line that was not worked on.
func (dv *delivery) vertexRead(v *vertex, locked bool) {
	why := v.readReason
	v.readReason = noReason
	switch {
	case v.ordered != 0:
		dv.reopenRecipients(v)
		dv.execute(v)
	case locked:
		dv.postpone(v, dv.now.after(lockedDelay))
	case why == agentCrashed:
		if v.crashes++; v.crashes >= maxCrashes {
			dv.poisonVertex(v)
			return
		}
		dv.takeRetryStep(v)
	case why == foundNothing:
		v.crashes = 0
		dv.takeRetryStep(v)
	case dv.wasReported(v):
		dv.takeRetryStep(v)
	default:
		dv.reopenRecipients(v)
		if dv.feedable(v) == 0 {
			dv.blockVertex(v)
			return
		}
		dv.makeDue(v)
	}
}

// heardOf reports whether its last agent has deferred a recipient.
func (ml *mail) wasReported(v *vertex) bool {
	for i := range v.len() {
		if ml.recipient(v, i).state == reported {
			return true
		}
	}
	return false
}

// poison puts a vertex aside that agents die on. The last death, too, costs an
// attempt.
func (q *queue) poisonVertex(v *vertex) {
	q.countAttempts(v)
	q.reopenRecipients(v)
	q.setState(v, poisoned, 0)
	key := q.threadOf(v).key
	q.do(Note{Severity: Error, Message: q.messageOf(v).id, Text: "an agent for " + key.channel + "/" +
		key.host + " died on it three times running: put aside until a retry, a reload, a release or a restart"})
	q.planWake(v)
}

// lose forgets a message whose control file is gone.
func (dv *delivery) fileMissing(m *message) {
	dv.do(Note{Severity: Warning, Message: m.id, Text: "its control file is gone, forgotten: " + dv.path(m)})
	dv.dropMessage(m)
}
