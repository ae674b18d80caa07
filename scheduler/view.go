package scheduler

import (
	"iter"
	"time"

	"zsched/scheduler/rule"
)

// Views of the queue, for queries.

// A view is a copy that does not change when the queue does. The time to make
// one depends only on the size of the item that it shows.

// RingView is a ring. The threads for which no clause gives a command come last
// in a walk, after a ring with an ID of 0 and no pattern.
type RingView struct {
	ID uint64 // in the order in which rings were made; not reused
	// Channel and Host are the pattern of the clause that gives the command.
	Channel, Host string
	WithHost      bool // the command names the host
	Retired       bool // no thread is left after a reload; its agents are closed

	Threads  int
	Vertices int
	Agents   int // processes, idle ones included
	Idle     int
	Sessions int // busy

	// Limits in force; 0: none.
	MaxTA, MaxChannel, MaxRing, MaxThr int
	Overfeed                           int
}

// ThreadView is the mail for one channel and host.
type ThreadView struct {
	Channel, Host string
	WithHost      bool   // as in RingView
	Ring          uint64 // RingView.ID

	Vertices   int
	NotLoaded  int         // of these, because of the limits on memory
	Recipients int         // not done
	Attempts   int         // results reported so far
	States     StateCounts // of those that are loaded
	OldestAt   time.Time   // mtime of its oldest message file, to the second
	// LastEventAt is when mail last arrived or was last fed, to the second.
	LastEventAt time.Time

	Shares      int // of due mail that may be fed in this run
	Window      int // sessions that it may use now
	WindowLimit int // maxthr
	// InitialWindow is what the window begins with. 0: feedback does not move it
	// (initialconcurrency is not set).
	InitialWindow  int
	Feedback       FeedbackView
	SuspendedUntil time.Time // the last end; zero: it is not suspended, or the end is not known
	SuspendedBy    Suspender // "": it is not
	Effects        []EffectView
	Sessions       int    // busy
	Site           string // the host that agents have talked to last; "": not known
	Agents         []AgentView
	Held           bool

	// Wait is why due mail is not fed now. It is also set if other mail of the
	// thread is being fed.
	Wait Wait
	// WakeAt is when waiting mail is due next, to the second: its suspension
	// ends, or its first retry comes. Zero: none waits for a time.
	WakeAt time.Time
	// StartError is why the agents of its clause do not start, while it has due
	// mail; "": they do, or none was tried.
	StartError string

	Last string  // text of the last report on any recipient; \r between lines
	Rate float64 // recipients done per minute, over the last minutes
}

// Suspender says by whom a thread is suspended.
type Suspender string

const (
	SuspendedByRule Suspender = "rule" // a reply rule, for longer than the destination has failed
	SuspendedDead   Suspender = "dead" // its destination has failed, or an agent said when to try again
)

// FeedbackView is the feedback on the window of a thread (scheduler.cf(5),
// initialconcurrency).
type FeedbackView struct {
	// Success and Failure are the parts of a session, below 1, that results have
	// added up to but that have not moved the window yet.
	Success, Failure float64
	// FailedCohorts is how many windows in a row have failed. At CohortLimit the
	// thread is dead.
	FailedCohorts, CohortLimit float64
	Dead                       bool // suspended, or tried with one session
}

// AgentView is an agent that serves a thread or is being started for it.
type AgentView struct {
	Agent    AgentID
	PID      int       // 0: not known yet
	HungryAt time.Time // last #hungry; zero: none yet
	FedAt    time.Time // last job line; zero: none yet
	Open     int       // job lines of the thread that are not answered
	State    AgentState
}

// AgentState is the state of an agent in the words of ZMailer's scheduler.
type AgentState string

const (
	AgentKilled   AgentState = "ERROR"  // it was sent a signal
	AgentStarting AgentState = "LARVA"  // it has not said #hungry yet
	AgentServing  AgentState = "STUFF"  // it is fed, and more may come
	AgentClosing  AgentState = "FINISH" // it finishes its job lines and exits
	AgentIdle     AgentState = "IDLE"
)

