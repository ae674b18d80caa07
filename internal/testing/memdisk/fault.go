package memdisk

// Faults: which calls fail, and how.

import (
	"strings"

	"golang.org/x/sys/unix"
)

// callKind is a class of calls that fail in the same ways.
type callKind uint8

const (
	opening  callKind = iota // an existing file
	creating                 // a file or a directory
	reading
	writing // data or attributes
	syncing
	naming // rename and unlink
)

// Faults are the errors that calls fail with.
type Faults struct {
	// Probability is that of a call to fail with Error; 0: none.
	Probability float64
	Error       unix.Errno
	// At restricts the faults to calls whose description begins with it, for example
	// "sync router"; "": all calls.
	At string
	// After is how many such calls succeed first.
	After int
	// Space is how many bytes all files may have together; 0: any number.
	Space int64
}

// SetFaults changes the faults.
func (d *Disk) SetFaults(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Failed returns the number of calls that failed because of Faults.
func (d *Disk) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Used returns the bytes in all files.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// failingKinds lists the kinds of calls that can fail with an error.
var failingKinds = map[unix.Errno][]callKind{
	unix.EIO:    {opening, creating, reading, writing, syncing, naming},
	unix.EINTR:  {opening, creating, reading, writing, syncing},
	unix.ENOSPC: {creating, writing, naming, syncing},
	unix.EDQUOT: {creating, writing, naming, syncing},
	unix.EMFILE: {opening, creating},
	unix.ENFILE: {opening, creating},
	unix.EROFS:  {creating, writing, naming},
	unix.EACCES: {opening, creating, naming},
}

// Errors are the errors that Faults.Error may be.
var Errors = []unix.Errno{
	unix.EIO, unix.EINTR, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.EROFS, unix.EACCES,
}

func (d *Disk) fault(kind callKind, what string) error {
	if !strings.HasPrefix(what, d.faults.At) || d.faults.Probability == 0 || d.rand.Float64() >= d.faults.Probability {
		return nil
	}
	for _, k := range failingKinds[d.faults.Error] {
		if k == kind {
			if d.faults.After > 0 {
				d.faults.After--
				return nil
			}
			d.failed++
			return d.faults.Error
		}
	}
	return nil
}

// room is how many bytes may still be written.
func (d *Disk) room() int64 {
	if d.faults.Space == 0 {
		return 1 << 40
	}
	return d.faults.Space - d.used
}
