package spool

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrShut says that files can be neither made nor removed in the directory in
// which one was to be worked on: it is not that file's fault, and the next
// one's will be the same.
var ErrShut = errors.New("no file can be made or removed beside it")

// folder is a directory of the queue.
type folder struct {
	at     int    // transport/ or queue/
	prefix string // below it, with the slash; "" is at itself
}

// trial makes and removes a file in it. That there is no such directory is no
// error.
func (f folder) trial() error {
	if err := f.try(nil, false); err != unix.ENOENT {
		return err
	}
	return nil
}

// try makes a file of this text in it, and removes it.
func (f folder) try(text []byte, sync bool) error {
	err := writeFile(f.at, f.prefix+probeName, text, sync)
	if removing := remove(f.at, f.prefix+probeName); err == nil {
		err = removing
	}
	return err
}

// shut is where files can be neither made nor removed, as far as that was
// noticed: at most the queue's directories.
type shut struct {
	mu      sync.Mutex
	folders map[folder]struct{}
}

// blame adds ErrShut to an error with the control file at path in the queue,
// or its message file, if it was not that file that was denied to us but
// anything in its directory. The system does not tell one from the other, so
// it is tried.
func (s *Spool) blame(path string, err error) error {
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return err
	}
	prefix, _ := split(path)
	q := s.pairs[Queue]
	for _, f := range []folder{{q.transport, prefix}, {q.queue, prefix}} {
		if f.trial() != nil {
			s.shut.add(f)
			return fmt.Errorf("%w: %w", err, ErrShut)
		}
	}
	return err
}

func (s *shut) add(f folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[f] = struct{}{}
}

// probe tries them all again and forgets those that are open.
func (s *shut) probe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.folders {
		if err := f.trial(); err != nil {
			return fmt.Errorf("writing %q in the queue: %w", f.prefix+probeName, err)
		}
		delete(s.folders, f)
	}
	return nil
}
