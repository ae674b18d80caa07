package scheduler

import "slices"

// Pending orders: what administrators want done with the recipients of a vertex. An order
// waits while an agent has the vertex, while its file is being read, and until it is the turn
// of its alternatives. What it writes waits for the disk. Until then nothing else of the vertex
// is fed, because an agent would find the ordered recipients open.

// order is what is to be done with recipients of a vertex: KILL, EXPIRE, HOLD, REQUEUE or
// REROUTE. HOLD is always about all of the message.
type order struct {
	verb Verb
	to   threadKey // of VerbReroute
	by   string    // who gave it
	why  string    // the reason that was given
	only []int64   // offsets of the recipients, ascending; nil: all that are open
}

// pendingOrders are the orders on one vertex, in the order in which they were given.
//
// Invariant: no recipient is named by two of them. Only the first may be about all
// recipients: then it is about those that no other one names.
type pendingOrders struct {
	list []order
	// The state that the vertex had before the orders blocked it, and the end of its wait;
	// 0: an agent had it.
	state  vertexState
	wakeAt instant
}

func (o *order) isAbout(r *recipient) bool {
	return o.only == nil || hasOffset(o.only, int64(r.offset))
}

// hasOffset reports whether an offset is among these, which are ascending.
func hasOffset(offsets []int64, offset int64) bool {
	_, found := slices.BinarySearch(offsets, offset)
	return found
}

// orderAt returns the order on a recipient, or nil.
func (ml *mail) orderAt(v *vertex, r *recipient) *order {
	p := ml.orders[v.ref]
	if p == nil {
		return nil
	}
	for i := range slices.Backward(p.list) {
		if p.list[i].isAbout(r) {
			return &p.list[i]
		}
	}
	return nil
}

// orderOn returns the first order on a vertex or a part of it, or nil.
func (ml *mail) orderOn(v *vertex) *order {
	if p := ml.orders[v.ref]; p != nil && len(p.list) > 0 {
		return &p.list[0]
	}
	return nil
}

// wholeOrder returns the verb of the order on all recipients of a vertex that no other order
// names; 0: there is none.
func (ml *mail) wholeOrder(v *vertex) Verb {
	if o := ml.orderOn(v); o != nil && o.only == nil {
		return o.verb
	}
	return 0
}

// isKilled reports whether an order is to drop a recipient without a notice.
func (ml *mail) isKilled(v *vertex, r *recipient) bool {
	o := ml.orderAt(v, r)
	return o != nil && o.verb == VerbKill
}

// holdOrder returns the order to hold a message that waits, or nil.
func (ml *mail) holdOrder(m *message) (hold *order) {
	if len(ml.orders) == 0 {
		return nil
	}
	ml.eachVertex(m, func(v *vertex) {
		if ml.wholeOrder(v) == VerbHold {
			hold = ml.orderOn(v)
		}
	})
	return hold
}

// addOrder adds an order to those on a vertex. It replaces the earlier ones on the same
// recipients.
func (ml *mail) addOrder(v *vertex, o order) {
	p := ml.orders[v.ref]
	if p == nil {
		p = new(pendingOrders)
		ml.orders[v.ref] = p
	}
	p.list = slices.DeleteFunc(p.list, func(before order) bool {
		return o.only == nil || before.only != nil && len(before.without(o.only)) == 0
	})
	for i := range p.list {
		p.list[i].only = p.list[i].without(o.only)
	}
	p.list = append(p.list, o)
}

// without returns the offsets of an order without these; nil if it is about all recipients.
func (o *order) without(offsets []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(o.only), func(offset int64) bool { return hasOffset(offsets, offset) })
}

// dropOrders drops those of the orders on a vertex that are chosen.
func (ml *mail) dropOrders(v *vertex, chosen func(*order) bool) {
	if p := ml.orders[v.ref]; p != nil {
		p.list = slices.DeleteFunc(p.list, func(o order) bool { return chosen(&o) })
	}
}

