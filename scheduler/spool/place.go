package spool

// Places: the queue, hold/ and corrupt/, each with its two directories.

import (
	"fmt"
	"strings"

	"zsched/internal/postoffice"
)

// Place is a pair of directories that hold messages: control files in
// transport/ and message files in queue/, each message with the same hash prefix
// and name in both.
type Place uint8

const (
	Queue   Place = iota // $POSTOFFICE itself: mail to be delivered
	Hold                 // $POSTOFFICE/hold: held mail
	Corrupt              // $POSTOFFICE/corrupt: quarantine

	placeCount
)

// dir is the place's directory below $POSTOFFICE, with its slash.
func (p Place) dir() string {
	return [placeCount]string{"", "hold/", "corrupt/"}[p]
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

// noPair is a pair that is not open.
var noPair = pair{-1, -1}

// openPair opens the directories of a place below the open directory $POSTOFFICE.
// It makes those that are missing, except those of the queue.
func openPair(office int, p Place) (pair, error) {
	if p != Queue {
		for _, dir := range []string{p.dir(), p.dir() + "transport", p.dir() + "queue"} {
			if err := postoffice.MakeDir(office, dir, 0o750); err != nil {
				return noPair, fmt.Errorf("making %q: %w", dir, err)
			}
		}
	}
	transport, err := postoffice.OpenDir(office, p.dir()+"transport")
	if err != nil {
		return noPair, fmt.Errorf("opening %q: %w", p.dir()+"transport", err)
	}
	queue, err := postoffice.OpenDir(office, p.dir()+"queue")
	if err != nil {
		postoffice.Close(transport)
		return noPair, fmt.Errorf("opening %q: %w", p.dir()+"queue", err)
	}
	return pair{transport, queue}, nil
}

func (d pair) close() {
	if d != noPair {
		postoffice.Close(d.transport)
		postoffice.Close(d.queue)
	}
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
