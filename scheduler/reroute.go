package scheduler

import (
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// REQUEUE and REROUTE: recipients are written into a new message (Resubmit),
// for the router or for another channel and host.

// resubmission is recipients of one message that go to the same place.
type resubmission struct {
	order      *Ordered
	hold       *HoldOrder // of the new message; nil: it is not held
	offsets    []int64
	recipients []alternative // with these offsets
}

// addToResubmit adds those of the recipients of a vertex that are chosen. A recipient that has
// alternatives is sent together with the remaining ones; one whose turn has not come stays.
func (od *orders) addToResubmit(g *resubmission, v *vertex, chosen func(*recipient) bool) {
	for i := range od.s.mail.lenOf(v) {
		if r := od.s.mail.recipient(v, i); r.state != open || !chosen(r) {
			continue
		}
		for _, a := range od.s.mail.withAlternatives(od.s.mail.messageOf(v), v, i) {
			r := od.s.mail.recipient(a.vertex, a.index)
			g.offsets = append(g.offsets, int64(r.offset))
			g.recipients = append(g.recipients, a)
			r.state = writing
			if a.vertex.state == due {
				od.s.threads.blockVertex(a.vertex)
			}
		}
	}
}

// resubmit starts writing recipients into a new message.
func (od *orders) resubmit(m *message, g *resubmission) {
	if len(g.offsets) == 0 {
		return
	}
	slices.Sort(g.offsets)
	p := od.s.writes.begin(m)
	p.recipients = g.recipients
	action := Resubmit{Op: p.op, Verb: g.order.Verb, Message: m.id, Path: od.s.mail.file(m), Offsets: g.offsets, Hold: g.hold}
	if to := g.order.To; g.order.Verb == view.VerbReroute {
		action.Channel, action.Host = to.Channel, to.Host
		if to.Channel == ctlfile.TransferChannel {
			action.Attempts = od.s.mail.attemptsOf(g.recipients, g.offsets)
		}
	}
	m.pendingWrites++
	od.s.writes.issue(p, action)
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
	set := ml.exclusiveSetOf(m, v, i)
	if set == nil {
		return []alternative{{v, i}}
	}
	var left []alternative
	for _, a := range set.members {
		if state := ml.recipient(a.vertex, a.index).state; state == open || state == standby {
			left = append(left, a)
		}
	}
	return left
}

// takeBack takes back recipients that could not be resubmitted. The first of alternatives is
// open when its vertex is.
func (od *orders) takeBack(p *pending) {
	for _, a := range p.recipients {
		if r := od.s.mail.recipient(a.vertex, a.index); r.state == writing {
			r.state = open
			if od.s.mail.exclusiveSetOf(p.message, a.vertex, a.index) != nil {
				r.state = standby
			}
		}
	}
	eachVertexOf(p.recipients, func(v *vertex) {
		if od.resume(v); v.state == waiting {
			od.s.notices.planWake(v) // recipients that are open again may expire
		}
	})
}