// carryOut executes the orders on those of the vertices of one message that no agent has and
// whose file is not being read. The last order on a vertex is the first, because the first one
// is about what is left. Recipients that go to the same place are resubmitted as one message.
func (dv *delivery) carryOut(m *message, vertices ...*vertex) {
	if m.flags&moving != 0 {
		return // until the files have arrived
	}
	var groups []*resubmission
	m.pendingWrites++
	for _, v := range vertices {
		if v.state == fed || v.state == reading || dv.orderOn(v) == nil {
			continue
		}
		list := slices.Clone(dv.orders[v.ref].list)
		dv.setAside(v)
		for i := range slices.Backward(list) {
			if v.state == 0 {
				break
			}
			switch o := &list[i]; o.verb {
			case VerbKill:
				dv.killRecipients(v, o.isAbout)
			case VerbExpire:
				dv.failByOrder(v, o)
			case VerbHold:
				dv.holdVertex(v)
			default:
				groups = dv.addToResubmit(groups, v, o)
			}
		}
	}
	for _, g := range groups {
		dv.resubmit(m, g)
	}
	for _, v := range vertices {
		dv.resume(v)
	}
	m.pendingWrites--
	dv.advance(m)
}

// setAside blocks a vertex so that its orders can be carried out, and keeps its state for
// resume.
func (dv *delivery) setAside(v *vertex) {
	dv.reopenRecipients(v)
	switch p := dv.orders[v.ref]; v.state {
	case due, waiting:
		p.state, p.wakeAt = v.state, dv.wakeAt(v)
	case blocked:
		return
	}
	dv.blockVertex(v)
}

// resume gives a vertex the state back that it had before its orders blocked it, as soon as
// nothing of it is being written and no order on all of it waits. An order on a part has then
// been carried out, or was undone.
func (dv *delivery) resume(v *vertex) {
	p := dv.orders[v.ref]
	isBlocked := v.state == blocked || v.state == held
	if p == nil || isBlocked && dv.isWriting(v) || !isBlocked && len(p.list) > 0 {
		return
	}
	if dv.dropOrders(v, func(o *order) bool { return o.only != nil }); len(p.list) > 0 {
		return
	}
	delete(dv.orders, v.ref)
	switch {
	case !isBlocked:
	case dv.messageOf(v).flags&underHold != 0:
		dv.holdVertex(v)
	case dv.feedable(v) == 0:
		dv.blockVertex(v)
	case p.state == waiting && p.wakeAt > dv.now:
		dv.setState(v, waiting, p.wakeAt)
		dv.planWake(v)
	default:
		dv.makeDue(v)
	}
}

// isWriting reports whether the outcome of a recipient of the vertex is being written.
func (ml *mail) isWriting(v *vertex) bool {
	for i := range v.len() {
		if ml.recipient(v, i).state == writing {
			return true
		}
	}
	return false
}

// failByOrder fails the open recipients of a vertex that an EXPIRE is about.
func (dv *delivery) failByOrder(v *vertex, o *order) {
	words := "expired by the administrator"
	if o.why != "" {
		words += ": " + o.why
	}
	dv.fail(v, failureCause{
		words: words, code: "5.0.0 (expired by the administrator)",
		applies: func(r *recipient) bool { return (r.state == open || r.state == standby) && o.isAbout(r) },
	})
}

// holdOfCopy returns the order that holds what an order sends elsewhere; nil: it is not held
// there.
func (dv *delivery) holdOfCopy(v *vertex, o *order) *HoldOrder {
	if m := dv.messageOf(v); o.verb == VerbReroute && m.flags&underHold != 0 {
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

// OrdersWithAgents counts those of the messages for which an order waits until an agent
// reports.
func (s *Scheduler) OrdersWithAgents(ids []MessageID) (n int) {
	for _, id := range ids {
		m := s.message(id)
		if m == nil {
			continue
		}
		waits := func(v *vertex) bool { return v.state == fed && s.orderOn(v) != nil }
		if slices.ContainsFunc(s.openVertices(m), waits) {
			n++
		}
	}
	return n
}

// viewOrders adds the orders on a vertex to its view, and those on parts of it to the views of
// their recipients.
func (s *Scheduler) viewOrders(view *VertexView, v *vertex) {
	p := s.orders[v.ref]
	if p == nil {
		return
	}
	for i := range view.Recipients {
		r := &view.Recipients[i]
		for j := range p.list {
			if o := &p.list[j]; o.only != nil && hasOffset(o.only, r.Offset) {
				r.Ordered, r.OrderedTo = o.verb, o.target()
			}
		}
	}
}
