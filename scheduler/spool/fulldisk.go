package spool

// A full or faulty disk, and a queue/ that is gone: how such a fault is distinguished from
// one of a single file, and how the spool is probed until it works.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// errAway says that a directory of the postoffice is not at its name.
var errAway = errors.New("put it back")

// IsDown reports whether the fault is not one file's but the spool's: the disk is
// full, faulty or read-only, or a directory is gone. The next change would fail, too, so nothing
// is fed until a Probe succeeds.
func IsDown(err error) bool {
	for _, fault := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, errAway} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// probeName starts with a dot, so that it is not taken for a control file.
const probeName = ".scheduler.probe"

// probeBytes is how much a probe writes: more than fits into the rest of a block or
// into an inode, and as much as hundreds of outcomes need. A smaller probe would
// start the feeding again as soon as one block is free.
const probeBytes = 64 << 10

// Probe tries to write in transport/, and looks for transport/ and queue/ at their names. The
// result is Probed.
func (s *Spool) Probe() {
	s.edit("", func() {
		down, lost := s.standing.examine()
		if lost != nil {
			s.standing.disown(lost)
			return
		}
		if down == nil {
			down = s.probe()
		}
		s.queue.add(Probed{down})
	})
}

func (s *Spool) probe() error {
	transport := s.places.pairs[Queue].transport
	err := postoffice.WriteFile(transport, probeName, make([]byte, probeBytes), true)
	if removing := postoffice.Remove(transport, probeName); err == nil {
		err = removing
	}
	if err != nil {
		return fmt.Errorf("writing transport/%s: %w", probeName, err)
	}
	return nil
}
