package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

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

// exclusiveSetOf returns the set that a recipient belongs to; nil if it is not in a set, or if the
// set is done.
func (ml *mail) exclusiveSetOf(m *message, v *vertex, i int) *exclusiveSet {
	if m.flags&hasExtras == 0 {
		return nil
	}
	for _, set := range ml.extrasOf(m).sets {
		if !set.done && slices.Contains(set.members, alternative{v, i}) {
			return set
		}
	}
	return nil
}

// endSet ends the set after its first success: the other alternatives are
// tagged as done too, and their diagnostics are ignored.
func (ml *mail) endSet(set *exclusiveSet, mark ctlfile.Mark, settles []alternative) ([]ctlfile.Mark, []alternative) {
	set.done = true
	mark.LeaveTag = false
	marks := []ctlfile.Mark{mark}
	for _, a := range set.members {
		r := ml.recipient(a.vertex, a.index)
		if r.state != standby {
			continue
		}
		r.state = writing
		marks = append(marks, ctlfile.Mark{Offset: int64(r.offset), Tag: ctlfile.Delivered})
		settles = append(settles, a)
	}
	return marks, settles
}

// openAlternatives opens, of each set of a message, the alternative whose turn it is: the first that
// has not failed. While an agent has its vertex, it waits until that comes back (resume).
func (wr *writes) openAlternatives(m *message) {
	if m.flags&hasExtras == 0 {
		return
	}
	for _, set := range wr.s.mail.extrasOf(m).sets {
		i := slices.IndexFunc(set.members, func(a alternative) bool { return wr.s.mail.recipient(a.vertex, a.index).isUndelivered() })
		if i < 0 || set.done {
			continue
		}
		v := set.members[i].vertex
		if r := wr.s.mail.recipient(v, set.members[i].index); r.state != standby || v.state == fed || v.state == reading {
			continue
		}
		wr.s.mail.recipient(v, set.members[i].index).state = open
		if v.state == blocked {
			wr.s.threads.makeDue(v)
		}
	}
}
