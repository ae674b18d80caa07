package spool

// Results: what the spool answers and tells.

import (
	"errors"
	"strings"
	"time"

	"zsched/ctlfile"
)

// Result is what the spool has to say about one thing it was asked or came
// across. The set is sealed: what is in this file is all there is.
type Result interface{ result() }

// Name is a control file's place below transport/ and its number.
type Name struct {
	Path string // hash prefix and base name: "F/F/258367"
	ID   uint64 // the number at the front of the base name; never 0
}

type (
	// Loaded is a message whose control file was read and understood and whose
	// message file is there. It may have no open recipient: then it is to be
	// finished.
	Loaded struct {
		Name    Name   // where it lies now, a hash move done
		LogID   string // "" when it has none
		Verbose string // path for Verbose, "" when nobody asked
		// Sender is the user of the last s line; ErrorTo is where reports go.
		Sender, ErrorTo string
		NullSender      bool
		Owner           uint32    // uid that owns the message file
		ModifiedAt      time.Time // mtime of the message file
		ChangedAt       time.Time // ctime of the control file, as it was found
		Size            int64     // bytes of the message file
		Owes            bool      // a notice is owed that nobody was sent
		// Recipients that are open, in file order. Of an exclusive set none
		// is listed once one was delivered, and none that failed.
		Recipients []ctlfile.OpenRecipient
		Obsoletes  []string
	}

	// Refused is a name that did not become a message.
	Refused struct {
		Name   Name
		Why    Refusal
		Reason string // as a person reads it
		// Tries counts the refusals of this name in a row, from 1. Beyond
		// 4096 names that wait for another look those of the others count
		// together: whoever tells of every doubling does not tell of each.
		Tries int
	}

	// Triggered: a file asked for the mail of this host now (ETRN).
	Triggered struct {
		Name Name
		Host string // lower case
		Text string // the whole value: the host and who asked
	}

	// Marked answers Mark. Missing says that there is no control file any
	// more in which to mark; then Err is nil. Err may wrap ErrSpoolDown.
	Marked struct {
		Op      uint64
		Err     error
		Missing bool
	}

	// Reread answers Reread. When the file is gone, or was found to be
	// beyond understanding and put away (which a Refused tells), Missing is
	// set and Err is nil.
	Reread struct {
		Op         uint64
		Err        error
		Missing    bool
		Owes       bool
		Recipients []ctlfile.State // every recipient of the file, in its order
	}

	// Finished answers Finish. Err wraps ErrOpen when the file still has a
	// recipient to work on; then nothing was done. It may wrap
	// ErrSpoolDown.
	Finished struct {
		Op     uint64
		Err    error
		Notice string // file of the notice that was written, below $POSTOFFICE, or ""
		Parked bool   // it owes a notice: both files are under postman/ now
	}

	// Reported answers Report. Notice is the file of the notice, below
	// $POSTOFFICE; "" if none was owed or nobody gets it. Missing says that there
	// is no such control file. Err may wrap ErrSpoolDown.
	Reported struct {
		Op      uint64
		Name    Name
		Err     error
		Missing bool
		Notice  string
	}

	// Unparked: a message was removed from postman/, because its notice was
	// written or none is owed any more (then Notice is "").
	Unparked struct {
		Name   Name
		Notice string
	}

	// Moved answers Move and Hold. Missing says that there was no such control
	// file.
	Moved struct {
		Op      uint64
		Err     error
		Missing bool
	}

	// Released answers Release. Name is where the message lies in the queue
	// now, for the receiver to pass to Load; a hint or the sweep may bring it
	// too. Missing says that no held message was meant.
	Released struct {
		Op      uint64
		Err     error
		Missing bool
		Name    Name
	}

	// Recorded answers HoldThreads: nil when the list is on disk.
	Recorded struct {
		Op  uint64
		Err error
	}

	// Resubmitted answers Resubmit. Offsets are the recipients that went, '+'
	// in the old control file; they may come with an error that kept the rest.
	// A recipient that went and could not be tagged is among them, with that
	// error: it will go twice unless memory knows.
	Resubmitted struct {
		Op      uint64
		Err     error
		Missing bool
		Offsets []int64
		// Router are the names of the new messages below router/; Name is that
		// of the new control file in the queue, for the receiver to pass to
		// Load, and zero when the router has them.
		Router []string
		Name   Name
		// What the old control file says now, as for Reread.
		Owes       bool
		Recipients []ctlfile.State
	}

	// Probed answers Probe: nil when transport/ and the directories that
	// could not be written can be written.
	Probed struct{ Err error }

	// Swept: one sweep of the whole tree is at its end; what it found has
	// been given out.
	Swept struct{}

	// Warning is something the administrator should read that belongs to no
	// name and no op.
	Warning struct{ Text string }
)

// Refusal is why a name did not become a message.
type Refusal uint8

const (
	// Vanished: there is no such regular file. Nothing to worry about.
	Vanished Refusal = iota + 1
	// Busy: a live process has a recipient locked. Looked at again after 32 s.
	Busy
	// Unfinished: not understood, but changed within the last minute, so
	// that somebody may still be writing it. Looked at again after 10 s.
	Unfinished
	// Unreadable: the system did not let us read, write or move it. Looked
	// at again after 2 min.
	Unreadable
	// Quarantined: read but not understood, or without its message file;
	// what there was of the two lies under corrupt/ now.
	Quarantined
	// Elsewhere: its message file was found held, parked or in quarantine,
	// and the control file has followed it there.
	Elsewhere
)

// String names the refusal as logs do.
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
	case Elsewhere:
		return "elsewhere"
	}
	return "unknown"
}

// ErrOpen says that a message has a recipient that is not done.
var ErrOpen = errors.New("a recipient is still open")

// NewFiles names what was written, below POSTOFFICE, with blanks between.
func (r *Resubmitted) NewFiles() string {
	var names []string
	for _, name := range r.Router {
		names = append(names, "router/"+name)
	}
	if r.Name.Path != "" {
		names = append(names, "transport/"+r.Name.Path)
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
func (Unparked) result()    {}
func (Moved) result()       {}
func (Released) result()    {}
func (Recorded) result()    {}
func (Resubmitted) result() {}
func (Probed) result()      {}
func (Swept) result()       {}
func (Warning) result()     {}
