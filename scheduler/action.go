package scheduler

// Actions: what the core asks for.

import (
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/view"
	"zsched/ta"
)

// Action is something to be done outside the core. The set is sealed: this
// file lists everything that the core can ask for. Actions are performed in the
// order given, each without waiting for the one before. What is sent to one agent
// must arrive in order.
//
// Those of which each turn has one (Feed, Outcome, Finish) are pointers, and their
// memory is used again: a Finish is valid until it is answered, the others until the next Step.
type Action interface{ action() }

type (
	// Start an agent. The answer is AgentStarted or AgentFailed.
	Start struct {
		Agent         AgentID
		Channel, Host string
		// Command is expanded: leading NAME=value words, the program, its
		// arguments.
		Command     []string
		UID, GID    int // -1: unchanged
		Nice        int
		Priority    int // absolute; used if PrioritySet
		PrioritySet bool
	}

	// Feed gives the agent one job line.
	Feed struct {
		Agent AgentID
		Job   ta.JobLine
	}

	// Idle sends #idle: there is nothing to do now.
	Idle struct{ Agent AgentID }

	// Close asks the agent, which has no open job line, to exit: it sends an
	// empty line and then the end of file.
	Close struct{ Agent AgentID }

	// Kill ends an agent that does not exit: SIGTERM, or SIGKILL if Hard.
	Kill struct {
		Agent AgentID
		Hard  bool
	}

	// Mark writes outcomes into a control file. For each, the diagnostic is
	// written first (durably), then the tag. The answer is Done or Failed.
	Mark struct {
		Op      Op
		Message MessageID
		Path    string
		Marks   []ctlfile.Mark
	}

	// Read reads a control file again, and clears the locks of processes that no
	// longer exist, including those of PID. The answer is Done or Failed.
	Read struct {
		Op      Op
		Message MessageID
		Path    string
		PID     int // of the agent that died; 0 if none did
		// Offsets are its recipients in this file, if its pid is too large for a
		// lock: only the locks of these recipients are then cleared as its own. They
		// are ascending.
		Offsets []int64
		// AtWork are the pids of our agents that may be working on the message, in order. The
		// locks of our other agents are left over, because the agent could not remove
		// them, and are cleared. nil: not known; no lock of a live process is cleared.
		AtWork []int
	}

	// Report writes the notice that a message owes its sender and marks its
	// diagnostics as reported. RetryUntil is when the first of the open
	// recipients expires; zero: never. The answer is Done or Failed.
	Report struct {
		Op         Op
		Message    MessageID
		Path       string
		RetryUntil time.Time
	}

	// Finish removes the files of a message without open recipients, the
	// control file first. If the message owes a notice, it is written
	// first. The answer is Done or Failed.
	Finish struct {
		Op      Op
		Message MessageID
		Path    string
		Owes    bool // look for diagnostics that have not been reported yet
		// Untagged is the offset of the last recipient if its tag is not in the
		// control file yet; otherwise 0. Tag is written there only if the file
		// cannot be removed.
		Untagged int64
		Tag      ctlfile.Tag
		// For the log: when the message arrived, and how many recipients are done and have failed.
		ModifiedAt         time.Time
		Recipients, Failed int
	}

	// Hold moves a message to hold/. No agent has any of it, and no other
	// Action on its files is pending. From Done on, the Path of actions on it begins with
	// "hold/". After Failed it is still held.
	Hold struct {
		Op      Op
		Message MessageID
		Path    string
	}

	// Release moves a message back from hold/. Path is without "hold/".
	Release struct {
		Op      Op
		Message MessageID
		Path    string
	}

	// Resubmit writes the recipients at Offsets durably into a new message and
	// then tags them as done in this one. Channel and Host are those of the
	// new message; if both are empty, the recipients go to the router
	// unchanged. If a live process has locked one of the recipients, the whole
	// Resubmit fails. After Done the recipients are done; after Failed they are
	// in the queue as before.
	Resubmit struct {
		Op            Op
		Verb          view.Verb // VerbRequeue or VerbReroute
		Message       MessageID
		Path          string
		Offsets       []int64    // ascending
		Attempts      []int      // of each; set only for a move to another node
		Hold          *HoldOrder // the new message is held by it; nil: it is not
		Channel, Host string
	}

	// Answer says what an Ordered does, or would do. It includes what is with an agent, where the
	// order is executed later.
	Answer struct{ view.Outcome }

	// Outcome is one line of the statistics log: what became of a recipient. If there is an event
	// log, one that was deferred or killed has an Outcome as well, and the fields after Host are
	// set. There is none for alternatives that are no longer needed.
	Outcome struct {
		Message       MessageID
		ModifiedAt    time.Time
		ChangedAt     time.Time
		State         string // ok, ok2, ok3, error, error2, expire; deferred, killed
		Channel, Host string

		Offset       int64
		Agent        AgentID // 0: no agent was involved
		Notary, Text string  // as the agent reported them
		Attempts     int     // since the message was loaded, this one included
		NextAt       time.Time
		Owes         bool // the message owes a notice now
	}

	// Condition is for the event log. State says what
	//
	//	order      an order affects Recipients of a message, which may not be loaded
	//	blocked    alternatives wait for others, or a thread has no command
	//	suspended  a thread is not fed
	//	rule       a reply rule, Because, makes a message wait or fail
	//	release    the hold of a thread has ended by itself
	//	undone     an order was not carried out, because a Resubmit has failed
	//	gone       the control file is gone
	//
	// If Message is 0, it is about a whole thread.
	Condition struct {
		State         string
		Message       MessageID
		ModifiedAt    time.Time // of the message file, if State is order
		Channel, Host string    // of the thread; where VerbReroute sends recipients
		NextAt        time.Time // when it ends; zero: not known
		Order         string    // as in Ordered, and By and Because likewise
		Recipients    int
		By, Because   string // By is "" if another message obsoletes this one
	}

	// Note is a log message for the administrator.
	Note struct {
		Severity Severity
		Agent    AgentID   // 0 if it is not about an agent
		Message  MessageID // 0 if it is not about a message
		Text     string
	}

	// Probe asks whether the spool can be written. The answer is SpoolBack if
	// it can. Otherwise there is no answer, and the core asks again.
	Probe struct{}

	// Stopped: the process may exit when the actions before this one have been
	// performed. Nothing is left to wait for, or the time for waiting is over.
	Stopped struct{}
)

// IsFinal reports whether the recipient is done with an outcome: it is for the statistics log.
func (o *Outcome) IsFinal() bool { return o.State != deferred && o.State != killed }

// Severity grades a Note.
type Severity uint8

const (
	Info Severity = iota
	Warning
	Error
)

func (Start) action()     {}
func (*Feed) action()     {}
func (Idle) action()      {}
func (Close) action()     {}
func (Kill) action()      {}
func (Mark) action()      {}
func (Read) action()      {}
func (*Finish) action()   {}
func (Report) action()    {}
func (Hold) action()      {}
func (Release) action()   {}
func (Resubmit) action()  {}
func (Answer) action()    {}
func (*Outcome) action()  {}
func (Condition) action() {}
func (Note) action()      {}
func (Probe) action()     {}
func (Stopped) action()   {}
