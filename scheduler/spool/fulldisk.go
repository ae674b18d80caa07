package spool

// A full or faulty disk, and a queue/ that is gone: how such a fault is distinguished from
// one of a single file, how the spool is probed until it works, and how much space a file
// system has.

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

// Space is the space of a file system.
type Space struct {
	FreeKB, UsedKB       uint64 // of 1024 bytes; free is what users other than root may use
	FreeFiles, UsedFiles uint64 // inodes
}

// ReadSpace returns the space of the file system that a directory is on
// (statfs(2)).
func ReadSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := postoffice.Statfs(dir, &st); err != nil {
		return Space{}, fmt.Errorf("reading the space of %q: %w", dir, err)
	}
	block := float64(st.Frsize) / 1024
	return Space{
		FreeKB:    uint64(float64(st.Bavail) * block),
		UsedKB:    uint64(float64(st.Blocks-min(st.Bfree, st.Blocks)) * block),
		FreeFiles: st.Ffree,
		UsedFiles: st.Files - min(st.Ffree, st.Files),
	}, nil
}
