package scheduler

import "zsched/ctlfile"

// Alternatives: the recipients of X lines.

// exclusiveSet is the set of alternatives of one class of X lines, in file order.
// The first is tried; when it has failed, the next is tried; after the first
// success, the others are dropped.
type exclusiveSet struct {
	class   int
	members []alternative
	done    bool // one has succeeded
}

// alternative is a recipient of a message.
type alternative struct {
	vertex *vertex
	index  int
}

// eachVertexOf calls f for the vertices of recipients, once for recipients of one vertex that follow
// each other.
func eachVertexOf(recipients []alternative, f func(*vertex)) {
	for i, a := range recipients {
		if i == 0 || a.vertex != recipients[i-1].vertex {
			f(a.vertex)
		}
	}
}

// joinSet adds a recipient to the alternatives of its class.
func (ml *mail) joinSet(m *message, class int, v *vertex, index int) {
	x := ml.obtainExtras(m)
	for _, set := range x.sets {
		if set.class == class {
			set.members = append(set.members, alternative{v, index})
			ml.recipient(v, index).state = standby
			return
		}
	}
	x.sets = append(x.sets, &exclusiveSet{class: class, members: []alternative{{v, index}}})
}

// exclusiveSetOf returns the set that a recipient belongs to and its place in
// it; nil if it is not in a set, or if the set is done.
func (ml *mail) exclusiveSetOf(m *message, v *vertex, i int) (*exclusiveSet, int) {
	if m.flags&hasExtras == 0 {
		return nil, 0
	}
	for _, set := range ml.extrasOf(m).sets {
		for place, a := range set.members {
			if a.vertex == v && a.index == i && !set.done {
				return set, place
			}
		}
	}
	return nil, 0
}

// endSet ends the set after its first success: the other alternatives are
// tagged as done too, and their diagnostics are ignored.
func (ml *mail) endSet(set *exclusiveSet, mark ctlfile.Mark, settles []alternative) ([]ctlfile.Mark, []alternative) {
	set.done = true
	mark.LeaveTag = false
	marks := []ctlfile.Mark{mark}
	for _, a := range set.members {
		r := ml.recipient(a.vertex, a.index)
		if r.state != standby && r.state != promoted {
			continue
		}
		r.state = writing
		marks = append(marks, ctlfile.Mark{Offset: int64(r.offset), Tag: ctlfile.Delivered})
		settles = append(settles, a)
	}
	return marks, settles
}

// promote gives the next alternative its turn after the one before has failed.
func (wr *writes) promote(set *exclusiveSet, failed int) {
	for _, a := range set.members[failed+1:] {
		r := wr.s.mail.recipient(a.vertex, a.index)
		if r.state != standby {
			continue
		}
		switch a.vertex.state {
		case fed, reading:
			r.state = promoted
		case blocked:
			r.state = open
			wr.s.threads.makeDue(a.vertex)
		default:
			r.state = open
		}
		return
	}
}