// VertexView is one message's recipients in one thread.
type VertexView struct {
	Message       MessageID
	Path          string // of the control file below transport/
	Sender        string // "" for the null sender
	Owner         uint32 // uid of the owner of the message file
	Channel, Host string
	WithHost      bool
	ModifiedAt    time.Time // mtime of the message file

	State     State
	Wait      Wait            // of a due vertex: why it is not fed now
	PID       int             // of the agent that has it
	Rule      *rule.ReplyRule // because of which it waits; nil: none
	Next      bool            // it is the next in its thread to be fed
	ExpiresAt time.Time       // zero: never
	WakeAt    time.Time       // of a waiting vertex
	FedAt     time.Time       // last, to the second; zero: never
	Ordered   Verb            // recorded order, executed when the vertex comes back; 0: none
	// OrderedTo is the channel and host of such a VerbReroute.
	OrderedTo Target
	// StartError of a due vertex is that of its thread.
	StartError string
	Held       bool       // with its message or its thread, or it is to be held
	Hold       *HoldOrder // of its message; nil: none

	// NotLoaded is how many recipients a vertex has that is not loaded, and Attempts how often
	// each of them was tried at least. They are not listed, and Sender and Owner are not set.
	// 0: it is loaded.
	NotLoaded, Attempts int

	Recipients []RecipientView // that are not done
}

// RecipientView is a recipient that is not done.
type RecipientView struct {
	Offset   int64 // of its line in the control file
	Attempts int
	Last     string // text of the last report on it; \r between lines
	Code     string // of the last report (RFC 3463); "": it had none
}

// ChannelView is what a channel has done since the start, and does now.
type ChannelView struct {
	Name             string
	Agents, Sessions int
	// Counts of recipients that arrived, and of outcomes. A recipient counts as
	// Deferred each time. Dropped are those that left without an outcome:
	// killed, obsoleted, resubmitted or missing ones, and alternatives that
	// were not needed. Held were moved to hold/, and Released came back from
	// there.
	In, Delivered, Deferred, Failed, Expired, Dropped, Held, Released uint64
}

// MessageView is a message in the queue.
type MessageView struct {
	Message    MessageID
	Path       string
	Sender     string // "" for the null sender
	ErrorTo    string
	ModifiedAt time.Time
	ChangedAt  time.Time // of the control file when it was loaded, to the second
	Vertices   int       // those that are done included
	Recipients int       // not done
	Leaving    bool      // its files are being removed
	UnderHold  bool      // its files lie under hold/
	// NotLoaded says that the message is not loaded, because of the limits on memory: Sender,
	// ErrorTo and ChangedAt are not set.
	NotLoaded bool
}

// Standing says what the scheduler knows about a message number.
type Standing uint8

const (
	// Absent: not in the queue. A file with that number is to be loaded.
	Absent Standing = iota
	// Present: in the queue.
	Present
	// Leaving: its files are being removed. A file that
	// appears now under the same number may be a new message in a reused inode;
	// look again when the message has left.
	Leaving
)

// State is the state of a vertex.
type State string

const (
	StateDue     State = "due"
	StateWaiting State = "waiting" // for its retry
	StateFed     State = "fed"     // with an agent
	StateReading State = "reading" // its file is being read again
	// StateBlocked: its alternatives wait for their turn, or outcomes are being
	// written.
	StateBlocked State = "blocked"
	// StateHeld: its message is held, or is to be moved to hold/ when the rest of it is ready.
	StateHeld State = "held"
)

// StateCounts counts vertices by state.
type StateCounts struct {
	Due, Waiting, Fed, Reading, Blocked, Held int
}

// All yields every state with its count, in a fixed order.
func (c StateCounts) All() iter.Seq2[State, int] {
	return func(yield func(State, int) bool) {
		_ = yield(StateDue, c.Due) && yield(StateWaiting, c.Waiting) && yield(StateFed, c.Fed) &&
			yield(StateReading, c.Reading) && yield(StateBlocked, c.Blocked) && yield(StateHeld, c.Held)
	}
}

// Counts are counters that are kept up to date, so that reading them costs
// nothing.
type Counts struct {
	Messages     int // in the queue, those being removed included
	Vertices     int
	Recipients   int // not done
	Threads      int
	States       StateCounts // of vertices that are loaded
	FailedWrites int         // writes that have failed and will be tried again
	UnderHold    int         // of Messages, those whose files lie under hold/
	// NotLoaded is how many of Messages are not loaded, because of the limits on
	// memory. Urgent are those of them that are to be loaded soon, because
	// something must be written.
	NotLoaded, Urgent int

	Agents        int // processes, starting and closing ones included
	AgentsIdle    int
	AgentsClosing int
	Sessions      int // busy

	// In: loaded. Out: gone from the queue (done, resubmitted or missing). In minus Out is
	// what is in the queue. Held: moved to hold/. Released: back from there.
	MessagesIn, MessagesOut, MessagesHeld, MessagesReleased         uint64
	RecipientsIn, RecipientsOut, RecipientsHeld, RecipientsReleased uint64
	BytesIn                                                         uint64 // sizes of the message files loaded
	AgentsStarted                                                   uint64

	Suspensions uint64 // of threads whose destination failed
}
