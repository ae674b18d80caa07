package spool

import (
	"context"
	"fmt"
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
		s.outbox.add([]Result{Released{Op: op, Missing: true}})
	case what.path != "":
		s.releaseHeld(op, Name{what.path, what.number})
	default:
		s.errands.push(func() {
			n, err := s.locate(context.Background(), Hold, what)
			if err != nil || n.ID == 0 {
				s.outbox.add([]Result{Released{Op: op, Err: err, Missing: err == nil}})
				return
			}
			s.releaseHeld(op, n)
		})
	}
}

func (s *Spool) releaseHeld(op uint64, n Name) {
	s.edit(n.Path, func() {
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
		s.outbox.add([]Result{answer})
	})
}
