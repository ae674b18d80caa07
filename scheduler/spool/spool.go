package spool

import (
	"time"

	"zsched/ctlfile"
)

// Options says where the spool is and how much it may do at once. The zero
// value of every field but Postoffice is its default.
type Options struct {
	Postoffice string
	// HashLevels is how deep control files found at the top of transport/
	// are moved: 0, 1 or 2 (option -H, SCHEDULERDIRHASH).
	HashLevels int
	// NewLimit and NewTime end a sweep that found so many new names or took
	// so long; it goes on when those are digested (option -E). Default 40000
	// and 5 s, at least 10, and 2 s to 15 s.
	NewLimit int
	NewTime  time.Duration
	// NotifySocket is "UNIX:/path" or "/path"; default
	// $POSTOFFICE/.scheduler.notify.
	NotifySocket string
	// Takers read control files, default 2; Markers write in them, default
	// 4; Retirers unlink, default 2.
	Takers, Markers, Retirers int
}

// Mark is the outcome of one recipient, to be written into its control file.
type Mark struct {
	Offset int64
	Tag    ctlfile.Tag
	// Diagnose asks for a d line before the tag. An empty first field of
	// Notary, or one of the byte 0x03, stands for the recipient's address.
	Diagnose     bool
	Notary, Text string
}

// Place is a pair of directories that hold messages: control files in
// transport/, message files in queue/, under one prefix and name.
type Place uint8

const (
	Queue   Place = iota // $POSTOFFICE itself: what is to be delivered
	Hold                 // $POSTOFFICE/hold: what a postmaster holds back
	Postman              // $POSTOFFICE/postman: what owes a notice
	Corrupt              // $POSTOFFICE/corrupt: what is beyond understanding
)

// Spool is the open spool. Its methods may be called from any goroutine; all
// but Open and Close return at once.
type Spool struct {
	found   chan []Name
	results chan []Result
}

// Open makes the directories corrupt/, hold/ and postman/ where they are
// missing, binds the notify socket, begins to watch and to sweep. An error
// is one without which there is no spool: $POSTOFFICE/transport or
// $POSTOFFICE/queue cannot be opened, say.
func Open(o Options) (*Spool, error) {
	return &Spool{found: make(chan []Name), results: make(chan []Result)}, nil
}

// Found gives out names of control files, in batches of at most 256, from
// the sweep, the watch and the notify socket. A name can come more than once,
// and come when its message is long known: the receiver decides what is new,
// and passes that to Take before it receives again. The receiver's pace is
// the pace of the sweep.
func (s *Spool) Found() <-chan []Name { return s.found }

// Results gives out answers in batches, those to one Take oldest control file
// first. The channel is never closed.
func (s *Spool) Results() <-chan []Result { return s.results }

// Take reads these control files. Each name is answered by Taken or Refused,
// Triggered before it or in its stead; a name that is being taken already is
// passed over and has its one answer.
func (s *Spool) Take(names []Name) {}

// Mark writes the outcomes into the control file: diagnostics first, durably,
// then tags. It may be repeated after a failure or a crash. A recipient that
// is done in the file stays as it is. Where one of an exclusive set is
// delivered the others are tagged '+' with it, and what was to be said of
// those that had failed counts as said. Answered by Marked.
func (s *Spool) Mark(op uint64, path string, marks []Mark) {}

// Reread reads the control file again, having cleared locks that dead
// processes left, dead's among them (0: none died), and settled what a d line
// says. Answered by Reread.
func (s *Spool) Reread(op uint64, path string, dead int) {}

// Finish removes a message of which all recipients are done: the control file
// first, then the message file. With owes it looks for diagnostics that
// nobody was sent, and where a notice is owed both files are parked under
// postman/ instead. Answered by Finished.
func (s *Spool) Finish(op uint64, path string, owes bool) {}

// Move carries a message from one place to another: the message file first,
// then the control file. Nothing is overwritten. Answered by Moved.
func (s *Spool) Move(op uint64, path string, from, to Place) {}

// Probe tries whether transport/ can be written. Answered by Probed.
func (s *Spool) Probe() {}

// Verbose appends a line to the log that a sender asked for, with the rights
// of owner, if that file exists and is the owner's. There is no answer.
func (s *Spool) Verbose(path string, owner uint32, line string) {}

// Sweep brings the next sweep of the whole tree forward to now.
func (s *Spool) Sweep() {}

// Close stops everything, gives up what was asked but not begun, and removes
// the notify socket. No answers come after it.
func (s *Spool) Close() {}
