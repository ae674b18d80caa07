package mailq

import "time"

// Name names a thread.
type Name struct {
	Channel string `json:"channel"`
	Host    string `json:"host"`
}

// Totals are the counters below every report.
type Totals struct {
	Agents     int       `json:"agents"`
	IdleAgents int       `json:"idle_agents"`
	Messages   int       `json:"messages"`
	Threads    int       `json:"threads"`
	Jobs       int       `json:"jobs"`
	Recipients int       `json:"recipients"`
	StartedAt  time.Time `json:"started_at"`
	// Since the start.
	MessagesIn    uint64 `json:"messages_in"`
	MessagesOut   uint64 `json:"messages_out"`
	RecipientsIn  uint64 `json:"recipients_in"`
	RecipientsOut uint64 `json:"recipients_out"`
}

// Ring is the threads that share agents, as counted at one moment.
type Ring struct {
	// ID tells rings of the same pattern apart; it is not used again.
	ID uint64 `json:"ring"`
	// Channel and Host are the pattern of the clause that gives the command.
	Channel  string `json:"channel_pattern"`
	Host     string `json:"host_pattern"`
	WithHost bool   `json:"with_host"` // the command names the host
	Threads  int    `json:"threads"`
	Jobs     int    `json:"jobs"`
	Agents   int    `json:"agents"`
	Idle     int    `json:"idle"`
	MaxRing  int    `json:"maxring"`
	Overfeed int    `json:"overfeed"`
	MaxThr   int    `json:"maxthr"`
}

// ThreadRow is a thread in its ring.
type ThreadRow struct {
	Ring   *Ring
	Thread *Thread // nil where the ring has none
}

// Thread is the mail for one channel and host.
type Thread struct {
	Name
	WithHost   bool      `json:"with_host"`
	Jobs       int       `json:"jobs"`
	Recipients int       `json:"recipients"` // not done
	Attempts   int       `json:"attempts"`   // results reported so far
	Unfed      int       `json:"unfed"`      // due jobs that no agent has
	Agents     []Agent   `json:"agents,omitempty"`
	WakeAt     time.Time `json:"wake_at,omitzero"` // zero: it does not wait for a time
	Pending    Pending   `json:"pending,omitempty"`
	OldestAt   time.Time `json:"oldest_at"` // mtime of its oldest message file
	Held       bool      `json:"held,omitempty"`
	Reason     string    `json:"reason,omitempty"` // last diagnostic of any recipient
	Window     int       `json:"window"`           // sessions it may use now
	Rate       float64   `json:"rate"`             // recipients done a minute, over the last minutes
}

// Agent is one at work on a thread.
type Agent struct {
	PID      int       `json:"pid"`
	HungryAt time.Time `json:"hungry_at,omitzero"` // last #hungry; zero: none yet
	FedAt    time.Time `json:"fed_at,omitzero"`    // last job line; zero: none yet
	Open     int       `json:"open"`               // job lines given and not answered
	State    string    `json:"state"`              // ERROR LARVA STUFF FINISH IDLE
}

// Pending is why due mail of a thread is not being fed, in the words of the
// old scheduler where it had one.
type Pending string

const (
	NotPending     Pending = ""
	PendingTA      Pending = ">MaxTA"
	PendingChannel Pending = ">MaxChannel"
	PendingRing    Pending = ">MaxRing"
	PendingThread  Pending = ">MaxThr"
	PendingFrozen  Pending = "Frozen"
	PendingForks   Pending = "ForkRateLimit"
	PendingCommand Pending = "ConfBUG:NoCmdDefined!"
	PendingStart   Pending = "System:ForkFailure!"
	PendingHeld    Pending = "Held"
	PendingTrigger Pending = "QueueOnly"
	PendingSpool   Pending = "SpoolDown"
	PendingPoison  Pending = "Poisoned" // of a thread of which nothing is due
)

// Job is one message's recipients in one thread.
type Job struct {
	Name                   // of the thread
	WithHost   bool        `json:"with_host"`
	Message    uint64      `json:"message"` // number of the control file
	Path       string      `json:"path"`    // of the control file below transport/
	SpoolID    string      `json:"spoolid"`
	Sender     string      `json:"sender"`         // "" for <>
	State      string      `json:"state"`          // due, waiting, fed, reading, poisoned, blocked, holding
	PID        int         `json:"pid,omitempty"`  // of the agent that has it
	Next       bool        `json:"next,omitempty"` // the next to be fed
	ArrivedAt  time.Time   `json:"arrived_at"`     // mtime of the message file
	ExpiresAt  time.Time   `json:"expires_at,omitzero"`
	WakeAt     time.Time   `json:"wake_at,omitzero"`
	FedAt      time.Time   `json:"fed_at,omitzero"`
	Pending    Pending     `json:"pending,omitempty"`
	Recipients []Recipient `json:"recipients"`
}

