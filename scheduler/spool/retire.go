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
)

// finish is a message to be removed.
type finish struct {
	op   uint64
	path string
	owes bool
}

// Finish removes a message whose recipients are all done: the control file first,
// then the message file. With owes, it first writes the notice that the d lines
// may call for. If there is no Reporter, or the notice can never be written, it
// moves both files to postman/ instead. The result is Finished, whose error may
// wrap ErrSpoolDown.
func (s *Spool) Finish(op uint64, path string, owes bool) {
	f := finish{op, path, owes}
	if !owes {
		s.finishes.push(f)
		return
	}
	s.notices.push(func() {
		var buf []byte
		s.queue.add(s.finish(f, &buf), 0)
	})
}

// retire is the goroutine that finishes messages. There are several, because most
// of the time is spent waiting for the file system.
func (s *Spool) retire() {
	var buf []byte
	var answers []Result
	for {
		f, ok := s.finishes.poll()
		if !ok {
			// The wait may be long: nothing is kept back.
			answers = s.answerAll(answers)
			if f, ok = s.finishes.pop(); !ok {
				return
			}
		}
		answers = append(answers, s.finish(f, &buf)...)
		if len(answers) >= answerLimit {
			answers = s.answerAll(answers)
		}
	}
}

// answerLimit bounds the results that a retirer keeps while there is more to
// finish: waking the receiver costs a good part of what an unlink does.
const answerLimit = 16

// answerAll queues results and returns the empty list, to be used again.
func (s *Spool) answerAll(answers []Result) []Result {
	if len(answers) > 0 {
		s.queue.add(answers, 0)
		clear(answers)
	}
	return answers[:0]
}

// finish removes a message and returns the results: Finished is the last.
func (s *Spool) finish(f finish, buf *[]byte) []Result {
	answer := Finished{Op: f.op}
	var quarantined []Result
	err := s.finishOwing(f, buf, &answer)
	var bad *malformed
	if errors.As(err, &bad) {
		_, base := split(f.path)
		id, _ := ctlfile.Number(base)
		if gone := s.discard(Name{f.path, id}, bad.reason); gone.Why == Quarantined {
			quarantined, err = []Result{gone}, nil
		}
	}
	if err != nil {
		answer.Err = fmt.Errorf("finishing %q: %w", f.path, s.classify(f.path, err))
	}
	return append(quarantined, answer)
}

// finishOwing writes the notice that the message owes, if it may owe one, and
// then removes the message.
func (s *Spool) finishOwing(f finish, buf *[]byte, answer *Finished) error {
	if !f.owes {
		return s.unlink(f.path)
	}
	d, err := readControl(s.control, s.pair(Queue).transport, f.path, unix.O_RDONLY, buf)
	defer d.close()
	switch {
	case errors.Is(err, errGone):
		return s.unlink(f.path)
	case err != nil:
		return err
	case !allDone(d.file):
		return ErrOpen
	}
	if err := d.recordLost(); err != nil {
		return err
	}
	lines := s.owed(d.file, true)
	if len(lines) == 0 {
		return s.unlink(f.path)
	}
	if s.options.Reporter != nil {
		answer.Notice, err = s.report(Queue, &d, lines, time.Time{})
		switch {
		case err == nil:
			return s.unlink(f.path)
		case mayWorkLater(err):
			return err
		}
		s.warn(fmt.Sprintf("no notice for %s, which is moved to postman: %v", f.path, err))
	}
	_, err = s.moveMessage(f.path, Queue, Postman)
	answer.Parked = err == nil
	return err
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

func (s *Spool) unlink(path string) error {
	q := s.pair(Queue)
	if err := postoffice.Remove(q.transport, path); err != nil {
		return fmt.Errorf("unlinking the control file: %w", err)
	}
	if err := postoffice.Remove(q.queue, path); err != nil {
		return fmt.Errorf("unlinking the message file: %w", err)
	}
	return nil
}
