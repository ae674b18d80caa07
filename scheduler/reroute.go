package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// Requeue and reroute: recipients are written into a new message (Resubmit),
// for the router or for another channel and host.

// recordReroute records where a vertex is to be sent.
func (dv *delivery) recordReroute(m *message, v *vertex, to threadKey) {
	x := dv.obtainExtras(m)
	if x.reroutes == nil {
		x.reroutes = make(map[vertexRef]threadKey)
	}
	x.reroutes[v.ref] = to
}

// orderedTo returns where the order that waits for a vertex or a part of it sends it; zero: it
// is no reroute.
func (ml *mail) orderedTo(v *vertex) Target {
	switch parts := ml.parts[v.ref]; {
	case v.ordered == VerbReroute:
		return ml.obtainExtras(ml.messageOf(v)).reroutes[v.ref].target()
	case v.ordered == 0 && len(parts) > 0 && parts[0].verb == VerbReroute:
		return parts[0].to.target()
	}
	return Target{}
}

// target returns the thread as the target of an order.
func (k threadKey) target() Target { return Target{Channel: k.channel, Host: k.host} }

// resubmission says where recipients are sent.
type resubmission struct {
	chosen  func(*recipient) bool // nil: all
	reroute bool                  // false: to the router
	to      threadKey
}

// resubmissionOf returns the resubmission that a vertex has as its recorded order.
func (dv *delivery) resubmissionOf(v *vertex) resubmission {
	if v.ordered != VerbReroute {
		return resubmission{}
	}
	return resubmission{reroute: true, to: dv.obtainExtras(dv.messageOf(v)).reroutes[v.ref]}
}

// resubmit starts writing the open recipients of some vertices into a new
// message. A recipient that has alternatives is sent together with the remaining
// ones. Vertices whose alternatives wait for one in another vertex keep the
// recorded order.
func (dv *delivery) resubmit(m *message, vertices []*vertex, x resubmission) {
	p := pending{message: m}
	var offsets []int64
	for _, v := range vertices {
		dv.reopenRecipients(v)
		for i := range v.len() {
			if r := dv.recipient(v, i); r.state != open || x.chosen != nil && !x.chosen(r) {
				continue
			}
			for _, a := range dv.withAlternatives(m, v, i) {
				r := dv.recipient(a.vertex, a.index)
				offsets = append(offsets, int64(r.offset))
				p.recipients, p.previous = append(p.recipients, a), append(p.previous, r.state)
				r.state = writing
			}
		}
	}
	for _, v := range vertices {
		if x.chosen == nil {
			dv.blockVertex(v)
		}
	}
	if len(offsets) == 0 {
		return
	}
	slices.Sort(offsets)
	op := dv.nextOp()
	action := Resubmit{Op: op, Message: m.id, Path: dv.path(m), Offsets: offsets}
	if x.reroute {
		to := x.to
		action.Channel, action.Host = to.channel, to.host
		if to.channel == ctlfile.TransferChannel {
			action.Attempts, action.Held = dv.attemptsOf(p.recipients, offsets), dv.threadOf(vertices[0]).held
		}
	}
	p.action = action
	m.pendingWrites++
	dv.issue(op, p)
}

// attemptsOf returns how often each of the recipients at these offsets was tried.
func (ml *mail) attemptsOf(recipients []alternative, offsets []int64) []int {
	attempts := make([]int, len(offsets))
	for _, a := range recipients {
		r := ml.recipient(a.vertex, a.index)
		if i, found := slices.BinarySearch(offsets, int64(r.offset)); found {
			attempts[i] = int(r.attempts)
		}
	}
	return attempts
}

// withAlternatives returns a recipient and its remaining alternatives.
func (ml *mail) withAlternatives(m *message, v *vertex, i int) []alternative {
	set, _ := ml.exclusiveSetOf(m, v, i)
	if set == nil {
		return []alternative{{v, i}}
	}
	var left []alternative
	for _, a := range set.members {
		switch ml.recipient(a.vertex, a.index).state {
		case open, standby, promoted:
			left = append(left, a)
		}
	}
	return left
}

// resubmitFailed makes recipients that could not be resubmitted due again.
func (dv *delivery) resubmitFailed(p *pending) {
	for i, a := range p.recipients {
		if r := dv.recipient(a.vertex, a.index); r.state == writing {
			r.state = p.previous[i]
		}
	}
	for _, a := range p.recipients {
		v := a.vertex
		if v.state != blocked {
			continue
		}
		if v.ordered == VerbRequeue || v.ordered == VerbReroute {
			v.ordered = 0
		}
		dv.reopenRecipients(v)
		switch {
		case p.message.flags&holdOrdered != 0:
			v.ordered = VerbHold
			dv.holdVertex(v)
		case v.ordered != 0:
			dv.execute(v)
		case dv.endPartWait(v):
		case dv.feedable(v) > 0:
			dv.makeDue(v)
		default: // they can expire again
			dv.planWake(v)
		}
	}
}
