package spool

// Results of operations, and events that the spool notices by itself.

import (
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// Result is the result of one operation, or something that the spool noticed.
type Result interface{ result() }

// Name is a control file's place below transport/ and its number.
type Name struct {
	Path string // hash prefix and base name: "F/F/258367"
	ID   uint64 // the number at the front of the base name; never 0
}

type (
	// Loaded is a message: its control file was read and understood. If it has no open
	// recipient, it is to be finished. None of its recipients is in an exclusive set with a
	// delivered one. The addresses of recipients, and those that are done, are there only if
	// Options.Users is set.
	Loaded struct {
		Name Name // after a move to its hash directory
		scheduler.Message
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

	// Answered says how an action ended that was passed to Do.
	Answered struct {
		Action  scheduler.Action
		Op      scheduler.Op
		Message scheduler.MessageID
		Err     error
		// Missing: there is no such control file, and Err is nil; or it was malformed and was moved
		// to corrupt/, which a Refused tells. A Finish that finds an open
		// recipient does nothing and sets Missing, and a sweep finds the file.
		Missing bool
		// Notice is the file of the notice that was written, below $POSTOFFICE, or "".
		Notice string
		// What the control file says after a Read or a Resubmit: Recipients are all, in its order.
		Owes       bool
		Recipients []ctlfile.State
		Copies
	}

	// Copies is what a Resubmit has made.
	Copies struct {
		// Offsets are the recipients that were sent and, but for Unmarked, are tagged '+' in the old
		// control file.
		// Err may say why the others were not. A recipient whose submission may not survive a
		// crash is not in Offsets, and may be sent twice.
		Offsets []int64
		// Unmarked has the outcomes of those of them that could not be tagged.
		Unmarked []ctlfile.Mark
		// Router has the names of the new messages below router/. Name is the new
		// control file in the queue or under hold/, for the receiver to pass to Load; it is
		// zero if the router has the messages.
		Router []string
		Name   Name
		// SpoolID is that of Name: numbers are used again, spoolids are not.
		SpoolID string
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
	// a second, then after twice the time, at last every 16 s.
	Busy
	// Unfinished: malformed, but changed within the last minute, so that a
	// process may still be writing it. It is read again like one that is busy.
	Unfinished
	// Unreadable: the system did not let us read, write or move it. It is read
	// again likewise.
	Unreadable
	// Quarantined: malformed, or without a whole message file. What there was of the two
	// files is under corrupt/ now.
	Quarantined
)

// String returns the word that logs and metrics use.
func (r Refusal) String() string {
	return [...]string{"unknown", "vanished", "busy", "unfinished", "unreadable", "quarantined"}[r]
}

// NewFiles returns the new files below $POSTOFFICE, with blanks between them.
func (r *Copies) NewFiles() string {
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

func (Loaded) result()    {}
func (Refused) result()   {}
func (Triggered) result() {}
func (Answered) result()  {}
func (Probed) result()    {}
func (Swept) result()     {}
func (Warning) result()   {}
