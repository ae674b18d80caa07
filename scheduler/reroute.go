package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// REQUEUE and REROUTE: recipients are written into a new message (Resubmit),
// for the router or for another channel and host.

// resubmission is recipients of one message that go to the same place.
type resubmission struct {
	verb    Verb
	to      threadKey  // of VerbReroute
	hold    *HoldOrder // of the new message; nil: it is not held
	offsets []int64
	pending pending
}

// addToResubmit adds the recipients of a vertex that an order is about to those that go to the
// same place. A recipient that has alternatives is sent together with the remaining ones. If
// they wait for one in another vertex, the order stays.
func (dv *delivery) addToResubmit(groups []*resubmission, v *vertex, o *order) []*resubmission {
	m, hold := dv.messageOf(v), dv.holdOfCopy(v, o)
	i := slices.IndexFunc(groups, func(g *resubmission) bool { return g.verb == o.verb && g.to == o.to && g.hold == hold })
	if i < 0 {
		i = len(groups)
		groups = append(groups, &resubmission{verb: o.verb, to: o.to, hold: hold, pending: pending{message: m}})
	}
	g, p := groups[i], &groups[i].pending
	for i := range v.len() {
		if r := dv.recipient(v, i); r.state != open || !o.isAbout(r) {
			continue
		}
		for _, a := range dv.withAlternatives(m, v, i) {
			r := dv.recipient(a.vertex, a.index)
			g.offsets = append(g.offsets, int64(r.offset))
			p.recipients, p.previous = append(p.recipients, a), append(p.previous, r.state)
			r.state = writing
			dv.blockIfEmpty(a.vertex)
		}
	}
	return groups
}

// resubmit starts writing recipients into a new message.
func (dv *delivery) resubmit(m *message, g *resubmission) {
	if len(g.offsets) == 0 {
		return
	}
	slices.Sort(g.offsets)
	op := dv.nextOp()
	action := Resubmit{Op: op, Message: m.id, Path: dv.file(m), Offsets: g.offsets, Hold: g.hold}
	if g.verb == VerbReroute {
		action.Channel, action.Host = g.to.channel, g.to.host
		if g.to.channel == ctlfile.TransferChannel {
			action.Attempts = dv.attemptsOf(g.pending.recipients, g.offsets)
		}
	}
	g.pending.action = action
	m.pendingWrites++
	dv.issue(op, g.pending)
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

// resubmitFailed takes back recipients that could not be resubmitted, and drops the order.
func (dv *delivery) resubmitFailed(p *pending) {
	m := p.message
	for i, a := range p.recipients {
		if r := dv.recipient(a.vertex, a.index); r.state == writing {
			r.state = p.previous[i]
		}
	}
	hold := dv.holdOrder(m)
	for _, a := range p.recipients {
		v := a.vertex
		if v.state != blocked {
			continue
		}
		dv.dropOrders(v, func(o *order) bool { return o.verb.resubmits() })
		if hold != nil {
			dv.addOrder(v, *hold)
		}
		dv.carryOut(m, v)
		dv.resume(v)
		if v.state == blocked {
			dv.planWake(v) // recipients of it that are open again may expire
		}
	}
}
