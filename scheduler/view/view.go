// Package view has the values with which the core answers questions about the queue. Package
// mailq sends most of them as JSON as they are. A value is a copy that does not change when the
// queue does.
//
//	rings ──► threads ──► job lines ──► recipients     a walk through the queue
//	destination ──► explanation                        why its mail waits
//
// view.go has what a walk returns, explain.go the explanation and the words for what mail
// waits for, verb.go and outcome.go what an order does and has done, counts.go what no client sees.
package view

import "time"

// Name is the channel and host of a thread.
type Name struct {
	Channel string `json:"channel"`
	Host    string `json:"host"`
}

// MessageID is the number in the name of a control file.
type MessageID uint64

// Item is one ring, thread or job line of a walk: one field is set.
type Item struct {
	Ring    *Ring
	Thread  *Thread
	JobLine *JobLine
}

// Ring is the threads that share agents.
type Ring struct {
	// ID is unique for as long as the scheduler runs and is never reused. The threads for
	// which no clause gives a command come last in a walk, after a ring with an ID of 0 and no
	// pattern.
	ID uint64 `json:"ring"`
	// Channel and Host are the pattern of the clause that gives the command.
	Channel string `json:"channel_pattern"`
	Host    string `json:"host_pattern"`
	// Clauses are those that match its threads, in order, and Example is one of these threads. They
	// tell rings with the same pattern apart.
	Clauses  []Clause `json:"clauses,omitempty"`
	Example  Name     `json:"example,omitzero"`
	WithHost bool     `json:"with_host"` // the command names the host
	Threads  int      `json:"threads"`
	JobLines int      `json:"job_lines"`
	Agents   int      `json:"agents"` // processes, idle ones included
	Idle     int      `json:"idle"`
	Sessions int      `json:"sessions"` // busy
	// Limits in force; 0: none.
	MaxRing  int `json:"maxring"`
	MaxThr   int `json:"maxthr"`
	Overfeed int `json:"overfeed"`
}

// Thread is the mail for one channel and host.
type Thread struct {
	Ring uint64 `json:"ring"` // Ring.ID
	Name
	WithHost   bool `json:"with_host"`
	JobLines   int  `json:"job_lines"`
	Recipients int  `json:"recipients"` // not done
	Attempts   int  `json:"attempts"`   // results reported so far
	// States counts the job lines in each state that has any.
	States map[string]int `json:"states,omitempty"`
	// OldestAt is the mtime of its oldest message file, to the second. When the oldest has left, it
	// is that of the message which came first of those that are left.
	OldestAt time.Time `json:"oldest_at"`
	// LastEventAt is when mail last arrived or was last fed, to the second.
	LastEventAt time.Time `json:"last_event_at,omitzero"`
	Reason      string    `json:"reason,omitempty"` // last report on any recipient; \r between lines
	Site        string    `json:"site,omitempty"`   // the host that agents have talked to last; "": not known

	Held bool `json:"held,omitempty"`
	// Wait is why due mail is not fed now. It is also set if other mail of the thread is being
	// fed.
	Wait Wait `json:"wait,omitempty"`
	// WakeAt is when waiting mail is due next: its suspension ends, or its first
	// retry comes. Zero: none waits for a time.
	WakeAt time.Time `json:"wake_at,omitzero"`
	// StartError is why the agents of its clause do not start, while it has due mail; "": they
	// do, or none was tried.
	StartError string `json:"start_error,omitempty"`

	Sessions    int `json:"sessions,omitempty"`     // busy
	Window      int `json:"window"`                 // sessions that it may use now
	WindowLimit int `json:"window_limit,omitempty"` // maxthr
	// Probing: the destination has failed, and one session tries it.
	Probing bool `json:"probing,omitempty"`
	// SuspendedBy says by whom it is suspended; "": it is not. SuspendedUntil is when the last of
	// its suspensions ends.
	SuspendedBy    Suspender `json:"suspended_by,omitempty"`
	SuspendedUntil time.Time `json:"suspended_until,omitzero"`
	Effects        []Effect  `json:"effects,omitempty"`
	Agents         []Agent   `json:"agents,omitempty"`
}

// Suspender says by whom a thread is suspended.
type Suspender string

const (
	ByRule Suspender = "rule" // a reply rule
	AsDead Suspender = "dead" // its destination has failed, or an agent said when to try again
)

