package spool

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Hold carries a message from the queue to hold/, where nothing but Release
// brings it back. Answered by Moved.
func (s *Spool) Hold(op uint64, path string) { s.Move(op, path, Queue, Hold) }

// Release carries a held message back to the queue, message file first. id is
// its path below hold/transport, its number or its spoolid. Answered by
// Released.
func (s *Spool) Release(op uint64, id string) {
	what, ok := parseIdentity(id)
	switch {
	case !ok:
		s.queue.add([]Result{Released{Op: op, Missing: true}}, 0)
	case what.path != "":
		s.releaseHeld(op, Name{what.path, what.number})
	default:
		s.errands.push(func() {
			n, err := s.locate(context.Background(), Hold, what)
			if err != nil || n.ID == 0 {
				s.queue.add([]Result{Released{Op: op, Err: err, Missing: err == nil}}, 0)
				return
			}
			s.releaseHeld(op, n)
		})
	}
}

// EndHeld writes outcomes into the control file of a held message, as Mark
// does, and then releases it: in the queue it is never seen without them. path
// is that below hold/transport. Answered by Released.
func (s *Spool) EndHeld(op uint64, path string, marks []ctlfile.Mark) {
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	s.edit(path, func() {
		err := s.workOn(Hold, path, unix.O_RDWR, func(d *document) error { return d.mark(marks) })
		switch {
		case errors.Is(err, errGone):
			s.queue.add([]Result{Released{Op: op, Missing: true}}, 0)
		case err != nil:
			s.queue.add([]Result{Released{Op: op, Err: fmt.Errorf("held control file %q: %w", path, err)}}, 0)
		default:
			s.queue.add([]Result{s.released(op, Name{path, id})}, 0)
		}
	})
}

func (s *Spool) releaseHeld(op uint64, n Name) {
	s.edit(n.Path, func() { s.queue.add([]Result{s.released(op, n)}, 0) })
}

// released carries a message back. It is the only one at work on the file
// meanwhile.
func (s *Spool) released(op uint64, n Name) Released {
	answer := Released{Op: op}
	missing, err := s.carry(n.Path, Hold, Queue)
	switch {
	case err != nil:
		answer.Err = fmt.Errorf("releasing %q: %w", n.Path, err)
	case missing:
		answer.Missing = true
	default:
		answer.Name = n
	}
	return answer
}
