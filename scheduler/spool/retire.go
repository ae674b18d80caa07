package spool

// Retiring: the files of a message that is done are removed, or parked.

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
// postman/ instead. Answered by Finished, whose error may wrap
// ErrSpoolDown.
func (s *Spool) Finish(op uint64, path string, owes bool) {
	s.finishes.push(finish{op, path, owes})
}

// retire is the goroutine that finishes messages. There are several because
// the time goes into the file system's waiting.
func (s *Spool) retire() {
	var buf []byte
	var answers []Result
	for {
		f, ok := s.finishes.poll()
		if !ok {
			// Nothing may be kept back over a wait of unknown length.
			answers = s.answerAll(answers)
			if f, ok = s.finishes.pop(); !ok {
				return
			}
		}
		extra, parked, err := s.finish(f, &buf)
		if err != nil {
			err = fmt.Errorf("finishing %q: %w", f.path, s.classify(f.path, err))
		}
		answers = append(append(answers, extra...), Finished{f.op, err, parked})
		if len(answers) >= answerLimit {
			answers = s.answerAll(answers)
		}
	}
}

// answerLimit bounds the answers that a retirer keeps back while there is more
// to finish: waking the receiver costs a good part of what an unlink does.
const answerLimit = 16

// answerAll hands answers out and returns the list to be used again.
func (s *Spool) answerAll(answers []Result) []Result {
	if len(answers) > 0 {
		s.queue.add(answers, 0)
		clear(answers)
	}
	return answers[:0]
}

func (s *Spool) finish(f finish, buf *[]byte) (extra []Result, parked bool, err error) {
	if !f.owes {
		return nil, false, s.unlink(f.path)
	}
	d, err := readControl(s.control, s.pairs[Queue].transport, f.path, unix.O_RDONLY, buf)
	defer d.close()
	var bad *malformed
	switch {
	case errors.Is(err, errGone):
		return nil, false, s.unlink(f.path)
	case errors.As(err, &bad):
		_, base := split(f.path)
		id, _ := ctlfile.Number(base)
		gone := s.discard(Name{f.path, id}, bad.reason)
		if gone.Why == Quarantined {
			return []Result{gone}, false, nil
		}
		return nil, false, err
	case err != nil:
		return nil, false, err
	}
	if !allDone(d.file) {
		return nil, false, ErrOpen
	}
	if err := d.recordLost(); err != nil {
		return nil, false, err
	}
	if !owes(d.file, true) {
		return nil, false, s.unlink(f.path)
	}
	_, err = s.moveMessage(f.path, Queue, Postman)
	return nil, err == nil, err
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

func (s *Spool) unlink(path string) error {
	q := s.pairs[Queue]
	if err := remove(q.transport, path); err != nil {
		return fmt.Errorf("unlinking the control file: %w", err)
	}
	if err := remove(q.queue, path); err != nil {
		return fmt.Errorf("unlinking the message file: %w", err)
	}
	return nil
}
