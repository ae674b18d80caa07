package spool

// A full or faulty disk, and directories that cannot be written: how they are
// told from a fault of one file, how the spool is probed until it works, and how
// much room a file system has.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
	"zsched/internal/postoffice"
)

// ErrSpoolDown says that not one file is at fault but the spool: the disk is
// full, faulty or read-only, or no file can be made or removed in the directory.
// The next change will fail too, so nothing is fed until a Probe succeeds.
var ErrSpoolDown = errors.New("the spool cannot be written")

// classify adds ErrSpoolDown to an error with the control file at path in the
// queue, or its message file, if the error is not that file's. The system does
// not say whether a file or its directory may not be changed, so the directory
// is tried.
func (s *Spool) classify(path string, err error) error {
	for _, errno := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", err, ErrSpoolDown)
		}
	}
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return err
	}
	prefix, _ := split(path)
	q := s.pairs[Queue]
	for _, d := range []directory{{q.transport, prefix}, {q.queue, prefix}} {
		if d.failure() != nil {
			s.unwritable.add(d)
			return fmt.Errorf("%w: %w", err, ErrSpoolDown)
		}
	}
	return err
}

// directory is one of the queue's.
type directory struct {
	at     int    // transport/ or queue/
	prefix string // below it, with the slash; "" is at itself
}

// failure returns why no file can be made and removed in it. A directory
// that does not exist is no error.
func (d directory) failure() error {
	if err := d.try(nil, false); err != unix.ENOENT {
		return err
	}
	return nil
}

// try makes a file of this text in it, and removes it.
func (d directory) try(text []byte, sync bool) error {
	err := postoffice.WriteFile(d.at, d.prefix+probeName, text, sync)
	if removing := postoffice.Remove(d.at, d.prefix+probeName); err == nil {
		err = removing
	}
	return err
}

// unwritable are the directories in which files can be neither made nor removed,
// as far as that was noticed: at most those of the queue.
type unwritable struct {
	mu          sync.Mutex
	directories map[directory]struct{}
}

func (u *unwritable) add(d directory) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.directories[d] = struct{}{}
}

// probe tries them all again and forgets those that can be written.
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

// probeName starts with a dot, so that nobody takes it for a control file.
const probeName = ".scheduler.probe"

// probeBytes is how much a probe writes: more than fits into the rest of a block
// or beside the file's inode when no outcome does, and room for some hundred
// outcomes. Otherwise mail would be fed again for the first block that is free.
const probeBytes = 64 << 10

// Probe tries whether transport/ can be written, and whether files can be made
// and removed in the directories in which that failed. Answered by Probed.
func (s *Spool) Probe() {
	s.edit("", func() { s.queue.add([]Result{Probed{s.probe()}}, 0) })
}

func (s *Spool) probe() error {
	transport := directory{at: s.pairs[Queue].transport}
	if err := transport.try(incompressible(probeBytes), true); err != nil {
		return fmt.Errorf("writing transport/%s: %w", probeName, err)
	}
	return s.unwritable.probe()
}

// incompressible returns n bytes that take n bytes on any file system.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

// Space is what a file system has.
type Space struct {
	FreeKB, UsedKB       uint64 // of 1024 bytes; free is what others than root may use
	FreeFiles, UsedFiles uint64 // inodes
}

// ReadSpace asks the file system that a directory is on (statfs(2)).
func ReadSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := eintr.Retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return Space{}, fmt.Errorf("asking for the space of %q: %w", dir, err)
	}
	block := uint64(max(st.Frsize, 1))
	return Space{
		FreeKB:    kilobytes(st.Bavail, block),
		UsedKB:    kilobytes(st.Blocks-min(st.Bfree, st.Blocks), block),
		FreeFiles: st.Ffree,
		UsedFiles: st.Files - min(st.Ffree, st.Files),
	}, nil
}

// kilobytes is that of so many blocks, whose size is a power of two.
func kilobytes(blocks, block uint64) uint64 {
	if block >= 1024 {
		return blocks * (block / 1024)
	}
	return blocks / (1024 / block)
}
