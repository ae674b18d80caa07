package spool

// Places: the queue, hold/ and corrupt/, each with its two directories.

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

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

// underHold begins the Path of a control file below hold/transport/, in names and in
// operations. Any other path is below transport/.
const underHold = "hold/"

// placeOf returns the place of a control file, and its path there.
func placeOf(path string) (p Place, inPlace string) {
	if rest, found := strings.CutPrefix(path, underHold); found {
		return Hold, rest
	}
	return Queue, path
}

// pair holds the descriptors of a place's two directories.
type pair struct{ transport, queue int }

// noPair is a pair that is not open.
var noPair = pair{-1, -1}

// places are the open directories below $POSTOFFICE.
type places struct {
	office     int // descriptor of $POSTOFFICE
	pairs      [placeCount]pair
	control    postoffice.Control
	hashLevels int
	warn       func(text string)

	// moving is held during every two-step move of a message that the receiver
	// may know, and while an interrupted move is completed.
	moving sync.Mutex
	// open is held while a query uses the descriptors, and when they are closed.
	open sync.RWMutex
	done <-chan struct{} // closed by Spool.Close
}

// openPlaces opens the directories. It makes hold/ and corrupt/ if they are missing.
func openPlaces(o *Options, warn func(string), done <-chan struct{}) (at *places, err error) {
	at = &places{
		office: -1, pairs: [placeCount]pair{Queue: noPair, Hold: noPair, Corrupt: noPair},
		hashLevels: o.HashLevels, warn: warn, done: done,
	}
	if err = at.openAll(o.Postoffice); err != nil {
		at.close()
		return nil, err
	}
	return at, nil
}

func (at *places) openAll(office string) (err error) {
	if at.office, err = postoffice.OpenDir(postoffice.WorkingDir, office); err != nil {
		return err
	}
	for p := range placeCount {
		if at.pairs[p], err = openPair(at.office, p); err != nil {
			return err
		}
	}
	if err := at.makeOrdersDir(); err != nil {
		return fmt.Errorf("making %s: %w", ordersDir, err)
	}
	at.control, err = postoffice.NewControl(at.pairs[Queue].transport)
	return err
}

func (at *places) close() {
	at.open.Lock()
	defer at.open.Unlock()
	for p := range placeCount {
		at.pairs[p].close()
	}
	if at.office >= 0 {
		postoffice.Close(at.office)
	}
}

func (at *places) closed() bool {
	select {
	case <-at.done:
		return true
	default:
		return false
	}
}

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

// makeOrdersDir makes the directory of hold records. An earlier start may have made it, or one
// above it, and ended before it was on disk.
func (at *places) makeOrdersDir() error {
	if err := postoffice.MakeDir(at.office, ordersDir, 0o750); err != nil {
		return err
	}
	if err := postoffice.SyncDirAt(at.office, filepath.Dir(ordersDir)); err != nil {
		return err
	}
	return postoffice.Sync(at.office)
}
