package spool

// Places: the queue, hold/ and corrupt/, each with its two directories.

import (
	"fmt"
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

// underHold begins the Path of a control file below hold/transport/, in names and
// in operations but Hold and Release. Any other path is below transport/.
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

// places are the open directories below $POSTOFFICE.
type places struct {
	office     int // descriptor of $POSTOFFICE
	pairs      [placeCount]pair
	control    postoffice.Control
	hashLevels int
	warn       func(text string)
	found      hashDirs

	// moving is held during every two-step move of a message that the receiver
	// may know, and while an interrupted move is completed.
	moving sync.Mutex
}

// madeDirs are the directories that are made if they are missing.
var madeDirs = []string{"hold", "hold/transport", "hold/queue", ordersDir, "corrupt", "corrupt/transport", "corrupt/queue"}

// openAll opens the directories. It makes hold/ and corrupt/ if they are missing. After an error,
// some may be open.
func (at *places) openAll(office string) (err error) {
	for p := range placeCount {
		at.pairs[p] = pair{-1, -1}
	}
	if at.office, err = postoffice.OpenDir(postoffice.WorkingDir, office); err != nil {
		return err
	}
	for _, dir := range madeDirs {
		if err := postoffice.MakeDir(at.office, dir, 0o750); err != nil {
			return fmt.Errorf("making %q: %w", dir, err)
		}
	}
	for p := range placeCount {
		for name, fd := range map[string]*int{"transport": &at.pairs[p].transport, "queue": &at.pairs[p].queue} {
			if *fd, err = postoffice.OpenDir(at.office, p.dir()+name); err != nil {
				return fmt.Errorf("opening %q: %w", p.dir()+name, err)
			}
		}
	}
	at.control, err = postoffice.NewControl(at.pairs[Queue].transport)
	return err
}

func (at *places) close() {
	for _, p := range at.pairs {
		postoffice.Close(p.transport)
		postoffice.Close(p.queue)
	}
	postoffice.Close(at.office)
}
