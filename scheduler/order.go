package scheduler

import (
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// Orders of administrators: kill, expire, retry, hold, requeue, reroute. An
// order is executed at once on vertices that no agent has and whose file is not
// being read. On the others it waits until they come back, if it is about all of their
// recipients; otherwise it is refused. Its way is
//
//	ordered, apply            order.go         which vertices, how many recipients
//	order, carryOut           pendingorder.go  what must wait, what is done
//	hold; resubmit; fail      hold.go reroute.go fail.go
//	write, issue              store.go

// orders has what administrators have ordered: what is held, and what waits until an
// agent has reported.
type orders struct {
	s *Scheduler

	waiting map[vertexRef]*Ordered // until an agent has reported

	// The hold orders in force. The messages under hold/ that have no record are there with an
	// empty order.
	heldMessages map[messageRef]*HoldOrder
	heldThreads  map[threadKey]*HoldOrder
	holdEnd      date // when the first of them ends
}

// Target is a message, or the part of it for one channel and host.
type Target struct {
	Message       MessageID
	Channel, Host string // both empty: the whole message
}

// ordered executes an order as far as possible now. Adjacent targets in the same
// message are handled together.
func (od *orders) ordered(e *Ordered) {
	answer := Answer{}
	if e.Verb == view.VerbHold && e.Hold == nil {
		e.Hold = &HoldOrder{By: e.By, Because: e.Because}
	}
	for targets := e.Targets; len(targets) > 0; {
		n := 1
		for n < len(targets) && targets[n].Message == targets[0].Message {
			n++
		}
		here := targets[:n]
		targets = targets[n:]
		if m := od.s.mail.message(here[0].Message); m != nil {
			if n := od.apply(e, m, od.targetVertices(e, m, here), &answer); n > 0 {
				answer.Recipients += n
				answer.Messages++
			}
		}
	}
	od.s.agenda.do(answer)
}

// targetVertices returns the vertices of a message that are targets, each once.
func (od *orders) targetVertices(e *Ordered, m *message, targets []Target) []*vertex {
	vertices := od.s.mail.openVertices(m)
	if e.Verb == view.VerbHold || e.Verb == view.VerbRelease {
		return vertices
	}
	wanted := make(map[*thread]bool, len(targets))
	for _, target := range targets {
		if target.Channel == "" && target.Host == "" {
			return vertices
		}
		wanted[od.s.threads.byKey[threadKey{target.Channel, target.Host}]] = true
	}
	return slices.DeleteFunc(vertices, func(v *vertex) bool { return !wanted[od.s.mail.threadOf(v)] })
}

// apply applies an order to vertices of one message. It returns how many
// recipients are affected.
func (od *orders) apply(e *Ordered, m *message, vertices []*vertex, answer *Answer) int {
	if m.flags&removing != 0 {
		return 0
	}
	n, withAgent, refused := 0, false, false
	touched := vertices[:0]
	for _, v := range vertices {
		here := od.affected(v, e)
		isPart := func() bool {
			return od.s.mail.anyOf(v, func(r *recipient) bool { return r.state != done && !e.isAbout(m, r) })
		}
		switch {
		case here == 0:
			continue
		case od.mustWait(v) && isPart():
			refused = true
			continue
		}
		n += here
		withAgent = withAgent || v.state == fed
		touched = append(touched, v)
	}
	if refused {
		answer.Refused++
	}
	if withAgent && e.Verb != view.VerbRelease {
		answer.WithAgents++
	}
	if n == 0 || e.DryRun {
		return n
	}
	od.s.log.recordTouched(e, m.id, m.modifiedAt, n)
	switch e.Verb {
	case view.VerbRetry:
		for _, v := range touched {
			od.retryNow(v)
		}
	case view.VerbRelease:
		od.releaseNow(m)
	case view.VerbHold:
		od.hold(m, e.Hold)
	case view.VerbKill, view.VerbExpire, view.VerbRequeue, view.VerbReroute:
		od.order(e, m, touched)
	default:
		panic("scheduler: unknown order")
	}
	return n
}

// affected counts the recipients of the vertex that an order changes. What is being written stays
// as it is. An order does not send recipients again to the place to which an earlier one is to send
// them. A move to another node leaves held mail: it would lose the hold.
func (od *orders) affected(v *vertex, e *Ordered) int {
	m, to := od.s.mail.messageOf(v), threadKey{e.To.Channel, e.To.Host}
	before := od.waiting[v.ref]
	switch {
	case e.Verb == view.VerbRetry && v.state != due && v.state != waiting,
		e.Verb == view.VerbRelease && !od.isHeldOrToBe(v),
		e.Verb == view.VerbReroute && !e.Back && od.s.mail.threadOf(v).key == to,
		e.Verb == view.VerbReroute && before != nil && before.Verb == view.VerbReroute && threadKey{before.To.Channel, before.To.Host} == to,
		e.movesAway() && od.s.notices.isKeptBack(v):
		return 0
	}
	n := 0
	for i := range od.s.mail.lenOf(v) {
		r := od.s.mail.recipient(v, i)
		if r.isUndelivered() && e.isAbout(m, r) {
			n++
		}
	}
	return n
}

// isHeldOrToBe reports whether the message of a vertex is held, or to be held.
func (od *orders) isHeldOrToBe(v *vertex) bool {
	return od.heldMessages[v.message] != nil || od.s.mail.messageOf(v).flags&underHold != 0
}

// movesAway reports whether an order moves mail to another node, or back from its way to
// one.
func (e *Ordered) movesAway() bool {
	return e.Verb == view.VerbReroute && e.To.Channel == ctlfile.TransferChannel
}

// isAbout reports whether an order on the vertex of a recipient is about that recipient.
func (e *Ordered) isAbout(m *message, r *recipient) bool {
	only := e.Only[m.id]
	if only == nil || e.Verb == view.VerbHold || e.Verb == view.VerbRetry || e.Verb == view.VerbRelease {
		return true
	}
	_, found := slices.BinarySearch(only, int64(r.offset))
	return found
}

// retryNow makes a vertex due, within the window. A queueonly thread that is
// not running begins a run with it.
func (od *orders) retryNow(v *vertex) {
	t := od.s.mail.threadOf(v)
	od.retryThread(t)
	if v.state != due {
		od.s.threads.makeDue(v)
		return
	}
	if !v.place.Queued() {
		od.s.threads.enqueueVertex(t, v)
	}
	od.s.threads.updateThread(t)
}

// retryThread ends the suspensions of a thread, some of whose mail is to be due now.
func (od *orders) retryThread(t *thread) {
	if t.suspendedUntil != 0 {
		t.suspendedUntil = od.s.agenda.now
		od.s.threads.resumeThread(t)
	}
	t.running = t.params.QueueOnly
}

// releaseNow ends the hold of a message.
func (od *orders) releaseNow(m *message) {
	if m.flags&(underHold|moving) == 0 {
		od.undoHold(m)
		return
	}
	delete(od.heldMessages, m.ref)
	od.s.writes.advance(m)
}
