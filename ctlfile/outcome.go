package ctlfile

// Recipients and their outcomes, as values for programs that do not hold the File.

import (
	"fmt"
	"time"
)

// OpenRecipient is a recipient that is not done.
type OpenRecipient struct {
	Offset        int64  // of its line in the control file; identifies it there
	Channel, Host string // lower case; the first of a list of hosts
	Class         int    // class of an X line; 0 for an r line
	Notify        Notify
	Delays        int       // delay notices that the sender has got: the delay field
	DeliverBy     DeliverBy // from its N line
	User          string    // the address, or "" if the caller did not ask for it
	Originals     []string  // Recipient.Originals, likewise
	Attempts      int       // made before the recipient was moved here
}

// DoneRecipient is a recipient whose tag says that it is done, for the event log. The
// outcome may have been reported to a scheduler before or to none.
type DoneRecipient struct {
	Tag           Tag    // Delivered or Failed
	Channel, Host string // as in OpenRecipient
	User          string
	Notary, Text  string // of its last d line; "": it has none
}

// State is what a control file says about one recipient.
type State struct {
	Offset int64
	Tag    Tag // a lock left by a dead process is reported as Open
}

// Mark is the outcome of one recipient, to be written into its control file.
type Mark struct {
	Offset int64
	Tag    Tag
	// LeaveTag says that the agent writes the tag itself.
	LeaveTag bool
	// Diagnose asks for a d line with Notary and Text, which is written before the
	// tag. If the first field of Notary is empty, or the byte 0x03, which stands for
	// the user of the recipient line, it is replaced by the recipient's address.
	Diagnose     bool
	Notary, Text string
	// TriedAt is the time in the d line: of the last attempt. Zero: there was none, or its
	// time is not known.
	TriedAt time.Time
	// Killed says that nobody is to be told of this outcome (KILL). The notices that were owed
	// before are still owed.
	Killed bool
	// Fate, if not "", says that the recipient is tagged Delivered but was sent elsewhere,
	// and Text where to. Killed implies the fate of that name.
	Fate Fate
	// Delays, if not 0, is written into the delay field.
	Delays int
}

// Marking says who writes tags and d lines into the control file: the keyword
// marking= of a clause.
type Marking uint8

const (
	// AgentMarks is ZMailer's way: the agent locks a recipient, delivers, writes its d
	// line if one is needed, reports the outcome and writes the tag.
	AgentMarks Marking = iota
	// SchedulerMarks means that the scheduler does all writing: the agent only reads
	// the file, delivers and reports.
	SchedulerMarks
)

// ParseMarking reads the value of the clause keyword marking=.
func ParseMarking(s string) (Marking, error) {
	switch s {
	case "agent":
		return AgentMarks, nil
	case "scheduler":
		return SchedulerMarks, nil
	}
	return 0, fmt.Errorf("marking %q is neither agent nor scheduler", s)
}
