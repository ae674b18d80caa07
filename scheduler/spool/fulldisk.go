package spool

// A full or faulty disk, directories that cannot be written, and a queue/ that is
// gone: how such a fault is distinguished from one of a single file, how the spool is
// probed until it works, and how much space a file system has.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// ErrSpoolDown says that the fault is not one file's but the spool's: the disk is
// full, faulty or read-only, or files can be neither made nor removed in the
// directory. The next change would fail, too, so nothing is fed until a Probe
// succeeds.
var ErrSpoolDown = errors.New("the spool cannot be written")

// classify adds ErrSpoolDown to an error about the control file at path in the
// queue, or about its message file, if the fault is not that file's. The system
// does not say whether it forbids a change to the file or to its directory, so
// classify tries the directory.
func (s *Spool) classify(path string, err error) error {
	for _, errno := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", err, ErrSpoolDown)
		}
	}
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return err
	}
	place, path := placeOf(path)
	prefix, _ := split(path)
	q := s.pair(place)
	for _, d := range []directory{{q.transport, prefix}, {q.queue, prefix}} {
		if d.failure() != nil {
			s.unwritable.add(d)
			return fmt.Errorf("%w: %w", err, ErrSpoolDown)
		}
	}
	return err
}

// queueGone returns an error that wraps ErrSpoolDown if $POSTOFFICE/queue is not the
// directory that was opened at the start. Agents find no message files then. It looks
// for queue/ from transport/, as agents do: this way leads into a volume that was mounted
// over the postoffice later.
func (s *Spool) queueGone() error {
	fd, err := postoffice.OpenDir(s.pair(Queue).transport, "../queue")
	if err != nil {
		return fmt.Errorf("opening queue/: %w: %w", err, ErrSpoolDown)
	}
	defer postoffice.Close(fd)
	var now, opened unix.Stat_t
	if err := errors.Join(postoffice.Fstat(fd, &now), postoffice.Fstat(s.pair(Queue).queue, &opened)); err != nil {
		return fmt.Errorf("examining queue/: %w", err)
	}
	if now.Dev != opened.Dev || now.Ino != opened.Ino {
		return fmt.Errorf("queue/ is not the directory that it was at the start; put that back: %w", ErrSpoolDown)
	}
	return nil
}

// directory is a directory of the queue.
type directory struct {
	at     int    // transport/ or queue/
	prefix string // below it, with the slash; "" is at itself
}

// failure returns why no file can be made and removed in the directory. It is nil
// for a directory that does not exist.
func (d directory) failure() error {
	if err := d.try(nil, false); err != unix.ENOENT {
		return err
	}
	return nil
}

// try makes a file with this text in the directory and removes it.
func (d directory) try(text []byte, sync bool) error {
	err := postoffice.WriteFile(d.at, d.prefix+probeName, text, sync)
	if removing := postoffice.Remove(d.at, d.prefix+probeName); err == nil {
		err = removing
	}
	return err
}

// unwritable are the directories in which files could be neither made nor
// removed. There are at most as many as the queue has.
type unwritable struct {
	mu          sync.Mutex
	directories map[directory]struct{}
}

func (u *unwritable) add(d directory) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.directories[d] = struct{}{}
}

// probe tries all of them again and forgets those that can be written.
func (u *unwritable) probe() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for d := range u.directories {
		if err := d.failure(); err != nil {
			return fmt.Errorf("writing %q in the queue: %w", d.prefix+probeName, err)
		}
		delete(u.directories, d)
	}
	return nil
}

// probeName starts with a dot, so that it is not taken for a control file.
const probeName = ".scheduler.probe"

// probeBytes is how much a probe writes: more than fits into the rest of a block or
// into an inode, and as much as hundreds of outcomes need. A smaller probe would
// start the feeding again as soon as one block is free.
const probeBytes = 64 << 10

// Probe tries to write in transport/, and in the directories that could not be
// written, and looks for transport/ and queue/ at their names. The result is Probed.
func (s *Spool) Probe() {
	s.edit("", func() {
		down, lost := s.examine()
		if lost != nil {
			s.disown(lost)
			return
		}
		if down == nil {
			down = s.probe()
		}
		s.queue.add([]Result{Probed{down}}, 0)
	})
}

func (s *Spool) probe() error {
	transport := directory{at: s.pair(Queue).transport}
	if err := transport.try(incompressible(probeBytes), true); err != nil {
		return fmt.Errorf("writing transport/%s: %w", probeName, err)
	}
	if err := s.queueGone(); err != nil {
		return err
	}
	return s.unwritable.probe()
}

// incompressible returns n bytes that take n bytes on any file system.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
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
	block := uint64(max(st.Frsize, 1))
	return Space{
		FreeKB:    kilobytes(st.Bavail, block),
		UsedKB:    kilobytes(st.Blocks-min(st.Bfree, st.Blocks), block),
		FreeFiles: st.Ffree,
		UsedFiles: st.Files - min(st.Ffree, st.Files),
	}, nil
}

// kilobytes converts a number of blocks. The block size is a power of two.
func kilobytes(blocks, block uint64) uint64 {
	if block >= 1024 {
		return blocks * (block / 1024)
	}
	return blocks / (1024 / block)
}

// isFull reports whether an error means that a disk has no room.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
