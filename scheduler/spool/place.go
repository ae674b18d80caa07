package spool

// Places: the queue, hold/, postman/ and corrupt/, each with its two directories.

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Place is a pair of directories that hold messages: control files in
// transport/ and message files in queue/, each message with the same hash prefix
// and name in both.
type Place uint8

const (
	Queue   Place = iota // $POSTOFFICE itself: mail to be delivered
	Hold                 // $POSTOFFICE/hold: held mail
	Postman              // $POSTOFFICE/postman: mail that owes a notice
	Corrupt              // $POSTOFFICE/corrupt: quarantine

	placeCount
)

// dir is the place's directory below $POSTOFFICE, with its slash.
func (p Place) dir() string {
	return [placeCount]string{"", "hold/", "postman/", "corrupt/"}[p]
}

// String names the place in logs.
func (p Place) String() string {
	if p == Queue {
		return "the queue"
	}
	return strings.TrimSuffix(p.dir(), "/")
}

// pair holds the descriptors of a place's two directories.
type pair struct{ transport, queue int }

// openPair opens the directories of a place below the open directory $POSTOFFICE.
// It makes those that are missing, except those of the queue.
func openPair(office int, p Place) (pair, error) {
	none := pair{-1, -1}
	if p != Queue {
		for _, dir := range []string{p.dir(), p.dir() + "transport", p.dir() + "queue"} {
			if err := postoffice.MakeDir(office, dir, 0o750); err != nil {
				return none, fmt.Errorf("making %q: %w", dir, err)
			}
		}
	}
	transport, err := postoffice.OpenDir(office, p.dir()+"transport")
	if err != nil {
		return none, fmt.Errorf("opening %q: %w", p.dir()+"transport", err)
	}
	queue, err := postoffice.OpenDir(office, p.dir()+"queue")
	if err != nil {
		postoffice.Close(transport)
		return none, fmt.Errorf("opening %q: %w", p.dir()+"queue", err)
	}
	return pair{transport, queue}, nil
}

func (d pair) close() {
	postoffice.Close(d.transport)
	postoffice.Close(d.queue)
}

// pair returns the directories of a place. While they are missing, because the
// disk was full at the start, their descriptors are -1, and nothing exists there.
func (s *Spool) pair(p Place) pair {
	if pair := s.pairs[p].Load(); pair != nil {
		return *pair
	}
	return pair{-1, -1}
}

// obtainPair is like pair, but it makes the directories if they are missing, also if they
// were there at the start. Callers that put something there use it.
func (s *Spool) obtainPair(p Place) (pair, error) {
	s.making.Lock()
	defer s.making.Unlock()
	old := s.pairs[p].Load()
	if old != nil && (p == Queue || s.inPlace(p, *old)) {
		return *old, nil
	}
	made, err := openPair(s.office, p)
	if err != nil {
		return made, err
	}
	if p != Queue {
		if err := requireOneFileSystem(p, s.pair(Queue), made); err != nil {
			made.close()
			return pair{-1, -1}, err
		}
	}
	s.pairs[p].Store(&made)
	if old != nil {
		s.removed = append(s.removed, *old)
		s.warn(fmt.Sprintf("%stransport and %squeue were removed or replaced while the scheduler runs, and are opened again", p.dir(), p.dir()))
		if p == Hold {
			s.queue.add([]Result{HoldReplaced{}}, 0)
		}
	}
	return made, nil
}

// noticeHold makes hold/ again if it was removed while the scheduler runs, so that the records
// of held and suspended threads, which the scheduler knows, are written again.
func (s *Spool) noticeHold() error {
	if s.pairs[Hold].Load() == nil {
		return nil // the disk was full at the start
	}
	_, err := s.obtainPair(Hold)
	return err
}

// inPlace reports whether the directories of a place are those that were opened.
func (s *Spool) inPlace(p Place, opened pair) bool {
	for dir, fd := range map[string]int{"transport/": opened.transport, "queue/": opened.queue} {
		var now, was unix.Stat_t
		err := postoffice.Stat(s.office, p.dir()+dir, &now)
		if err == unix.ENOENT || err == nil && postoffice.Fstat(fd, &was) == nil && (now.Ino != was.Ino || now.Dev != was.Dev) {
			return false
		}
	}
	return true
}

// requireOneFileSystem checks that messages can be renamed between a place and
// the queue.
func requireOneFileSystem(p Place, queue, other pair) error {
	for _, d := range []struct {
		name         string
		queue, other int
	}{{"transport", queue.transport, other.transport}, {"queue", queue.queue, other.queue}} {
		ok, err := postoffice.CanRename(d.queue, d.other)
		if err != nil {
			return fmt.Errorf("examining %s%s: %w", p.dir(), d.name, err)
		}
		if !ok {
			return fmt.Errorf("%s%s is on another file system than %s: messages cannot be renamed between them",
				p.dir(), d.name, d.name)
		}
	}
	return nil
}