// Effect is what a reply rule or another node does to a thread now.
type Effect struct {
	Rule    string    `json:"rule,omitempty"`   // file:line of the reply rule; "": there is none
	Action  string    `json:"action,omitempty"` // of the rule, such as "suspend 15m"
	Until   time.Time `json:"until,omitzero"`   // when it ends
	By      string    `json:"by,omitempty"`     // the other node
	Because string    `json:"because,omitempty"`
}

// Agent is an agent that serves a thread or is being started for it.
type Agent struct {
	ID       uint64    `json:"-"`
	PID      int       `json:"pid"`                // 0: not known yet
	HungryAt time.Time `json:"hungry_at,omitzero"` // last #hungry; zero: none yet
	FedAt    time.Time `json:"fed_at,omitzero"`    // last job line; zero: none yet
	Open     int       `json:"open"`               // job lines of the thread that are not answered
	// State is in the words of ZMailer's scheduler: ERROR (it was sent a signal), LARVA (it has
	// not said #hungry yet), STUFF (it is fed), FINISH (it finishes its job lines and exits) or
	// IDLE.
	State string `json:"state"`
}

// The states of a job line.
const (
	Due     = "due"     // a limit or an agent is all that it waits for
	Waiting = "waiting" // for its retry
	Fed     = "fed"     // with an agent
	Reading = "reading" // its file is being read again
	// Blocked: its thread is suspended, held or the like, whatever the limits allow (JobLine.Wait); or
	// its alternatives wait for their turn, or outcomes are being written (NoWait).
	Blocked = "blocked"
	// Held: its message is held, or is to be moved to hold/ when the rest of it is ready.
	Held = "held"
)

// States are all states.
var States = [...]string{Due, Waiting, Fed, Reading, Blocked, Held}

// JobLine is one message's recipients in one thread.
type JobLine struct {
	Name                // of the thread
	Message   MessageID `json:"message"`
	Path      string    `json:"path"` // of the control file below transport/
	SpoolID   string    `json:"spoolid"`
	Sender    string    `json:"sender"`           // "" for the null sender
	Source    string    `json:"source,omitempty"` // who takes turns (ctlfile.Source); "": not known
	Owner     *uint32   `json:"owner,omitempty"`  // uid of the user who submitted it; nil: not known
	ArrivedAt time.Time `json:"arrived_at"`       // mtime of the message file
	State     string    `json:"state"`
	// Wait is why it is not fed, if it is due, blocked or held, or will not be fed when its retry comes.
	Wait       Wait      `json:"wait,omitempty"`
	StartError string    `json:"start_error,omitempty"` // as that of its thread, while it is due
	WakeAt     time.Time `json:"wake_at,omitzero"`      // if it is waiting
	ExpiresAt  time.Time `json:"expires_at,omitzero"`   // zero: never
	FedAt      time.Time `json:"fed_at,omitzero"`       // last, to the second; zero: never
	PID        int       `json:"pid,omitempty"`         // of the agent that has it
	Next       bool      `json:"next,omitempty"`        // it is the next in its thread to be fed
	Held       bool      `json:"held,omitempty"`        // with its message or its thread, or it is to be held
	// Order is an order that waits until an agent reports, and OrderTo the channel/host of such
	// a REROUTE; "": there is none.
	Order   string `json:"order,omitempty"`
	OrderTo string `json:"order_to,omitempty"`
	// MessageID is the Message-ID. The core does not know it.
	MessageID  string      `json:"message_id,omitempty"`
	Recipients []Recipient `json:"recipients"` // that are not done
}

// Recipient is a recipient that is not done.
type Recipient struct {
	Offset   int64  `json:"offset"` // of its line in the control file
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"` // last report on it; \r between lines
	// User is the address. It is "" where the control file was not read.
	User string `json:"user,omitempty"`
}

// Hold is an order that holds a message or a thread. All is missing where no record of it is left.
type Hold struct {
	Since   time.Time `json:"held_at,omitzero"`
	Until   time.Time `json:"until,omitzero"` // zero: until it is released
	By      string    `json:"by,omitempty"`
	Because string    `json:"because,omitempty"`
}

// HeldThread is a thread with the order that holds it.
type HeldThread struct {
	Name
	Hold
}

// Ended reports whether its time is over.
func (h *Hold) Ended(now time.Time) bool { return !h.Until.IsZero() && !h.Until.After(now) }
