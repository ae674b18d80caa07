package spool

// Recall: locks that the scheduler takes on recipients that an agent was given and has
// not begun with, so that it does not deliver to them.

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Recall locks recipients with our pid, as agents do with theirs: whoever comes first
// has them. If one of them is not open, none is locked. A restart clears the locks. So
// does Reread, with OurLocks.Recalled, and a Release of the message from hold/. The
// result is Recalled.
//
// A pid too large for a lock cannot be told from an agent's. Then nothing is locked.
func (s *Spool) Recall(op uint64, path string, offsets []int64) {
	offsets = slices.Clone(offsets)
	s.edit(path, func() {
		answer := Recalled{Op: op}
		var results []Result
		if os.Getpid() < ctlfile.MaxPID {
			results, answer.Missing, answer.Err = s.change(path, unix.O_RDWR, func(d *controlFile) (err error) {
				answer.Taken, err = d.lockAll(offsets)
				return err
			})
		}
		s.queue.add(append(results, answer), 0)
	})
}

// lockAll locks recipients for us: all, or none.
func (d *controlFile) lockAll(offsets []int64) (bool, error) {
	for n, offset := range offsets {
		i := d.file.Find(offset)
		free := i >= 0 && d.file.Recipients[i].Tag == ctlfile.Open
		var err error
		if free {
			free, err = ctlfile.Swap(d.fd, offset, ctlfile.Open, ctlfile.Locked, os.Getpid())
		}
		if free {
			continue
		}
		for _, before := range offsets[:n] {
			if _, undone := ctlfile.Swap(d.fd, before, ctlfile.Locked, ctlfile.Open, 0); err == nil {
				err = undone
			}
		}
		return false, err
	}
	return true, nil
}
