package scheduler

import (
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// Event is something that happened outside. The set is sealed: what is in
// this file is all that the core can be told.
type Event interface{ event() }

// MessageID is the number at the front of a control file's name, which is the
// identity of a message for as long as its file exists.
type MessageID uint64

// AgentID names one started agent; it is never used again.
type AgentID uint32

// Op ties the completion of an Action on files to that Action.
type Op uint64

type (
	// Tick says that the time has come that Next named.
	Tick struct{}

	// Arrived brings a message that was taken from the spool.
	Arrived struct{ Message Message }

	// AgentStarted: the process exists. It is expected to say #hungry.
	AgentStarted struct {
		Agent AgentID
		PID   int
	}

	// AgentFailed: no process came of a Start.
	AgentFailed struct {
		Agent  AgentID
		Reason string
	}

	// AgentHungry: the agent asks for a job line, or answers #idle.
	AgentHungry struct{ Agent AgentID }

	// AgentReported: the agent's word about one recipient. It is not trusted.
	AgentReported struct {
		Agent  AgentID
		Report ta.Report
	}

	// AgentResync: the agent found nothing to do in this message's file.
	AgentResync struct {
		Agent   AgentID
		Message MessageID
	}

	// AgentSpoke: the agent said something else; it is alive.
	AgentSpoke struct{ Agent AgentID }

	// AgentExited: the process is gone and everything it said has been told.
	AgentExited struct {
		Agent  AgentID
		Status string // as a person reads it: "exit status 1", "signal: killed"
	}

	// Done: the Action with this Op, except a Read, is on disk.
	Done struct{ Op Op }

	// Failed: the Action with this Op could not be carried out. The core
	// keeps it and issues it again later; a Hold or a Resubmit it gives up, and
	// the mail is back in the queue.
	Failed struct {
		Op     Op
		Reason string
		// Wide says that nothing can be written now (full, read-only, broken):
		// the core stops feeding and probes until the spool is back.
		SpoolDown bool
		// Missing says that the control file is gone: the core forgets the
		// message.
		Missing bool
	}

	// Reread: the answer to a Read: what the control file says now.
	Reread struct {
		Op         Op
		Missing    bool // the file is gone
		Owes       bool // it holds diagnostics that nobody was sent
		Recipients []RecipientState
	}

	// SpoolBack: the answer to Probe: writing works again.
	SpoolBack struct{}

	// Triggered: somebody asks for the mail of this host now (ETRN).
	Triggered struct{ Host string }

	// Reloaded: a new configuration, already found good, is in force.
	Reloaded struct{ Config *Config }

	// Ordered: an administrator wants something done with mail. The answer is an
	// Answer in the same Step; what is with an agent by then follows when it
	// comes back. A Step costs as much as the messages of its targets have
	// vertices: a long list is given in parts, targets in one message one
	// after the other.
	Ordered struct {
		Order   uint64 // names it in the Answer
		Verb    Verb
		Targets []Target
		// To is where VerbReroute sends the recipients; Message does not matter.
		To Target
		// DryRun only counts.
		DryRun bool
	}

	// HeldThread: mail for this channel and host, present and to come, is
	// neither fed nor expired from now on; or it is again, and then every
	// recipient gets an attempt before it can expire. Told at the start for
	// each thread that is held, before any mail.
	HeldThread struct {
		Channel, Host string
		Held          bool
	}

	// Stopping: feed no more, let agents go, then say Stopped. A slow stop
	// waits longer for open job lines than a fast one.
	Stopping struct{ Slow bool }
)

// RecipientState is what a control file says about one recipient.
type RecipientState struct {
	Offset int64
	Tag    ctlfile.Tag // a lock left by a dead process reads as open
}

// Message is a message as the spool hands it over.
type Message struct {
	ID   MessageID
	Path string // of the control file below transport/, as agents are told it
	// LogID identifies the message for x lines; "" when it has none.
	LogID string
	// Sender is the user of the last s line; ErrorTo is where reports go.
	Sender, ErrorTo string
	NullSender      bool
	Owner           uint32    // uid that owns the message file
	ModifiedAt      time.Time // mtime of the message file: the message's age
	ChangedAt       time.Time // ctime of the control file
	Size            int64     // bytes of the message file
	Owes            bool      // holds diagnostics that nobody was sent yet
	// Released says that it comes back from hold/: its recipients get an
	// attempt before they can expire.
	Released bool
	// Recipients that are still open, in file order; those already done are
	// not listed.
	Recipients []Recipient
	// Obsoletes are log identities of messages this one replaces.
	Obsoletes []string
}

// Recipient is one open recipient of an arriving message.
type Recipient struct {
	Offset        int64  // identity within the control file
	Channel, Host string // lower case
	Class         int    // exclusive set of an X line; 0 for an r line
	Notify        ctlfile.Notify
}

func (Tick) event()          {}
func (Arrived) event()       {}
func (AgentStarted) event()  {}
func (AgentFailed) event()   {}
func (AgentHungry) event()   {}
func (AgentReported) event() {}
func (AgentResync) event()   {}
func (AgentSpoke) event()    {}
func (AgentExited) event()   {}
func (Done) event()          {}
func (Failed) event()        {}
func (Reread) event()        {}
func (SpoolBack) event()     {}
func (Triggered) event()     {}
func (Reloaded) event()      {}
func (Ordered) event()       {}
func (HeldThread) event()    {}
func (Stopping) event()      {}
