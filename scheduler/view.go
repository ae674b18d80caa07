package scheduler

import "time"

// Views are what queries show: values of their own that stay as they are
// while the queue goes on. None of them takes longer to make than the item
// that it shows is large.

// RingView is a ring. The threads that no clause gives a command come last
// in a walk, under a ring with an ID of 0 and no pattern.
type RingView struct {
	ID uint64 // not used again; in the order of making
	// Channel and Host are the pattern of the clause that gives the command.
	Channel, Host string
	WithHost      bool // the command names the host
	Retired       bool // a reload left it no threads; its agents are let go

	Threads  int
	Vertices int
	Agents   int // processes, idle ones too
	Idle     int
	Sessions int // busy

	// Limits in force; 0: none.
	MaxTA, MaxChannel, MaxRing, MaxThr int
	Overfeed                           int
}

// ThreadView is the mail for one channel and host.
type ThreadView struct {
	Channel, Host string
	WithHost      bool
	Ring          uint64 // RingView.ID

	Vertices   int
	Recipients int // not done
	Attempts   int // results reported so far
	States     StateCounts
	OldestAt   time.Time // mtime of its oldest message file, to the second
	// LastEventAt is when mail last came to it or was last fed, to the second.
	LastEventAt time.Time

	Window   int // sessions it may use now
	Sessions int // busy
	Agents   []AgentView
	Held     bool

	// Wait is why due mail is not fed now. It tells of mail that waits beside
	// mail that is at work, too.
	Wait Wait
	// WakeAt is when mail that waits is due next, to the second: its
	// suspension ends, or the first of its retries has come. Zero: none waits
	// for a time.
	WakeAt time.Time

	Last string  // said of any recipient last; \r between lines
	Rate float64 // recipients done a minute, over the last minutes
}

// AgentView is an agent at work on a thread, or started for it.
type AgentView struct {
	Agent    AgentID
	PID      int       // 0: not known yet
	HungryAt time.Time // last #hungry; zero: none yet
	FedAt    time.Time // last job line; zero: none yet
	Open     int       // job lines given and not answered
	State    AgentState
}

// AgentState is the state of an agent in the words of the old scheduler.
type AgentState string

const (
	AgentError    AgentState = "ERROR"  // it was told to end, and has not
	AgentStarting AgentState = "LARVA"  // it has not said #hungry yet
	AgentStuff    AgentState = "STUFF"  // it is fed, and more may come
	AgentFinish   AgentState = "FINISH" // it ends what it has and leaves
	AgentIdle     AgentState = "IDLE"
)

// VertexView is one message's recipients in one thread.
type VertexView struct {
	Message       MessageID
	Path          string // of the control file below transport/
	Sender        string // "" for the null sender
	Channel, Host string
	WithHost      bool
	ModifiedAt    time.Time // mtime of the message file

	State     State
	Wait      Wait      // of a due one: why it is not fed now
	PID       int       // of the agent that has it
	Next      bool      // it is the next of its thread to be fed
	ExpiresAt time.Time // zero: never
	WakeAt    time.Time // of a waiting one
	FedAt     time.Time // last, to the second; zero: never
	Ordered   Verb      // what is to be done when it comes back; 0: nothing

	// Recipients that are not done. A vertex of very many comes in parts, one
	// after the other: First counts those of the parts before.
	First      int
	Recipients []RecipientView
}

// RecipientView is a recipient that is not done.
type RecipientView struct {
	Offset   int64 // of its line in the control file
	Attempts int
	Last     string // said of it last; \r between lines
}

// ChannelView is what a channel has done since the start, and does now.
type ChannelView struct {
	Name             string
	Agents, Sessions int
	// Recipients, counted as they came and as their outcomes did; one that is
	// deferred counts each time. Dropped are those that left without one:
	// killed, obsoleted, held, sent elsewhere or lost, and alternatives that
	// were not needed.
	In, Delivered, Deferred, Failed, Expired, Dropped uint64
}

// MessageView is a message in the queue.
type MessageView struct {
	Message    MessageID
	Path       string
	Sender     string // "" for the null sender
	ErrorTo    string
	ModifiedAt time.Time
	ChangedAt  time.Time // of the control file when taken, to the second
	Vertices   int       // those done included
	Recipients int       // not done
	Leaving    bool      // its files are being removed, or moved
}

// State is where a vertex stands.
type State string

const (
	StateDue      State = "due"
	StateWaiting  State = "waiting" // for its retry
	StateFed      State = "fed"     // with an agent
	StateReading  State = "reading" // its file is being read again
	StatePoisoned State = "poisoned"
	// StateDormant: alternatives that wait for their turn, or outcomes that
	// are being written.
	StateBlocked State = "blocked"
	// StateResting: to be held, and the rest of its message is not ready.
	StateHolding State = "holding"
)

// Of returns the count of one state.
func (c StateCounts) Of(state State) int {
	switch state {
	case StateDue:
		return c.Due
	case StateWaiting:
		return c.Waiting
	case StateFed:
		return c.Fed
	case StateReading:
		return c.Reading
	case StatePoisoned:
		return c.Poisoned
	case StateBlocked:
		return c.Blocked
	case StateHolding:
		return c.Holding
	}
	return 0
}

// StateCounts counts vertices by state.
type StateCounts struct {
	Due, Waiting, Fed, Reading, Poisoned, Blocked, Holding int
}

// Wait is why due mail of a thread is not fed now.
type Wait string

const (
	NoWait       Wait = ""               // nothing is due, or it is fed as it should be
	WaitTA       Wait = "maxta"          // the limit on processes
	WaitChannel  Wait = "maxchannel"     // the channel's limit
	WaitRing     Wait = "maxring"        // the ring's
	WaitThread   Wait = "maxthr"         // the thread's
	WaitFrozen   Wait = "frozen"         // option -F
	WaitForks    Wait = "fork rate"      // option -R
	WaitCommand  Wait = "no command"     // no clause gives one
	WaitStart    Wait = "agents fail"    // they cannot be started, or die at once
	WaitHeld     Wait = "held"           // HeldThread
	WaitTrigger  Wait = "queueonly"      // for an ETRN
	WaitSpool    Wait = "spool down"     // it cannot be written
	WaitSuspend  Wait = "suspended"      // the destination has failed
	WaitSelect   Wait = "not selected"   // option -p
	WaitStopping Wait = "stopping"       // the scheduler leaves
	WaitAgent    Wait = "agent expected" // one was started, or is to come back
)
