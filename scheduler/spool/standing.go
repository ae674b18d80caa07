package spool

// Whether the postoffice is still ours, and still the one of the start: another node may
// have taken it over, another scheduler may have it, and another directory may be at its
// name.

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zsched/internal/process"
	"zsched/scheduler/owner"
)

// Disowned says that the postoffice is not ours any more: another scheduler has it, or another
// transport/ or hold/ is at its name. From now on the spool writes nothing and answers nothing.
type Disowned struct{ Err error }

func (Disowned) result() {}

// Down says, without being asked, that transport/ or queue/ is not at its name. Probe tells when it is there again.
type Down struct{ Err error }

func (Down) result() {}

// standingInterval is the time between two examinations of the names.
const standingInterval = time.Second

// standing is what is known of the claim to the postoffice.
type standing struct {
	owner *owner.Owner
	add   func(Result)
	lost  atomic.Pointer[error] // why the postoffice is not ours any more; nil: it is
	told  atomic.Bool           // the result Disowned was added

	mu        sync.Mutex // held during an examination
	transport process.Directory
	queue     process.Directory
	hold      process.Directory
	away      bool // the result Down was added, and the directories are not back
}

// begin remembers which directories are at their names.
func (st *standing) begin(office string) (err error) {
	for name, dir := range map[string]*process.Directory{"transport": &st.transport, "queue": &st.queue, "hold": &st.hold} {
		found, e := process.FindDirectory(filepath.Join(office, name))
		*dir, err = found, errors.Join(err, e)
	}
	return err
}

// check returns an error if nothing may be fed or written in the postoffice any more. It
// wraps owner.ErrDisowned if another scheduler has it, and process.ErrReplaced if transport/ or
// hold/ at its full name is not the directory of the start. It is called before each batch of
// writes and of job lines, so the names are examined by another goroutine.
func (st *standing) check() error {
	if lost := st.lost.Load(); lost != nil {
		return *lost
	}
	if err := st.owner.Check(); err != nil {
		return st.lose(err)
	}
	return nil
}

// examining is the goroutine that examines the names.
func (s *Spool) examining() {
	for s.pause(standingInterval) {
		if _, lost := s.standing.examine(); lost != nil {
			s.standing.disown(lost)
		}
	}
}

// lose remembers why the postoffice is not ours any more.
func (st *standing) lose(err error) error {
	st.lost.CompareAndSwap(nil, &err)
	return *st.lost.Load()
}

// owned reports whether the postoffice is still ours. If not, it adds Disowned to the
// results, once.
func (st *standing) owned() bool {
	err := st.check()
	if err != nil {
		st.disown(err)
	}
	return err == nil
}

func (st *standing) disown(err error) {
	if !st.told.Swap(true) {
		st.add(Disowned{err})
	}
}

// isDown returns an error if a directory is not at its name, so that agents find no files there,
// or if the postoffice is not ours any more.
func (st *standing) isDown() error {
	down, lost := st.examine()
	return errors.Join(down, lost)
}

// examine examines the names. lost is why the postoffice is not ours any more. down says
// that a directory is not at its name, so that nothing can be fed until it is back: nobody
// else works there. It is added to the results if it is new.
//
// Another queue/ is not the end, because the mail in transport/ would be without its
// messages after a restart, and would fail. An error that does not say which directory is
// at a name is none of the two: the work itself meets it.
func (st *standing) examine() (down, lost error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.owner.CheckName(); err != nil {
		return nil, st.lose(err)
	}
	err := st.transport.Check()
	if errors.Is(err, process.ErrReplaced) {
		return nil, st.lose(err)
	}
	// What is held would go into the hold/ of the start, where no other start finds it.
	if err := st.hold.Check(); errors.Is(err, process.ErrReplaced) {
		return nil, st.lose(err)
	}
	if !process.IsMissing(err) {
		err = st.queue.Check()
	}
	if !process.IsMissing(err) && !errors.Is(err, process.ErrReplaced) {
		st.away = false
		return nil, nil
	}
	down = fmt.Errorf("%w; %w", err, errAway)
	if !st.away {
		st.away = true
		st.add(Down{down})
	}
	return down, nil
}
