package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// simFile is a control file: tags by offset, and who has had an outcome in
// whatever way.
type simFile struct {
	message    Message // as it arrived
	recipients []Recipient
	tags       map[int64]ctlfile.Tag
	done       map[int64]bool
}

// end notes an outcome; a success is one for all alternatives of its class.
func (f *simFile) noteOutcome(offset int64, success bool) {
	f.done[offset] = true
	for _, r := range f.recipients {
		if r.Offset == offset && r.Class > 0 && success {
			for _, other := range f.recipients {
				f.done[other.Offset] = f.done[other.Offset] || other.Class == r.Class
			}
		}
	}
}

// later has the store answer at some time, at once in a kind world.
func (w *harness) answerLater(op Op, work func()) {
	w.answers = append(w.answers, func() {
		switch {
		case w.down:
			w.step(Failed{Op: op, Reason: "full", SpoolDown: true})
		case w.chance(1):
			w.down = true
			w.step(Failed{Op: op, Reason: "full", SpoolDown: true})
		case w.chance(2):
			w.step(Failed{Op: op, Reason: "busy"})
		default:
			work()
		}
	})
}

func (w *harness) mark(a Mark) {
	f := w.files[a.Message]
	if f == nil {
		w.step(Failed{Op: a.Op, Missing: true})
		return
	}
	for _, m := range a.Marks {
		if !m.LeaveTag {
			f.tags[m.Offset] = m.Tag
		}
		f.noteOutcome(m.Offset, m.Tag == ctlfile.Delivered)
	}
	w.step(Done{Op: a.Op})
}

func (w *harness) read(a Read) {
	f := w.files[a.Message]
	if f == nil || w.chance(2) {
		delete(w.files, a.Message)
		w.step(Reread{Op: a.Op, Missing: true})
		return
	}
	e := Reread{Op: a.Op}
	for _, r := range f.recipients {
		tag := f.tags[r.Offset]
		if tag != ctlfile.Open {
			f.noteOutcome(r.Offset, tag == ctlfile.Delivered)
		} else if w.chance(3) {
			tag = ctlfile.Locked
		}
		e.Recipients = append(e.Recipients, RecipientState{Offset: r.Offset, Tag: tag})
	}
	w.step(e)
}

// finish removes a message. All of its recipients must have an outcome.
func (w *harness) finish(a Finish) {
	f := w.files[a.Message]
	if f == nil {
		w.t.Fatalf("message %d leaves and is not there", a.Message)
	}
	for _, r := range f.recipients {
		if !f.done[r.Offset] {
			w.t.Fatalf("message %d leaves and nobody knows what became of %d", a.Message, r.Offset)
		}
	}
	delete(w.files, a.Message)
	w.step(Done{Op: a.Op})
}

func (w *harness) storeBack() {
	w.down = false
	if w.probed {
		w.probed = false
		w.step(SpoolBack{})
	}
}

// answer lets one of the store's answers come; they keep no order.
func (w *harness) answer(i int) {
	f := w.answers[i]
	w.answers = slices.Delete(w.answers, i, i+1)
	f()
}
