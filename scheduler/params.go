package scheduler

import (
	"time"
)

// Config is everything the core is told at start and at a reload. The core
// reads it and never changes it.
type Config struct {
	// Clauses in the order of the file.
	Clauses []Clause
	// Defaults hold before any clause has spoken.
	Defaults Params
	// Env resolves ${NAME} and $NAME in commands; nil knows no names.
	Env map[string]string
	// MaxAgents is what a maxta of 0 stands for: the descriptors the process
	// may have, less a reserve. 0 means no limit.
	MaxAgents int
	// ForkRate is how many agents may be started within one second; 0 means
	// no limit (option -R).
	ForkRate int
	// AgentTimeout is how long an agent with open job lines may say nothing;
	// 0 means no limit (PARAMagent-timeout).
	AgentTimeout time.Duration
	// Frozen starts no agents at all (option -F).
	Frozen bool
	// Only restricts work to some threads (option -p). The zero value does not.
	Only Selection
}

// Selection names threads by channel and host, either of which may be "*".
// The zero value selects every thread.
type Selection struct {
	Channel, Host string
}

// Clause is one clause of scheduler.cf: a pattern and what it sets.
type Clause struct {
	// Channel and Host are shell-style patterns, matched without regard to
	// case. Host is "*" where the file has no slash.
	Channel, Host string
	// Settings in the order of the file. A clause that was empty in the file
	// has those of the next one that was not.
	Settings []Setting
	File     string
	Line     int
}

// Setting is one keyword of a clause, kept as written for queries and for
// telling whether a reload changed it.
type Setting struct {
	Name, Value string
	File        string
	Line        int
	// Apply puts the value in force; it was checked when the file was read.
	Apply func(*Params)
}

// Params are the parameters in force for a thread: the defaults with the
// settings of every matched clause applied in order. scheduler.cf(5) has one
// entry for each keyword.
type Params struct {
	Interval   time.Duration // base of the retry arithmetic
	IdleMax    time.Duration // 0: three times Interval
	Expiry     time.Duration // from the message file's mtime; 0: never
	Expiry2    time.Duration // beyond Expiry, without any attempt
	Retries    []int         // multiples of Interval, one a failed attempt
	Backoff    Backoff
	MinBackoff time.Duration // for BackoffAge
	MaxBackoff time.Duration // for BackoffAge
	Jitter     int           // percent by which a retry is spread

	MaxTA      int // processes in all; 0: Config.MaxAgents
	MaxChannel int // busy sessions and processes of the channel; 0: MaxTA
	MaxRing    int // busy sessions and processes of the ring; 0: MaxTA
	MaxThr     int // busy sessions of the thread; at least 1
	Overfeed   int // job lines given beyond the one being worked on
	Sessions   int // job lines one agent may have open; at least 1
	Quantum    int // picks a thread may have in a round while others wait

	Command  []string // words, unexpanded; empty: none
	UID, GID int      // -1: the scheduler's own
	Nice     int
	Priority int // absolute, when PrioritySet
	// PrioritySet tells a priority of 0 from none; the later of nice and
	// priority in a file is in force.
	PrioritySet bool
	Marking     Marking

	QueueOnly         bool
	WakeupRestartOnly bool
	AgeOrder          bool

	// Windows, slots and shares.
	InitialConcurrency int // 0: the window is MaxThr and does not move
	PositiveFeedback   Feedback
	NegativeFeedback   Feedback
	CohortLimit        float64
	SlotCost           int
	SlotDiscount       int // percent
	SlotLoan           int
	MinSlots           int
	MsgSessions        int
	MsgScale           int
	Share              string

	// ReportTimes are when interim reports are sent after arrival.
	ReportTimes []time.Duration
}

// Backoff is the arithmetic of retries.
type Backoff uint8

const (
	// BackoffRetries: Interval times the next number of Retries.
	BackoffRetries Backoff = iota
	// BackoffAge: as long again as the message is old, within MinBackoff and
	// MaxBackoff, as Postfix does.
	BackoffAge
)

// Marking says who writes tags and diagnostics into the control file.
type Marking uint8

const (
	// MarkingAgent is ZMailer's contract: the agent does.
	MarkingAgent Marking = iota
	// MarkingScheduler: the agent only reads and reports.
	MarkingScheduler
)

// Feedback is how far one result moves a window: a constant, divided by the
// window or its square root where Per says so.
type Feedback struct {
	Amount float64
	Per    Per
}

// Per divides a Feedback.
type Per uint8

const (
	PerOne  Per = iota // the amount itself
	PerN               // amount / window
	PerSqrt            // amount / sqrt(window)
)
