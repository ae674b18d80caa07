package spool

// A full or faulty disk, and a queue/ that is gone: how such a fault is distinguished from
// one of a single file, and how the spool is probed until it works.

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// errAway says that a directory of the postoffice is not at its name.
var errAway = errors.New("put it back")

// errTag says that a tag could not be written in place, which needs no room on most file systems.
var errTag = errors.New("a tag cannot be written")

// IsDown reports whether the fault is not one file's but the spool's: the disk is
// faulty or read-only, or a directory is gone, or there is not even room for tags. Deliveries
// could not be recorded, so nothing is fed until a Probe succeeds.
func IsDown(err error) bool {
	faults := []error{unix.EROFS, unix.EIO, errAway}
	return slices.ContainsFunc(faults, func(fault error) bool { return errors.Is(err, fault) }) ||
		postoffice.IsNoRoom(err) && errors.Is(err, errTag)
}

// IsFull reports whether there is no room for something, although deliveries can be recorded. They
// make room, so feeding goes on.
func IsFull(err error) bool { return postoffice.IsNoRoom(err) && !IsDown(err) }

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
