package scheduler

import "slices"

// reroute notes where a vertex is to be sent.
func (s *Scheduler) recordReroute(m *message, v *vertex, to threadKey) {
	x := s.obtainExtras(m)
	if x.reroutes == nil {
		x.reroutes = make(map[vertexRef]threadKey)
	}
	x.reroutes[v.ref] = to
}

// resubmit has what is open of some vertices written into a new message. With
// a recipient that has alternatives go all that are left of them. Vertices
// whose alternatives wait for one elsewhere keep their order.
func (s *Scheduler) resubmit(m *message, vertices []*vertex) {
	p := &pending{message: m}
	var offsets []int64
	for _, v := range vertices {
		s.reopenRecipients(v)
		for i := range v.len() {
			if s.recipient(v, i).state != open {
				continue
			}
			for _, a := range s.withAlternatives(m, v, i) {
				r := s.recipient(a.vertex, a.index)
				offsets = append(offsets, int64(r.offset))
				p.recipients, p.previous = append(p.recipients, a), append(p.previous, r.state)
				r.state = writing
			}
		}
	}
	for _, v := range vertices {
		s.blockVertex(v)
	}
	if len(offsets) == 0 {
		return
	}
	slices.Sort(offsets)
	op := s.nextOp()
	action := Resubmit{Op: op, Message: m.id, Path: s.path(m), Offsets: offsets}
	if vertices[0].ordered == VerbReroute {
		to := s.obtainExtras(m).reroutes[vertices[0].ref]
		action.Channel, action.Host = to.channel, to.host
	}
	p.action = action
	m.pendingWrites++
	s.issue(op, p)
}

// withAlternatives returns a recipient, and what is left of the alternatives
// it belongs to.
func (s *Scheduler) withAlternatives(m *message, v *vertex, i int) []alternative {
	set, _ := s.exclusiveSetOf(m, v, i)
	if set == nil {
		return []alternative{{v, i}}
	}
	var left []alternative
	for _, a := range set.members {
		switch s.recipient(a.vertex, a.index).state {
		case open, standby, promoted:
			left = append(left, a)
		}
	}
	return left
}

// notResubmitted makes recipients due again that could not be sent elsewhere.
func (s *Scheduler) resubmitFailed(p *pending) {
	for i, a := range p.recipients {
		if r := s.recipient(a.vertex, a.index); r.state == writing {
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
		s.reopenRecipients(v)
		switch {
		case p.message.flags&holdOrdered != 0:
			v.ordered = VerbHold
			s.holdVertex(v)
		case v.ordered != 0:
			s.execute(v)
		case s.feedable(v) > 0:
			s.makeDue(v)
		default: // they can expire again
			s.planWake(v)
		}
	}
}
