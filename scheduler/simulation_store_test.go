package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// simFile is a control file: its tags by offset, and which recipients had an
// outcome in any way.
type simFile struct {
	message    Message // as it arrived
	recipients []ctlfile.OpenRecipient
	tags       map[int64]ctlfile.Tag
	done       map[int64]bool
}

// recordOutcome notes an outcome. A success counts for all alternatives of its
// class.
func (f *simFile) recordOutcome(offset int64, success bool) {
	f.done[offset] = true
	for _, r := range f.recipients {
		if r.Offset == offset && r.Class > 0 && success {
			for _, other := range f.recipients {
				f.done[other.Offset] = f.done[other.Offset] || other.Class == r.Class
			}
		}
	}
}

// noteDelay notes that the sender is told of a delay.
func (f *simFile) noteDelay(offset int64, delays int) {
	for i := range f.recipients {
		if f.recipients[i].Offset == offset {
			f.recipients[i].Delays = delays
		}
	}
}

// answerLater has the spool answer at some later time; it may fail unless
// nothing fails any more.
func (h *harness) answerLater(op Op, work func()) {
	h.answers = append(h.answers, func() {
		switch {
		case h.down:
			h.step(Failed{Op: op, Reason: "full", SpoolDown: true})
		case h.chance(1):
			h.down = true
			h.step(Failed{Op: op, Reason: "full", SpoolDown: true})
		case h.chance(2):
			h.step(Failed{Op: op, Reason: "busy", NoRoom: h.chance(50)})
		default:
			work()
		}
	})
}

func (h *harness) mark(a Mark) {
	h.checkPath(a.Message, a.Path)
	f := h.files[a.Message]
	if f == nil {
		h.step(Failed{Op: a.Op, Missing: true})
		return
	}
	for _, m := range a.Marks {
		if !m.LeaveTag {
			f.tags[m.Offset] = m.Tag
		}
		if m.Tag == ctlfile.Open {
			f.noteDelay(m.Offset, m.Delays)
			continue
		}
		f.recordOutcome(m.Offset, m.Tag == ctlfile.Delivered)
	}
	h.step(Done{Op: a.Op})
}

func (h *harness) read(a Read) {
	h.checkPath(a.Message, a.Path)
	f := h.files[a.Message]
	if f == nil || h.chance(2) {
		delete(h.files, a.Message)
		delete(h.orders.underHold, a.Message)
		h.step(Failed{Op: a.Op, Missing: true})
		return
	}
	e := Done{Op: a.Op}
	for _, r := range f.recipients {
		tag := f.tags[r.Offset]
		if tag != ctlfile.Open {
			f.recordOutcome(r.Offset, tag == ctlfile.Delivered)
		} else if h.chance(3) {
			tag = ctlfile.Locked
		}
		e.Recipients = append(e.Recipients, ctlfile.State{Offset: r.Offset, Tag: tag})
	}
	h.step(e)
}

// writeNotice writes a notice. Two for one message are never written at a time.
func (h *harness) writeNotice(a Report) {
	h.checkPath(a.Message, a.Path)
	if h.files[a.Message] == nil {
		h.step(Failed{Op: a.Op, Missing: true})
		return
	}
	h.step(Done{Op: a.Op})
}

// finish removes a message. Each of its recipients must have an outcome.
func (h *harness) finish(a Finish) {
	f := h.files[a.Message]
	if f == nil {
		h.t.Fatalf("message %d is finished and does not exist", a.Message)
	}
	if a.Untagged != 0 {
		f.recordOutcome(a.Untagged, a.Tag == ctlfile.Delivered)
	}
	for _, r := range f.recipients {
		if !f.done[r.Offset] {
			h.t.Fatalf("message %d leaves without an outcome of %d", a.Message, r.Offset)
		}
	}
	h.checkPath(a.Message, a.Path)
	delete(h.files, a.Message)
	delete(h.orders.underHold, a.Message)
	h.step(Done{Op: a.Op})
}

func (h *harness) storeBack() {
	h.down = false
	if h.probed {
		h.probed = false
		h.step(SpoolBack{})
	}
}

// answer gives one of the spool's answers. Answers come in any order.
func (h *harness) answer(i int) {
	f := h.answers[i]
	h.answers = slices.Delete(h.answers, i, i+1)
	f()
}
