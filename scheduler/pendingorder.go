package scheduler

import "slices"

// Pending orders: what is to be done with a vertex that an agent has, whose file is being read,
// or whose message is being moved. It is done when the vertex comes back. A HOLD waits as well,
// but not here: the order that holds the message says so (holdOrders).

// order is what is to be done with recipients of a vertex: KILL, EXPIRE, REQUEUE or REROUTE.
type order struct {
	verb Verb
	to   threadKey // of VerbReroute
	by   string    // who gave it
	why  string    // the reason that was given
}

// order returns what an event orders.
func (e *Ordered) order() *order {
	return &order{verb: e.Verb, to: threadKey{e.To.Channel, e.To.Host}, by: e.By, why: e.Why}
}

// pendingVerb returns the verb of the order on a vertex that waits; 0: none does.
func (ml *mail) pendingVerb(v *vertex) Verb {
	m := ml.messageOf(v)
	switch o := ml.orders[v.ref]; {
	case o != nil:
		return o.verb
	case m.flags&underHold == 0 && ml.holdOrders.messages[m.ref] != nil:
		return VerbHold
	}
	return 0
}

// isKilled reports whether an order is to drop a vertex without a notice.
func (ml *mail) isKilled(v *vertex) bool { return ml.pendingVerb(v) == VerbKill }

// mustWait reports whether an order on a vertex waits.
func (ml *mail) mustWait(v *vertex) bool {
	return v.state == fed || v.state == reading || ml.messageOf(v).flags&moving != 0
}

// carryOut executes an order on vertices of one message that need not wait. Of a vertex of
// which only some recipients are ordered, parts has their offsets. What is due is not fed before
// the outcome is on disk, because an agent would find the ordered recipients open. Recipients
// that are sent elsewhere go as one message.
func (dv *delivery) carryOut(m *message, o *order, vertices []*vertex, parts map[vertexRef][]int64) {
	m.pendingWrites++
	elsewhere := resubmission{order: o, hold: dv.holdOfCopy(m, o), pending: pending{message: m}}
	for _, v := range vertices {
		if v.state == due {
			dv.blockVertex(v)
		}
		part, isPart := parts[v.ref]
		chosen := func(r *recipient) bool { return !isPart || hasOffset(part, int64(r.offset)) }
		switch o.verb {
		case VerbKill:
			dv.killRecipients(v, chosen)
		case VerbExpire:
			dv.failByOrder(v, o, chosen)
		default:
			dv.addToResubmit(&elsewhere, v, chosen)
		}
	}
	dv.resubmit(m, &elsewhere)
	for _, v := range vertices {
		dv.resume(v)
	}
	m.pendingWrites--
	dv.advance(m)
}

// carryOutPending executes the order on a vertex that has come back, and holds it if its message
// is to be held.
func (dv *delivery) carryOutPending(v *vertex) {
	if v.state == 0 || dv.mustWait(v) {
		return
	}
	m := dv.messageOf(v)
	if o := dv.orders[v.ref]; o != nil {
		delete(dv.orders, v.ref)
		dv.carryOut(m, o, []*vertex{v}, nil)
	} else if dv.pendingVerb(v) == VerbHold {
		dv.holdVertex(v)
		dv.advance(m)
	}
}

// resume makes a blocked vertex due if it can be fed again, and blocks one that cannot be, when
// nothing of it is being written.
func (dv *delivery) resume(v *vertex) {
	switch {
	case v.state == 0 || dv.isWriting(v):
	case v.state == blocked && dv.feedable(v) > 0:
		dv.makeDue(v)
	default:
		dv.blockIfEmpty(v)
	}
}

// isWriting reports whether the outcome of a recipient of the vertex is being written.
func (ml *mail) isWriting(v *vertex) bool {
	for i := range ml.lenOf(v) {
		if ml.recipient(v, i).state == writing {
			return true
		}
	}
	return false
}

// failByOrder fails the open recipients of a vertex that an EXPIRE is about.
func (dv *delivery) failByOrder(v *vertex, o *order, chosen func(*recipient) bool) {
	words := "expired by the administrator"
	if o.why != "" {
		words += ": " + o.why
	}
	dv.fail(v, failureCause{
		words: words, code: "5.0.0 (expired by the administrator)",
		applies: func(r *recipient) bool { return (r.state == open || r.state == standby) && chosen(r) },
	})
}

// holdOfCopy returns the order that holds what an order on a message sends elsewhere; nil: it is
// not held there.
func (dv *delivery) holdOfCopy(m *message, o *order) *HoldOrder {
	if o.verb == VerbReroute && m.flags&underHold != 0 {
		return dv.holdOrders.messages[m.ref]
	}
	return nil
}

// target returns where an order sends mail; zero: it is no reroute.
func (o *order) target() Target {
	if o == nil {
		return Target{}
	}
	return Target{Channel: o.to.channel, Host: o.to.host}
}

// hasOffset reports whether an offset is among these, which are ascending.
func hasOffset(offsets []int64, offset int64) bool {
	_, found := slices.BinarySearch(offsets, offset)
	return found
}

// OrdersWithAgents counts those of the messages for which an order waits until an agent
// reports.
func (s *Scheduler) OrdersWithAgents(ids []MessageID) (n int) {
	for _, id := range ids {
		m := s.message(id)
		if m == nil {
			continue
		}
		waits := func(v *vertex) bool { return v.state == fed && s.pendingVerb(v) != 0 }
		if slices.ContainsFunc(s.openVertices(m), waits) {
			n++
		}
	}
	return n
}