// Recipient is one that is not done.
type Recipient struct {
	Offset   int64  `json:"offset"` // of its line in the control file
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"` // last diagnostic; \r between lines
	// User is filled in where the control file was read.
	User string `json:"user,omitempty"`
}

// Message is a message as SHOW MSG and FIND give it, from its control file.
type Message struct {
	Message    uint64             `json:"message"`
	Path       string             `json:"path"`
	SpoolID    string             `json:"spoolid"`
	LogID      string             `json:"log_id,omitempty"` // its Message-ID
	Sender     string             `json:"sender"`
	ErrorsTo   string             `json:"errors_to,omitempty"`
	ArrivedAt  time.Time          `json:"arrived_at"`
	Control    int64              `json:"control_bytes"`
	Size       int64              `json:"bytes"`
	Held       bool               `json:"held,omitempty"`
	Recipients []MessageRecipient `json:"recipients"`
}

// MessageRecipient is a recipient line of a control file, done or not.
type MessageRecipient struct {
	Name
	User     string    `json:"user"`
	Offset   int64     `json:"offset"`
	State    string    `json:"state"` // due, waiting, fed, …; delivered, failed, held
	Attempts int       `json:"attempts"`
	WakeAt   time.Time `json:"wake_at,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

// Sought says what FIND looks for: of one kind.
type Sought struct {
	Kind  string // recipient, sender, message-id or spoolid
	Value string // an address, perhaps with * and ?, or an identity
}

// Explanation says why a destination's mail waits, or that it does not.
type Explanation struct {
	Name
	Known    bool           `json:"known"` // there is mail for it now
	Thread   *Thread        `json:"thread,omitempty"`
	Ring     *Ring          `json:"ring,omitempty"`
	Clauses  []Clause       `json:"clauses"`
	Settings []Setting      `json:"settings"` // every parameter in force
	Limits   []Limit        `json:"limits"`
	Waits    string         `json:"waits"` // a sentence: why it waits, or what it does
	NextAt   time.Time      `json:"next_at,omitzero"`
	Next     string         `json:"next"`   // the next event, in words
	States   map[string]int `json:"states"` // jobs by state
}

// Clause is one that matched.
type Clause struct {
	Pattern string `json:"pattern"`
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// Setting is a parameter in force and where it came from.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	File  string `json:"file,omitempty"` // "": it is the default
	Line  int    `json:"line,omitempty"`
}

// Limit is one of the limits on a thread, and how far it is used.
type Limit struct {
	Name   string `json:"name"` // maxta, maxchannel, maxring, maxthr
	Used   int    `json:"used"`
	Most   int    `json:"most"` // 0: none
	Blocks bool   `json:"blocks"`
}

// Verb is what an order does.
type Verb string

const (
	Kill    Verb = "KILL"    // drop recipients silently
	Expire  Verb = "EXPIRE"  // fail recipients, with a notice
	Retry   Verb = "RETRY"   // make mail due now
	Hold    Verb = "HOLD"    // keep mail back
	Release Verb = "RELEASE" // let held mail go
	Requeue Verb = "REQUEUE" // give messages back to the router
	Reroute Verb = "REROUTE" // send recipients to another thread
)

// Order is an acting verb with what it is about: a message, a thread or a
// selection.
type Order struct {
	Verb    Verb
	Message string     // spoolid or number
	Thread  *Name      // a whole thread, mail that comes later too for HOLD
	Where   *Selection // everything in the queue that matches
	To      Name       // of Reroute
	DryRun  bool       // count only
	By      Actor
	Why     string // the reason given, for the log
}

// Actor is who gives an order.
type Actor struct {
	User string
	Peer string // address, or "uid 0" on a UNIX socket
}

// Selection picks jobs. What is not set does not matter.
type Selection struct {
	Channel, Host  string        // patterns with * and ?
	Sender         string        // pattern; "<>" is the null sender
	Reason         string        // pattern, of the last diagnostic
	Older, Younger time.Duration // age of the message
}

// Outcome is what an order did, or would do.
type Outcome struct {
	Messages   int `json:"messages"`
	Recipients int `json:"recipients"`
	Threads    int `json:"threads"`
}
