package scheduler

import "slices"

// Orders on some of the recipients of a vertex (Ordered.Only): KILL, EXPIRE, REQUEUE and
// REROUTE. HOLD moves whole messages, and RETRY and RELEASE make whole job lines due.

// orderPart is an order on some recipients of a vertex that an agent has, or whose file is
// being read. It is executed when the vertex comes back.
type orderPart struct {
	verb    Verb
	offsets []int64 // ascending
	to      threadKey
	why     string
}

// partWait is the state of a vertex that is blocked until what an orderPart writes is on
// disk. Until then an agent would find the recipients open.
type partWait struct {
	state  vertexState
	wakeAt instant
}

// partOf returns the offsets of the recipients of a vertex that an order is about; nil: of
// all that are open. The list is empty if they are all done or being written.
func (dv *delivery) partOf(e *Ordered, v *vertex) []int64 {
	only := e.Only[dv.messageOf(v).id]
	if only == nil || !e.Verb.takesParts() {
		return nil
	}
	part, rest := []int64{}, false
	for i := range v.len() {
		r := dv.recipient(v, i)
		switch {
		case hasOffset(only, int64(r.offset)):
			part = append(part, int64(r.offset))
		case r.state != done && r.state != writing:
			rest = true
		}
	}
	if !rest && len(part) > 0 {
		return nil
	}
	return part
}

// hasOffset reports whether an offset is among these, which are ascending.
func hasOffset(offsets []int64, offset int64) bool {
	_, found := slices.BinarySearch(offsets, offset)
	return found
}

// takesParts reports whether an order can be about some of the recipients of a vertex.
func (v Verb) takesParts() bool { return v == VerbKill || v == VerbExpire || v.resubmits() }

// orderParts takes the vertices of which only some recipients are ordered: it records the
// order for these, and executes it as far as possible. It returns the other vertices.
func (dv *delivery) orderParts(e *Ordered, vertices []*vertex) (whole []*vertex) {
	for _, v := range vertices {
		part := dv.partOf(e, v)
		if part == nil {
			whole = append(whole, v)
			continue
		}
		p := orderPart{verb: e.Verb, offsets: part, to: threadKey{e.To.Channel, e.To.Host}, why: e.Why}
		dv.parts[v.ref] = append(dv.withoutPart(v, part), p)
		if v.state != fed && v.state != reading {
			dv.executeParts(v)
		}
	}
	return whole
}

// withoutPart returns the recorded parts of a vertex without the recipients that a later
// order is about.
func (dv *delivery) withoutPart(v *vertex, later []int64) []orderPart {
	var rest []orderPart
	for _, p := range dv.parts[v.ref] {
		p.offsets = slices.DeleteFunc(slices.Clone(p.offsets), func(offset int64) bool { return hasOffset(later, offset) })
		if len(p.offsets) > 0 {
			rest = append(rest, p)
		}
	}
	return rest
}

// executeParts executes the recorded orders on parts of a vertex that no agent has. The
// vertex is not fed before they are on disk.
func (dv *delivery) executeParts(v *vertex) {
	parts := dv.parts[v.ref]
	if len(parts) == 0 || v.state == 0 {
		return
	}
	delete(dv.parts, v.ref)
	m := dv.messageOf(v)
	m.pendingWrites++
	dv.reopenRecipients(v)
	if v.state == due || v.state == waiting || v.state == poisoned {
		dv.partWaits[v.ref] = partWait{v.state, v.wakeAt}
		dv.blockVertex(v)
	}
	for _, p := range parts {
		if v.state == 0 {
			break
		}
		chosen := func(r *recipient) bool { return hasOffset(p.offsets, int64(r.offset)) }
		switch p.verb {
		case VerbKill:
			dv.killRecipients(v, chosen)
		case VerbExpire:
			dv.failByOrder(v, p.why, chosen)
		default:
			dv.resubmit(m, []*vertex{v}, resubmission{chosen: chosen, reroute: p.verb == VerbReroute, to: p.to})
		}
	}
	dv.endPartWait(v)
	m.pendingWrites--
	dv.advance(m)
}

// endPartWait gives a vertex the state back that it had before executeParts blocked it, as
// soon as nothing of it is being written. It reports whether executeParts had blocked it.
func (dv *delivery) endPartWait(v *vertex) bool {
	w, known := dv.partWaits[v.ref]
	if !known {
		return false
	}
	if dv.isWriting(v) {
		return true
	}
	delete(dv.partWaits, v.ref)
	switch {
	case v.state != blocked || v.ordered != 0:
	case dv.feedable(v) == 0:
		dv.planWake(v)
	case w.state == waiting && w.wakeAt > dv.now:
		dv.setState(v, waiting, w.wakeAt)
		dv.planWake(v)
	case w.state == poisoned:
		dv.setState(v, poisoned, 0)
		dv.planWake(v)
	default:
		dv.makeDue(v)
	}
	return true
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

// isKilled reports whether an order is to drop a recipient without a notice.
func (ml *mail) isKilled(v *vertex, r *recipient) bool {
	return v.ordered == VerbKill || ml.partAt(v, int64(r.offset)).verb == VerbKill
}

// partAt returns the orderPart that waits for the recipient at an offset; its verb is 0 if
// there is none.
func (ml *mail) partAt(v *vertex, offset int64) (none orderPart) {
	for _, p := range ml.parts[v.ref] {
		if hasOffset(p.offsets, offset) {
			return p
		}
	}
	return none
}

// orderOn returns the verb of the order that waits for a vertex or a part of it; 0: none.
func (ml *mail) orderOn(v *vertex) Verb {
	if parts := ml.parts[v.ref]; v.ordered == 0 && len(parts) > 0 {
		return parts[0].verb
	}
	return v.ordered
}

// viewParts adds the orders on parts of a vertex to the view of its recipients.
func (s *Scheduler) viewParts(view *VertexView, v *vertex) {
	for i := range view.Recipients {
		r := &view.Recipients[i]
		part := s.partAt(v, r.Offset)
		r.Ordered, r.OrderedTo = part.verb, part.to.target()
	}
}
