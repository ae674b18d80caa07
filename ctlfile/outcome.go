package ctlfile

// Recipients and their outcomes, as values for programs that do not hold the File.

import "time"

// OpenRecipient is a recipient that is not done.
type OpenRecipient struct {
	Offset        int64  // of its line in the control file; identifies it there
	Channel, Host string // lower case; the first of a list of hosts
	Class         int    // class of an X line; 0 for an r line
	Notify        Notify
	Delays        int      // delay notices that the sender has got: the delay field
	User          string   // the address, or "" if the caller did not ask for it
	Originals     []string // Recipient.Originals, likewise
	Attempts      int      // made before the recipient was moved here
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
