package spool

// Committing: staged copies get their names, those of many messages at once, and the old
// recipients are marked.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

const (
	// maxCopies bounds the messages of a batch. The more there are, the fewer waits for the
	// disk there are for each, and the longer other work on control files waits.
	maxCopies = 500
	// publishPause is how long a copy waits that could not get its name.
	publishPause = time.Second
)

// mover sends recipients elsewhere.
type mover struct {
	s      *Spool
	copies *queue.Committer
	// open are the batches that wait at the ends of the queues of the workers, by worker; nil:
	// other work has come after it. markBatches.mu guards them.
	open map[uint64]*moveBatch
}

// moveBatch are resubmissions that are committed together.
type moveBatch struct{ of []*resubmission }

// commitLater queues a resubmission whose copies are staged after all other work on its file.
func (mv *mover) commitLater(m *resubmission) {
	batches := &mv.s.batches
	batches.mu.Lock()
	defer batches.mu.Unlock()
	delete(batches.open, m.Path) // later outcomes are written after this work
	worker := mv.s.editor(m.Path)
	if b := mv.open[worker]; b != nil && len(b.of) < maxCopies {
		b.of = append(b.of, m)
		return
	}
	b := &moveBatch{[]*resubmission{m}}
	mv.s.pushEdit(m.Path, func() {
		batches.mu.Lock()
		if mv.open[worker] == b {
			mv.open[worker] = nil
		}
		batches.mu.Unlock()
		mv.commit(b.of)
	})
	mv.open[worker] = b
}

// commit gives the staged copies of a batch their names, marks the old recipients, removes what
// is left of the copies, and answers.
func (mv *mover) commit(batch []*resubmission) {
	for _, m := range batch {
		m.err = mv.check(m)
	}
	mv.publish(batch)
	var results []Result
	for _, m := range batch {
		mv.markSent(m)
		if mv.undone(m) {
			results = append(results, mv.resubmitted(m))
		}
	}
	mv.s.queue.add(results...)
}

// undone removes what is left of copies that do not count. If it cannot, it returns false, tries again and
// answers once it has succeeded: the core does not remove the message before the answer, and while the
// message is there, its d lines say that they do not count.
func (mv *mover) undone(m *resubmission) bool {
	var left []queue.Left
	for _, p := range m.staged {
		p.remove()
		if p.item.Left != nil {
			left = append(left, *p.item.Left)
		}
	}
	if len(left) == 0 {
		return true
	}
	mv.s.warn(fmt.Sprintf("%s: %v; the copy, which does not count, cannot be removed from %s: its recipients wait, and this is tried again", m.Path, m.err, mv.copies.StagingDir()))
	mv.tryAgain(func() bool {
		if left = mv.copies.FinishAll(left); len(left) == 0 {
			mv.s.queue.add(mv.resubmitted(m))
		}
		return len(left) == 0
	})
	return false
}

// check opens the old control file and checks that the staged copies still fit.
func (mv *mover) check(m *resubmission) (err error) {
	var buf []byte
	if m.old, err = mv.s.places.openControl(m.Path, &buf); err != nil {
		return err
	}
	locks := locks{&mv.s.lockHolders, new(scheduler.Read)}
	// A torn line stays: an agent may be writing it for another recipient.
	if err := m.old.settle(locks.held); err != nil {
		return err
	}
	for _, p := range m.staged {
		if err := p.fits(&m.old); err != nil {
			return err
		}
	}
	return nil
}

// recordHolds records the holds of the copies of a batch: one record for each hold.
func (mv *mover) recordHolds(batch []*resubmission) {
	records := make(map[view.Hold]*HoldRecord)
	for _, m := range batch {
		if m.Hold == nil || m.err != nil {
			continue
		}
		r := records[*m.Hold]
		if r == nil {
			r = &HoldRecord{Hold: *m.Hold}
			records[*m.Hold] = r
		}
		for _, p := range m.staged {
			r.Messages = append(r.Messages, p.spoolID)
		}
	}
	errs := make(map[view.Hold]error)
	for h, r := range records {
		errs[h] = mv.s.holds.RecordHold(*r)
	}
	for _, m := range batch {
		if m.Hold != nil && m.err == nil {
			m.err = errs[*m.Hold]
		}
	}
}

// publish gives the staged copies of a batch their final names.
func (mv *mover) publish(batch []*resubmission) {
	var items []*queue.Item
	mv.recordHolds(batch)
	for _, m := range batch {
		for _, p := range m.staged {
			switch {
			case m.err != nil:
			case p.item.Contents != nil:
				p.of, p.item.For = m, p
				items = append(items, &p.item)
			default:
				p.name, p.item.Err = mv.s.options.Router.Give(p.file)
			}
		}
	}
	if len(items) > 0 {
		mv.copies.Commit(items)
		mv.publishLater(items)
	}
}

