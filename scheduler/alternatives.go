package scheduler

import "zsched/ctlfile"

// exclusiveSet is the alternatives of one X class in file order: the first is
// tried, the next when it failed, the rest are dropped at the first success.
type exclusiveSet struct {
	class   int
	members []alternative
	done    bool
}

type alternative struct {
	vertex *vertex
	index  int
}

// join puts a recipient among the alternatives of its class.
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

// exclusive finds the set of alternatives a recipient belongs to.
func (ml *mail) exclusiveSetOf(m *message, v *vertex, i int) (*exclusiveSet, int) {
	if m.extras == 0 {
		return nil, 0
	}
	for _, set := range ml.extras.at(m.extras).sets {
		for place, a := range set.members {
			if a.vertex == v && a.index == i && !set.done {
				return set, place
			}
		}
	}
	return nil, 0
}

// win ends the set with its first success: the others are tagged as done
// too, and so is what was said of those that failed.
func (ml *mail) endSet(set *exclusiveSet, mark RecipientMark, settles []alternative) ([]RecipientMark, []alternative) {
	set.done = true
	mark.LeaveTag = false
	marks := []RecipientMark{mark}
	for _, a := range set.members {
		r := ml.recipient(a.vertex, a.index)
		if r.state != standby && r.state != promoted {
			continue
		}
		r.state = writing
		marks = append(marks, RecipientMark{Offset: int64(r.offset), Tag: ctlfile.Delivered})
		settles = append(settles, a)
	}
	return marks, settles
}

// promote gives the next alternative its turn when the one before has failed.
func (dv *delivery) promote(set *exclusiveSet, failed int) {
	for _, a := range set.members[failed+1:] {
		r := dv.recipient(a.vertex, a.index)
		if r.state != standby {
			continue
		}
		switch a.vertex.state {
		case fed, reading:
			r.state = promoted
		case blocked:
			r.state = open
			if a.vertex.ordered != 0 {
				dv.execute(a.vertex)
			} else {
				dv.makeDue(a.vertex)
			}
		default:
			r.state = open
		}
		return
	}
}
