package scheduler

import "zsched/scheduler/view"

// Hold: messages that an administrator keeps back, and mail of held threads.
//
//	                every vertex is held, and nothing is being written: Hold
//	in transport/ ────────────────────────────────────────────────────────► under hold/
//	              ◄────────────────────────────────────────────────────────
//	                no order holds the message any more: Release
//
// Orders that come while the files are being moved wait until they have arrived.
//
// The vertices of a held thread keep their states. As their times come they
// leave the agenda, so they do not expire. Recipients that were held, in a
// thread or with their message, must have an attempt after the release before
// they can expire, however long that takes.

// requireAttempt gives the recipients of a vertex that is released an attempt before they can
// expire.
func (od *orders) requireAttempt(v *vertex) {
	for i := range od.s.mail.lenOf(v) {
		od.s.mail.recipient(v, i).flags |= mustAttempt
	}
}

// setHold notes by which order a message is held.
func (od *orders) setHold(m *message, o *HoldOrder) {
	od.heldMessages[m.ref] = o
	od.holdEnd = min(od.holdEnd, endOf(o))
}

// holdArrived holds a message that arrives, if its files lie under hold/ or its hold was
// recorded before it was carried out.
func (od *orders) holdArrived(m *message, in *Message) {
	switch o := in.Hold; {
	case m.flags&underHold == 0 && o == nil:
	case m.flags&underHold == 0:
		od.hold(m, o)
	case in.Released:
		od.s.writes.advance(m)
	case o == nil:
		od.s.agenda.do(Note{Severity: Warning, Message: m.id, Text: "nothing says who holds it: it is held until it is released"})
		o = new(HoldOrder)
		fallthrough
	default:
		od.setHold(m, o)
	}
}

// hold keeps a message from being fed, and moves it to hold/ when no agent has any of it. The
// orders that wait on it are replaced. Under hold/, and while the files are being moved, nothing
// else changes.
func (od *orders) hold(m *message, o *HoldOrder) {
	od.setHold(m, o)
	vertices := od.s.mail.openVertices(m)
	for _, v := range vertices {
		od.withdraw(v, view.VerbHold)
	}
	if m.flags&(underHold|moving) != 0 {
		return
	}
	for _, v := range vertices {
		if !od.mustWait(v) {
			od.holdVertex(v)
		}
	}
	od.s.writes.advance(m)
}

// holdVertex keeps a vertex from being fed, because its message is under hold/ or is to be
// moved there.
func (od *orders) holdVertex(v *vertex) {
	od.s.threads.fair.Remove(v.ref)
	od.s.threads.setState(v, held, 0)
	od.s.threads.updateThread(od.s.mail.threadOf(v))
}

// allHeld reports whether all vertices of the message are held, so that nothing in it
// changes any more.
func (od *orders) allHeld(m *message) bool {
	all := true
	od.s.mail.eachVertex(m, func(v *vertex) { all = all && (v.state == 0 || v.state == held) })
	return all
}

// isToBeMoved reports whether the files of a message are where they are not to be, and can
// be moved.
func (od *orders) isToBeMoved(m *message) bool {
	isUnder, isHeld := m.flags&underHold != 0, od.heldMessages[m.ref] != nil
	return isUnder != isHeld && (isUnder || od.allHeld(m))
}

// moveFiles moves a message to hold/, or back from there.
func (od *orders) moveFiles(m *message) {
	m.flags |= moving
	p := od.s.writes.begin(m)
	var a Action = Hold{Op: p.op, Message: m.id, Path: od.s.mail.path(m)}
	if m.flags&underHold != 0 {
		a = Release{Op: p.op, Message: m.id, Path: od.s.mail.path(m)}
	}
	od.s.writes.issue(p, a)
}

// undoHold takes back into the queue a message that is no longer to be held, before its files have
// been moved.
func (od *orders) undoHold(m *message) {
	delete(od.heldMessages, m.ref)
	od.endMove(m)
}

// endMove continues with a message whose files are where they are to stay for now.
func (od *orders) endMove(m *message) {
	m.flags &^= moving
	for _, v := range od.s.mail.openVertices(m) {
		if m.flags&underHold == 0 {
			od.requireAttempt(v)
		}
		od.resume(v)
	}
	od.s.writes.advance(m)
}
