package spool

// Retiring: the files of a message that is done are removed once its notice is
// written.

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// finish removes a message whose recipients are all done: the control file first,
// then the message file. If the message may owe a notice, it first writes the
// notice that the d lines call for. If the notice can never be written, it moves both
// files to corrupt/ instead. If the control file
// cannot be removed, it writes the tag that is missing, so that a restart does not
// deliver again.
func (s *Spool) finish(a scheduler.Finish) {
	queue := s.finishes
	if a.Owes {
		queue = s.slow
	}
	queue.push(func() {
		answer := Answered{Action: &a, Op: a.Op, Message: a.Message}
		err := s.reserve.spend(func() error { return s.finishOwing(a, &answer) })
		var bad *malformed
		if errors.As(err, &bad) {
			if gone := s.discard(nameOf(a.Path), bad.reason); gone.Why == Quarantined {
				s.queue.add(gone)
				err = nil
			}
		}
		if err != nil {
			answer.Err = fmt.Errorf("finishing %q: %w", a.Path, err)
		}
		if a.Owes {
			s.queue.add(answer)
			return
		}
		s.queue.keep(answer)
	})
}

// finishOwing writes the notice that the message owes, if it may owe one, and
// then removes the message.
func (s *Spool) finishOwing(f scheduler.Finish, answer *Answered) error {
	if !f.Owes {
		return s.unlinkUntagged(f)
	}
	var buf []byte
	d, err := s.places.openControl(f.Path, &buf)
	defer d.close()
	switch {
	case errors.Is(err, errGone):
		return s.places.unlink(f.Path)
	case err != nil:
		return err
	case !allDone(d.file):
		s.warn(f.Path + " seemed done and has an open recipient; it is read again")
		answer.Missing = true // for the receiver, until the sweep finds it
		wake(s.sweeps)
		return nil
	}
	if err := d.recordLost(); err != nil {
		return err
	}
	lines := s.notices.owed(d.file, true)
	if len(lines) == 0 {
		return s.places.unlink(f.Path)
	}
	answer.Notice, err = s.notices.report(f.Path, &d, lines, time.Time{})
	switch {
	case err == nil:
		return s.places.unlink(f.Path)
	case mayWorkLater(err):
		return err
	}
	return &malformed{"the notice that it owes cannot be written: " + err.Error()}
}

// allDone reports whether no recipient is open. One that is still locked has been
// reported: its agent reports first and tags after that.
func allDone(f *ctlfile.File) bool {
	for i := range f.Recipients {
		if f.Recipients[i].Tag == ctlfile.Open && !f.Done(i) {
			return false
		}
	}
	return true
}

// unlinkUntagged removes the files of a message that owes no notice. If the
// control file stays, its last recipient is tagged.
func (s *Spool) unlinkUntagged(f scheduler.Finish) error {
	err := s.places.unlink(f.Path)
	if err == nil || f.Untagged == 0 {
		return err
	}
	mark := []ctlfile.Mark{{Offset: f.Untagged, Tag: f.Tag}}
	tagErr := s.places.change(f.Path, func(d *controlFile) error { return d.mark(mark) })
	if errors.Is(tagErr, errGone) {
		return err // the message file is what stays
	}
	return errors.Join(err, tagErr)
}

// unlink removes the files of a message. No message is loaded without its message file (see
// fetch). Until that is removed here, no other message gets its number.
func (at *places) unlink(path string) error {
	place, path := placeOf(path)
	q := at.pairs[place]
	if err := at.unlinkOne(q.transport, path); err != nil {
		return fmt.Errorf("unlinking the control file: %w", err)
	}
	if err := at.unlinkOne(q.queue, path); err != nil {
		return fmt.Errorf("unlinking the message file: %w", err)
	}
	return nil
}

// unlinkOne removes a file, if it is not gone already.
func (at *places) unlinkOne(dir int, path string) error {
	err := postoffice.Unlink(dir, path)
	if err == unix.ENOENT {
		err = at.gone(dir, path)
	}
	if err == errGone {
		return nil
	}
	return err
}
