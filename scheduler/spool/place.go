package spool

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is a pair of directories that hold messages: control files in
// transport/, message files in queue/, under one hash prefix and name.
type Place uint8

const (
	Queue   Place = iota // $POSTOFFICE itself: what is to be delivered
	Hold                 // $POSTOFFICE/hold: what a postmaster holds back
	Postman              // $POSTOFFICE/postman: what owes a notice
	Corrupt              // $POSTOFFICE/corrupt: what is beyond understanding

	placeCount
)

// dir is where the place is, below $POSTOFFICE, with its slash.
func (p Place) dir() string {
	return [placeCount]string{"", "hold/", "postman/", "corrupt/"}[p]
}

// String names the place for people.
func (p Place) String() string {
	if p == Queue {
		return "the queue"
	}
	return strings.TrimSuffix(p.dir(), "/")
}

// pair holds the descriptors of a place's two directories.
type pair struct{ transport, queue int }

// openPair opens the directories of a place below $POSTOFFICE, open as
// office. All but those of the queue are made when they are missing.
func openPair(office int, p Place) (pair, error) {
	none := pair{-1, -1}
	if p != Queue {
		for _, dir := range []string{p.dir(), p.dir() + "transport", p.dir() + "queue"} {
			if err := makeDir(office, dir, 0o750); err != nil {
				return none, fmt.Errorf("making %q: %w", dir, err)
			}
		}
	}
	transport, err := openDir(office, p.dir()+"transport")
	if err != nil {
		return none, fmt.Errorf("opening %q: %w", p.dir()+"transport", err)
	}
	queue, err := openDir(office, p.dir()+"queue")
	if err != nil {
		unix.Close(transport)
		return none, fmt.Errorf("opening %q: %w", p.dir()+"queue", err)
	}
	return pair{transport, queue}, nil
}

func (d pair) close() {
	unix.Close(d.transport)
	unix.Close(d.queue)
}

// makeDir makes a directory with exactly this mode, whatever the umask. One
// that exists is left as it is.
func makeDir(at int, path string, mode uint32) error {
	switch err := unix.Mkdirat(at, path, mode&0o777); err {
	case nil:
		return unix.Fchmodat(at, path, mode, 0)
	case unix.EEXIST:
		return nil
	default:
		return err
	}
}

// makePrefix makes the hash directories of a prefix such as "B/I/".
func makePrefix(at int, prefix string, mode uint32) error {
	for i := range len(prefix) {
		if prefix[i] != '/' {
			continue
		}
		if err := makeDir(at, prefix[:i], mode); err != nil {
			return err
		}
	}
	return nil
}

// split cuts a path into its hash prefix, with the slash, and its base name.
func split(path string) (prefix, base string) {
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i], path[i:]
}
