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
	s.errands.push(func() {
		n, err := s.locate(context.Background(), Hold, id)
		if err != nil || n.ID == 0 {
			s.outbox.add([]Result{Released{Op: op, Err: err, Missing: err == nil}})
			return
		}
		s.edit(n.Path, func() {
			missing, err := s.carry(n.Path, Hold, Queue)
			if err != nil {
				err = fmt.Errorf("releasing %q: %w", n.Path, err)
			}
			s.outbox.add([]Result{Released{op, err, missing, n}})
		})
	})
}
