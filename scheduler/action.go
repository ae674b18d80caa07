package scheduler

import (
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// Action is something the core wants done. The set is sealed. Actions are
// performed in the order given, each without waiting for the one before,
// except that what goes to one agent arrives in order.
type Action interface{ action() }

type (
	// Start an agent. Answered by AgentStarted or AgentFailed.
	Start struct {
		Agent         AgentID
		Channel, Host string
		// Command is expanded: leading NAME=value words, the program, its
		// arguments.
		Command     []string
		UID, GID    int // -1: unchanged
		Nice        int
		Priority    int // absolute, when PrioritySet
		PrioritySet bool
	}

	// Feed gives the agent one job line.
	Feed struct {
		Agent AgentID
		Job   ta.Job
	}

	// Idle tells the agent that there is nothing to do now.
	Idle struct{ Agent AgentID }

	// Close asks the agent, which has no open job line, to leave: an empty
	// line, then end of file.
	Close struct{ Agent AgentID }

	// Kill ends an agent that does not leave: SIGTERM, or SIGKILL when Hard.
	Kill struct {
		Agent AgentID
		Hard  bool
	}

	// Mark writes outcomes into a control file: for each, the diagnostic
	// first (durably), then the tag. Answered by Done or Failed.
	Mark struct {
		Op      Op
		Message MessageID
		Path    string
		Marks   []RecipientMark
	}

	// Read a control file again, clearing locks that dead processes left, PID
	// among them. Answered by Reread or Failed.
	Read struct {
		Op      Op
		Message MessageID
		Path    string
		PID     int // of the agent that died, 0 if none did
	}

	// Finish a message none of whose recipients is open. It is unlinked,
	// control file first; one that owes a notice is parked instead. Answered
	// by Done or Failed.
	Finish struct {
		Op      Op
		Message MessageID
		Path    string
		Owes    bool // look for diagnostics that nobody was sent
	}

	// Hold moves a message to hold/. None of it is with an agent, and nothing
	// else of it is under way. Answered by Done, and the message is forgotten;
	// or by Failed, and it is back in the queue.
	Hold struct {
		Op      Op
		Message MessageID
		Path    string
	}

	// Resubmit writes the recipients at Offsets into a new message durably and
	// then tags them as done in this one. To is the channel and host they get;
	// empty, they go to the router as they are. A recipient that a live process
	// has locked makes it fail as a whole. Answered by Done, and the recipients
	// are gone; or by Failed, and they are due again.
	Resubmit struct {
		Op            Op
		Message       MessageID
		Path          string
		Offsets       []int64 // ascending
		Channel, Host string
	}

	// Answer says what an Ordered did, or would do: how many messages and
	// recipients it concerns, those that follow when they come back from their
	// agents included.
	Answer struct {
		Order      uint64
		Messages   int
		Recipients int
	}

	// Account is one line of the statistics log: a recipient left the queue.
	Account struct {
		Message       MessageID
		ModifiedAt    time.Time
		ChangedAt     time.Time
		State         string // ok, ok2, ok3, error, error2, expire
		Channel, Host string
	}

	// Complete is logged when the last recipient of a message is done.
	Complete struct {
		Message    MessageID
		ModifiedAt time.Time
		Recipients int
		Failed     int
	}

	// Note is something an administrator should read in the log.
	Note struct {
		Severity Severity
		Agent    AgentID   // 0 if it is about none
		Message  MessageID // 0 if it is about none
		Text     string
	}

	// Probe the spool: can it be written? Answered by SpoolBack or not at
	// all; the core asks again.
	Probe struct{}

	// Stopped: nothing is left to wait for, or nothing is waited for any more;
	// the process may exit, after the actions before this one.
	Stopped struct{}
)

// RecipientMark is the outcome of one recipient.
type RecipientMark struct {
	Offset int64
	Tag    ctlfile.Tag
	// LeaveTag says that the agent writes the tag itself.
	LeaveTag bool
	// Diagnose asks for a d line with Notary and Text before the tag.
	Diagnose bool
	Notary   ta.Notary
	Text     string
}

// Severity grades a Note.
type Severity uint8

const (
	Info Severity = iota
	Warning
	Error
)

func (Start) action()    {}
func (Feed) action()     {}
func (Idle) action()     {}
func (Close) action()    {}
func (Kill) action()     {}
func (Mark) action()     {}
func (Read) action()     {}
func (Finish) action()   {}
func (Hold) action()     {}
func (Resubmit) action() {}
func (Answer) action()   {}
func (Account) action()  {}
func (Complete) action() {}
func (Note) action()     {}
func (Probe) action()    {}
func (Stopped) action()  {}
