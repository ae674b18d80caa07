package scheduler

import (
	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// Pending orders: what is to be done with a vertex that an agent has, whose file is being read,
// or whose message is being moved. It is done when the vertex comes back. A HOLD waits as well,
// but not here: the order that holds the message says so.

// pendingVerb returns the verb of the order on a vertex that waits; "": none does.
func (od *orders) pendingVerb(v *vertex) view.Verb {
	m := od.s.mail.messageOf(v)
	switch o := od.waiting[v.ref]; {
	case o != nil:
		return o.Verb
	case m.flags&underHold == 0 && od.heldMessages[m.ref] != nil:
		return view.VerbHold
	}
	return ""
}

// isKilled reports whether an order is to drop a vertex without a notice.
func (od *orders) isKilled(v *vertex) bool { return od.pendingVerb(v) == view.VerbKill }

// mustWait reports whether an order on a vertex waits.
func (od *orders) mustWait(v *vertex) bool {
	return v.state == fed || v.state == reading || od.s.mail.messageOf(v).flags&moving != 0
}

// order executes an order on vertices of one message, and keeps it for those that must wait.
func (od *orders) order(e *Ordered, m *message, vertices []*vertex) {
	o := &Ordered{Verb: e.Verb, To: Target{Channel: e.To.Channel, Host: e.To.Host}, By: e.By, Because: e.Because}
	ready := vertices[:0]
	for _, v := range vertices {
		if od.mustWait(v) {
			od.withdraw(v, e.Verb)
			od.waiting[v.ref] = o
			od.s.agents.closeIfKilled(od.s.agents.byID[v.agent])
		} else {
			ready = append(ready, v)
		}
	}
	od.carryOut(m, e, ready)
}

// withdraw drops the order on a vertex that waits, because another order replaces it.
func (od *orders) withdraw(v *vertex, by view.Verb) {
	if before := od.waiting[v.ref]; before != nil && (before.Verb != by || by == view.VerbReroute) {
		key := od.s.mail.threadOf(v).key
		od.s.agenda.do(Note{
			Severity: Warning, Message: od.s.mail.messageOf(v).id,
			Text: string(before.Verb) + " for " + key.channel + "/" + key.host + " was still waiting and is not carried out: " + string(by) + " replaces it",
		})
	}
	delete(od.waiting, v.ref)
}

// carryOut executes an order on vertices of one message that need not wait. What is due is not fed before
// the outcome is on disk, because an agent would find the ordered recipients open. Recipients
// that are sent elsewhere go as one message.
func (od *orders) carryOut(m *message, o *Ordered, vertices []*vertex) {
	chosen := func(r *recipient) bool { return o.isAbout(m, r) }
	elsewhere := resubmission{order: o, hold: od.holdOfCopy(m, o)}
	od.s.writes.inBatch(m, func() {
		for _, v := range vertices {
			if v.state == due {
				od.s.threads.blockVertex(v)
			}
			switch o.Verb {
			case view.VerbKill:
				od.kill(v, chosen)
			case view.VerbExpire:
				od.failByOrder(v, o, chosen)
			case view.VerbRequeue, view.VerbReroute:
				od.addToResubmit(&elsewhere, v, chosen)
			}
		}
		od.resubmit(m, &elsewhere)
		for _, v := range vertices {
			od.resume(v)
		}
	})
	od.s.writes.advance(m)
}

// kill tags those of the recipients of a vertex that are chosen as done, without a
// notice.
func (od *orders) kill(v *vertex, chosen func(*recipient) bool) {
	for i := range od.s.mail.lenOf(v) {
		if r := od.s.mail.recipient(v, i); r.isUndelivered() && chosen(r) {
			if od.s.rules.config.Events {
				od.s.log.outcome(v, i, killed, 0, diagnostic{})
			}
			od.s.writes.endRecipient(v, i, &ctlfile.Mark{Offset: int64(r.offset), Tag: ctlfile.Delivered, Killed: true})
		}
	}
}

// resume decides what happens to a vertex that nobody works on any more: it has come back, its
// outcomes are on disk, or its message was moved or is not to be. If the message is to be held, it
// is held first, so that nothing that the order on the vertex leaves is fed.
func (od *orders) resume(v *vertex) {
	if v.state == 0 || od.mustWait(v) {
		return
	}
	m, o := od.s.mail.messageOf(v), od.waiting[v.ref]
	delete(od.waiting, v.ref)
	od.s.writes.openAlternatives(m)
	isHeld := od.isHeldOrToBe(v)
	switch {
	case isHeld && v.state != held:
		od.holdVertex(v)
	case isHeld:
	case v.state == held, v.state == blocked && od.s.mail.canBeFed(v):
		od.s.threads.makeDue(v)
		if o == nil { // an order comes before any feed, and resumes the vertex again
			od.s.rings.overfeedThread(od.s.mail.threadOf(v))
		}
	case v.state == blocked:
		od.s.notices.planWake(v) // recipients that are open again may expire
	case !od.s.mail.anyOf(v, (*recipient).isWriting):
		od.s.threads.blockIfEmpty(v)
	}
	switch {
	case o != nil:
		od.carryOut(m, o, []*vertex{v})
	case isHeld:
		od.s.writes.advance(m)
	}
}

// failByOrder fails the open recipients of a vertex that an EXPIRE is about.
func (od *orders) failByOrder(v *vertex, o *Ordered, chosen func(*recipient) bool) {
	words := "expired by the administrator"
	if o.Because != "" {
		words += ": " + o.Because
	}
	od.s.lines.fail(v, words, "5.0.0 (expired by the administrator)", chosen)
}

// holdOfCopy returns the order that holds what an order on a message sends elsewhere; nil: it is
// not held there. A hold that waits for an agent counts: the mail is listed as held.
func (od *orders) holdOfCopy(m *message, o *Ordered) *HoldOrder {
	if o.Verb == view.VerbReroute {
		return od.heldMessages[m.ref]
	}
	return nil
}