// claim writes the d lines that say where the old recipients are, so that a crash after it
// costs nothing: see isClaimed.
func claim(items []*queue.Item) error {
	var last *controlFile
	for _, i := range items {
		p := i.For.(*stagedCopy)
		d := &p.of.old
		lines := d.linesWithoutNotice(p.marks())
		i.Err = d.file.AppendDiagnosticWith(func(int) error { return nil }, d.fd, lines...)
		if i.Err == nil {
			d.file.Diagnostics = append(d.file.Diagnostics, lines...)
			last = d
		}
	}
	if last != nil {
		// After an error the copies count nevertheless: the lines may be on disk. If a power
		// cut comes then, the recipients may be there twice, but they are not lost.
		_ = postoffice.SyncAll(last.fd)
	}
	return nil
}

// linesWithoutNotice returns the d lines that mark would write for recipients that are sent
// elsewhere.
func (d *controlFile) linesWithoutNotice(marks []ctlfile.Mark) (lines []ctlfile.Diagnostic) {
	for _, m := range marks {
		if r := d.recipient(m); r != nil {
			lines = append(lines, withoutNotice(r, m))
		}
	}
	return lines
}

// finish ends what a crash has left of copies. Their sources may only be fed when it is known which
// count, so the error is for the next start to mend.
func (mv *mover) finish() error {
	left, err := mv.copies.Finish(mv.isClaimed)
	if len(left) > 0 {
		mv.s.warn(fmt.Sprintf("a crash has left copies for which there is no room, or whose messages are out of sight; they are tried again: %v", left))
		mv.tryAgain(func() bool {
			left = mv.copies.FinishAll(left)
			return len(left) == 0
		})
	}
	return err
}

// isClaimed reports whether a copy that a crash has left in staging counts: the recipients of
// its source are marked. If the source is gone, they were done. If it cannot be understood, its
// recipients come twice rather than never.
func (mv *mover) isClaimed(copied, source string) (bool, error) {
	number, ok := ctlfile.SpoolNumber(source)
	if !ok {
		return false, nil
	}
	for _, place := range []string{"", underHold} {
		p, _ := placeOf(place)
		n, err := mv.s.places.find(p, identity{number: number, spoolID: source})
		if err != nil {
			return false, fmt.Errorf("looking for the message of copy %s: %w", copied, err)
		} else if n.ID == 0 {
			continue
		}
		var buf []byte
		d, err := mv.s.places.readControl(postoffice.Control{}, mv.s.places.pairs[p].transport, n.Path, unix.O_RDONLY, &buf)
		defer d.close()
		var bad *malformed
		if errors.As(err, &bad) {
			mv.s.warn(fmt.Sprintf("%stransport/%s: %s; a crash has interrupted moving recipients of it to message %s, which counts if it is there: take them out before you put the file back",
				p.dir(), n.Path, bad.reason, copied))
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("%stransport/%s, of which %s is a copy: %w", p.dir(), n.Path, copied, err)
		}
		return slices.ContainsFunc(d.file.Diagnostics, func(line ctlfile.Diagnostic) bool {
			return line.IsIn(copied)
		}), nil
	}
	return true, nil
}

// publishLater tries again, in the background, to give copies their names that count already. If
// the spool is closed meanwhile, the next start does it.
func (mv *mover) publishLater(items []*queue.Item) {
	var left []*queue.Item
	for _, i := range items {
		if i.Claimed && i.Path == "" {
			copied := *i // the caller goes on with its own
			left = append(left, &copied)
		}
	}
	if len(left) == 0 {
		return
	}
	mv.tryAgain(func() bool {
		mv.copies.Publish(left)
		left = slices.DeleteFunc(left, func(i *queue.Item) bool { return i.Path != "" })
		return len(left) == 0
	})
}

// tryAgain tries something every second until it is done.
func (mv *mover) tryAgain(done func() bool) {
	mv.s.spawn(func() {
		for mv.s.pause(publishPause) && !done() {
		}
	})
}

// markSent tags the old recipients of the copies that have their names.
func (mv *mover) markSent(m *resubmission) {
	defer m.old.close()
	if m.old.file == nil {
		return
	}
	for _, p := range m.staged {
		if err := mv.markCopy(m, p); m.err == nil {
			m.err = err
		}
	}
	m.answer.Owes, m.answer.Recipients = mv.s.notices.owes(m.old.file, false), states(m.old.file)
}

func (mv *mover) markCopy(m *resubmission, p *stagedCopy) error {
	err := p.item.Err
	switch {
	case p.item.Claimed:
		// It is in the queue, or will be. If an error says that its name may not survive a
		// crash, the next start gives it its name.
		m.answer.SpoolID = p.spoolID
		if p.item.Path != "" {
			if m.answer.Name = nameOf(p.item.Path); p.item.Held {
				m.answer.Name.Path = underHold + p.item.Path
			}
		}
	case p.name != "":
		m.answer.Router = append(m.answer.Router, p.name)
		p.sentTo += " as router/" + p.name
		if err != nil && postoffice.SyncAll(mv.s.places.office) != nil {
			// The copy may not survive a crash. The old recipients stay open, in the
			// file and for the receiver, which would otherwise remove the message: delivery
			// twice is better than none.
			return err
		}
	default: // it has no name anywhere
		return err
	}
	m.answer.Offsets = append(m.answer.Offsets, p.offsets...)
	if m.old.mark(p.marks()) != nil {
		m.answer.Unmarked = append(m.answer.Unmarked, p.marks()...)
	}
	return nil
}
