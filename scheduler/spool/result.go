package spool

// Results of operations, and events that the spool notices by itself.

import (
	"errors"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// Result is the result of one operation, or something that the spool noticed.
// The types in this file are all there are.
type Result interface{ result() }

// Name is a control file's place below transport/ and its number.
type Name struct {
	Path string // hash prefix and base name: "F/F/258367"
	ID   uint64 // the number at the front of the base name; never 0
}

type (
	// Loaded is a message: its control file was read and understood. If it has no open
	// recipient, it is to be finished.
	Loaded struct {
		Name      Name   // after a move to its hash directory
		MessageID string // "" if it has none
		// Sender is the user of the last s line; ErrorTo is where reports go.
		Sender, ErrorTo string
		NullSender      bool
		Owner           uint32    // uid that owns the message file
		ModifiedAt      time.Time // mtime of the message file
		ChangedAt       time.Time // ctime of the control file, as it was found
		Size            int64     // bytes of the message file
		Owes            bool      // a notice is owed and not sent
		// UnderHold says that Name.Path is below hold/transport/; it begins with "hold/" then.
		// Hold is what its record says; nil: there is none, or it does not hold the message any
		// more. Released: it is under hold/, and its release was recorded.
		UnderHold, Released bool
		Hold                *view.Hold
		// Recipients are those that are open, in file order. None of them is in
		// an exclusive set with a delivered recipient.
		Recipients []ctlfile.OpenRecipient
		// Done are those that are tagged as done, if Options.Users is set.
		Done      []ctlfile.DoneRecipient
		Obsoletes []string
	}

	// Refused is a name that did not become a message.
	Refused struct {
		Name   Name
		Why    Refusal
		Reason string // in words
		// Tries counts the refusals of this name in a row, from 1. At most 4096
		// waiting names are remembered; the refusals of the others are counted
		// together.
		Tries int
		// ModifiedAt is the mtime of the message file if Why is Quarantined; zero:
		// there is none.
		ModifiedAt time.Time
	}

	// Triggered says that a file asked for the mail of this host now (ETRN).
	Triggered struct {
		Name Name
		Host string // lower case
		Text string // the whole value: the host and who asked
	}

	// Marked is the result of Mark. Missing says that the control file does not
	// exist any more; then Err is nil. It is also set if the file was malformed and
	// moved to corrupt/, which Quarantined says and a Refused. Err may wrap
	// ErrSpoolDown.
	Marked struct {
		Op          uint64
		Err         error
		Missing     bool
		Quarantined bool
	}

	// Reread is the result of Reread. Missing is set, and Err is nil, if the
	// file does not exist or was malformed and moved to corrupt/; in the latter
	// case there is a Refused, too.
	Reread struct {
		Op          uint64
		Err         error
		Missing     bool
		Quarantined bool // as in Marked
		Owes        bool
		Recipients  []ctlfile.State // every recipient of the file, in its order
	}

	// Finished is the result of Finish. Err wraps ErrOpen if the file still has
	// an open recipient; then nothing was done. It may wrap ErrSpoolDown.
	Finished struct {
		Op     uint64
		Err    error
		Notice string // file of the notice that was written, below $POSTOFFICE, or ""
	}

	// Reported is the result of Report. Notice is the file of the notice, below
	// $POSTOFFICE; "" if none was owed or nobody gets it. Missing says that there
	// is no such control file. Err may wrap ErrSpoolDown.
	Reported struct {
		Op          uint64
		Name        Name
		Err         error
		Missing     bool
		Quarantined bool // as in Marked
		Notice      string
	}

	// Moved is the result of Hold and Release. Missing says that there is no such
	// control file.
	Moved struct {
		Op      uint64
		Err     error
		Missing bool
	}

	// Resubmitted is the result of Resubmit. Offsets are the recipients that
	// were sent and are tagged '+' in the old control file. Err may say why the
	// others were not. If Err says that a recipient was sent but could not be
	// tagged, Offsets has it too: it is sent twice unless the receiver remembers
	// it. A recipient whose submission may not survive a crash is not in Offsets, and
	// may be sent twice.
	Resubmitted struct {
		Op      uint64
		Err     error
		Missing bool
		Offsets []int64
		// Router has the names of the new messages below router/. Name is the new
		// control file in the queue or under hold/, for the receiver to pass to Load; it is
		// zero if the router has the messages.
		Router []string
		Name   Name
		// SpoolID is that of Name: numbers are used again, spoolids are not.
		SpoolID string
		// What the old control file says now, as for Reread.
		Owes       bool
		Recipients []ctlfile.State
	}

	// Probed is the result of Probe. Err is nil if transport/ can be written, and so
	// can the directories that could not be written before.
	Probed struct{ Err error }

	// Swept says that a sweep of the whole tree has ended and that all its names
	// were received.
	Swept struct{}

	// Warning is a text for the administrator that belongs to no name and no
	// operation.
	Warning struct{ Text string }
)

// Refusal is why a name did not become a message.
type Refusal uint8

const (
	// Vanished: there is no such regular file any more. This is harmless.
	Vanished Refusal = iota + 1
	// Busy: a live process has locked a recipient. The file is read again after
	// a second, then after twice the time, at last every 32 s.
	Busy
	// Unfinished: malformed, but changed within the last minute, so that a
	// process may still be writing it. It is read again like one that is busy, at
	// last every 10 s.
	Unfinished
	// Unreadable: the system did not let us read, write or move it. It is read
	// again likewise, at last every 20 s.
	Unreadable
	// Quarantined: malformed, or without a whole message file. What there was of the two
	// files is under corrupt/ now.
	Quarantined
)

// String returns the word that logs and metrics use.
func (r Refusal) String() string {
	switch r {
	case Vanished:
		return "vanished"
	case Busy:
		return "busy"
	case Unfinished:
		return "unfinished"
	case Unreadable:
		return "unreadable"
	case Quarantined:
		return "quarantined"
	}
	return "unknown"
}

// ErrOpen says that a message has a recipient that is not done.
var ErrOpen = errors.New("a recipient is still open")

// NewFiles returns the new files below $POSTOFFICE, with blanks between them.
func (r *Resubmitted) NewFiles() string {
	var names []string
	for _, name := range r.Router {
		names = append(names, "router/"+name)
	}
	if r.Name.Path != "" {
		place, path := placeOf(r.Name.Path)
		names = append(names, place.dir()+"transport/"+path)
	}
	return strings.Join(names, " ")
}

func (Loaded) result()      {}
func (Refused) result()     {}
func (Triggered) result()   {}
func (Marked) result()      {}
func (Reread) result()      {}
func (Finished) result()    {}
func (Reported) result()    {}
func (Moved) result()       {}
func (Resubmitted) result() {}
func (Probed) result()      {}
func (Swept) result()       {}
func (Warning) result()     {}
