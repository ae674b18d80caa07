package spool

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// finish is a message to be removed.
type finish struct {
	op   uint64
	path string
	owes bool
}

// Finish removes a message of which all recipients are done: the control file
// first, then the message file. With owes it looks for diagnostics that
// nobody was sent, and where a notice is owed both files are parked under
// postman/ instead. Answered by Finished.
func (s *Spool) Finish(op uint64, path string, owes bool) {
	s.finishes.push(finish{op, path, owes})
}

// Control files and message files are unlinked by goroutines of their own:
// two that unlink in one directory spend a fifth of their time waiting for
// each other.

// retireBatch bounds what a retirer takes on before it says what became of
// it: waking who waits for that costs a good part of what an unlink does.
const retireBatch = 16

// retireControl is the goroutine that does the first half of finishing.
func (s *Spool) retireControl() {
	var batch [retireBatch]finish
	var buf []byte
	for {
		n, ok := s.finishes.take(batch[:])
		if !ok {
			return
		}
		var answers []Result
		halves := batch[:0]
		for _, f := range batch[:n] {
			half, extra, parked, err := s.finishControl(f, &buf)
			if half {
				halves = append(halves, f)
				continue
			}
			answers = append(append(answers, extra...), finished(f, err, parked))
		}
		s.halves.push(halves...)
		if len(answers) > 0 {
			s.outbox.add(answers)
		}
	}
}

// retireMessage is the goroutine that does the second.
func (s *Spool) retireMessage() {
	var batch [retireBatch]finish
	var answers [retireBatch]Result
	for {
		n, ok := s.halves.take(batch[:])
		if !ok {
			return
		}
		for i, f := range batch[:n] {
			err := remove(s.pairs[Queue].queue, f.path)
			if err != nil {
				err = fmt.Errorf("unlinking the message file: %w", err)
			}
			answers[i] = finished(f, err, false)
		}
		s.outbox.add(answers[:n])
	}
}

func finished(f finish, err error, parked bool) Finished {
	if err != nil {
		err = fmt.Errorf("finishing %q: %w", f.path, err)
	}
	return Finished{f.op, err, parked}
}

// finishControl unlinks the control file; then half the work is left. What is
// owed, or turns out not to be finished, ends here.
func (s *Spool) finishControl(f finish, buf *[]byte) (half bool, extra []Result, parked bool, err error) {
	if !f.owes {
		return s.unlinkControl(f.path)
	}
	d, err := load(s.pairs[Queue].transport, f.path, unix.O_RDONLY, buf)
	var bad *garbled
	switch {
	case errors.Is(err, errGone):
		return s.unlinkControl(f.path)
	case errors.As(err, &bad):
		_, base := split(f.path)
		id, _ := ctlfile.Number(base)
		gone := s.discard(Name{f.path, id}, bad.reason)
		if gone.Why == Quarantined {
			return false, []Result{gone}, false, nil
		}
		return false, nil, false, err
	case err != nil:
		return false, nil, false, err
	}
	if !allDone(d.file) {
		return false, nil, false, ErrOpen
	}
	if !owes(d.file, true) {
		return s.unlinkControl(f.path)
	}
	_, err = s.carry(f.path, Queue, Postman)
	return false, nil, err == nil, err
}

func (s *Spool) unlinkControl(path string) (half bool, extra []Result, parked bool, err error) {
	if err := remove(s.pairs[Queue].transport, path); err != nil {
		return false, nil, false, fmt.Errorf("unlinking the control file: %w", err)
	}
	return true, nil, false, nil
}

// allDone reports whether no recipient is open. One that is still locked has
// been reported on: its agent reports first and tags after.
func allDone(f *ctlfile.File) bool {
	for i := range f.Recipients {
		if f.Recipients[i].Tag == ctlfile.Open && !f.Done(i) {
			return false
		}
	}
	return true
}
