// Package rule has what the configuration says about mail: the clauses and reply rules that match
// a destination, the parameters that result, and the arithmetic that depends on parameters alone.
//
//	Clause, Params   which settings apply to a channel and host: Match, then Fold
//	Expand           the command of a clause
//	ReplyRule        what happens when a server gives a certain reply
//	RetryStep        how long to wait after a failure
//	ShareName        whose turn it is, by sender
//
// Nothing here has a state: a reload makes a new Config.
package rule

import (
	"slices"
	"time"

	"zsched/internal/pattern"
	"zsched/scheduler/limit"
	"zsched/ta"
)

// Clauses of scheduler.cf, the parameters that they set, and which clauses
// match a thread.

// Config is the configuration of the core, at the start and after each reload.
// The core does not change it.
type Config struct {
	// Clauses in the order of the file.
	Clauses []Clause
	// Defaults are the parameters before any clause is applied.
	Defaults Params
	// Env has the values of ${NAME} and $NAME in commands. It may be nil.
	Env map[string]string
	// MaxAgents is what a maxta of 0 means: the number of descriptors that the
	// process may have, less a reserve. 0 means no limit.
	MaxAgents int
	// ForkRate is how many agents may be started within one second (option
	// -R). 0 means no limit.
	ForkRate int
	// ReportInterval is how long failures of a message are collected for one
	// notice while it has open recipients. 0: until the message is done.
	ReportInterval time.Duration
	// Frozen: no agents are started (option -F).
	Frozen bool
	// Only restricts feeding to some threads (option -p). The zero value
	// selects all.
	Only Selection
	// Cluster: there are limits of the cluster (PARAMcluster).
	Cluster bool
	// Events asks for the actions Attempt, Touched and Condition.
	Events bool
	// Replies are the reply rules, in their order.
	Replies []ReplyRule
	// Shares has the weights of senders and domains, in lower case, for taking
	// turns. The weight of all others is 1.
	Shares map[string]int
}

// Selection selects threads by channel and host. Each may be "*" or empty,
// which selects all.
type Selection struct {
	Channel, Host string
}

// Selects reports whether a thread is selected.
func (sel Selection) Selects(channel, host string) bool {
	return (sel.Channel == "" || sel.Channel == "*" || sel.Channel == channel) &&
		(sel.Host == "" || sel.Host == "*" || sel.Host == host)
}

// Clause is one clause of scheduler.cf: a pattern and what it sets.
type Clause struct {
	// Channel and Host are shell-style patterns, matched without regard to
	// case. Host is "*" if the file has no slash.
	Channel, Host string
	// Settings in the order of the file. A clause that is empty in the file has
	// the settings of the next one that is not.
	Settings []Setting
	File     string
	Line     int
}

// NobodyGID is the group of nobody, with which agents run programs for strangers.
const NobodyGID = 65534

// Setting is one keyword of a clause. Name and Value are kept as written, for
// queries and for comparison after a reload.
type Setting struct {
	Name, Value string
	File        string
	Line        int
	// Apply sets the value, which was checked when the file was read.
	Apply func(*Params)
}

// Params are the parameters of a thread: the defaults with the settings of each
// matched clause applied in order. scheduler.cf(5) has an entry for each
// keyword.
type Params struct {
	Interval   time.Duration // base of the retry arithmetic
	IdleMax    time.Duration // 0: three times Interval
	Expiry     time.Duration // from the message file's mtime; 0: never
	Expiry2    time.Duration // beyond Expiry, without any attempt
	Retries    []int         // multiples of Interval, one for each failed attempt
	Backoff    Backoff
	MinBackoff time.Duration // for BackoffAge
	MaxBackoff time.Duration // for BackoffAge
	Jitter     int           // percent by which a retry is spread

	MaxTA      int // processes in total; 0: Config.MaxAgents
	MaxChannel int // busy sessions and processes of the channel; 0: MaxTA
	MaxRing    int // busy sessions and processes of the ring; 0: MaxTA
	MaxThr     int // busy sessions of the thread; at least 1
	// Rates of recipients fed. RateBurst is for all of them.
	Rate, ChannelRate Rate
	RateBurst         int // most tokens at a time; at least 1
	// Limits over all nodes of a cluster; 0: none.
	ClusterMax     int // busy sessions of the thread
	ClusterSiteMax int // busy sessions of the site
	ClusterRate    Rate
	SiteMax        int // busy sessions of the site; 0: no limit
	SiteRate       Rate

	Overfeed int // job lines given beyond the one being worked on
	Sessions int // job lines that one agent may have open; at least 1
	Quantum  int // picks that a thread may have in a round while others wait

	Command  []string // words, unexpanded; empty: none
	UID, GID int      // -1: the scheduler's own
	Nice     int
	Priority int // absolute, when PrioritySet
	// PrioritySet distinguishes a priority of 0 from none. Of nice and priority,
	// the later in the file is in force.
	PrioritySet bool
	Marking     ta.Marking
	// AgentTimeout is how long an agent with open job lines may make no
	// progress on any of them; 0: no limit.
	AgentTimeout time.Duration

	QueueOnly         bool
	WakeupRestartOnly bool
	AgeOrder          bool

	// Windows.
	InitialConcurrency int      // the first window; 0: the window is MaxThr and does not move
	PositiveFeedback   Feedback // after a job line without a destination failure
	NegativeFeedback   Feedback // after a destination failure
	CohortLimit        float64  // failed cohorts after which the thread is dead
	FeedbackLog        bool     // log each feedback and the window after it
	// Preemption between the jobs of a ring.
	SlotCost     int // how many vertices of a job make one slot; 0: no preemption
	SlotDiscount int // percent of the other job's size
	SlotLoan     int // slots
	MinSlots     int // a job with fewer slots is not preempted
	// Sessions of one message: fewer than MsgSessions, or fewer than MsgScale
	// times the free ones.
	MsgSessions int
	MsgScale    int
	Share       string // who takes turns: sender, senderdomain or none

	// ReportTimes are when interim reports are sent after arrival.
	ReportTimes []time.Duration
}

// Backoff is how the wait after a failed attempt is computed.
type Backoff uint8

const (
	// BackoffRetries: Interval times the next number of Retries.
	BackoffRetries Backoff = iota
	// BackoffAge: the age of the message, but at least MinBackoff and at most
	// MaxBackoff, as in Postfix.
	BackoffAge
)

// Rate is a number of recipients in a span of time. Feedback says how far one result moves a
// window, and Per is its divisor.
type (
	Rate     = limit.Rate
	Feedback = limit.Feedback
	Per      = limit.Per
)

// The divisors of a Feedback.
const (
	PerOne  = limit.PerOne
	PerN    = limit.PerN
	PerSqrt = limit.PerSqrt
)

// Match returns the clauses that match a channel and host, in order. As the
// manual says, patterns are tried in sequence and the settings of each matching
// clause are picked up. The first matching clause with a command ends the
// search; only */*, which gives defaults, never does.
func Match(clauses []Clause, channel, host string) []*Clause {
	var matched []*Clause
	for i := range clauses {
		c := &clauses[i]
		if !pattern.Glob(c.Channel, channel) || !pattern.Glob(c.Host, host) {
			continue
		}
		matched = append(matched, c)
		if c.sets("command") && !c.MatchesAll() {
			break
		}
	}
	return matched
}

// MatchesAll reports whether the clause is for */*, which sets defaults for the
// clauses after it.
func (c *Clause) MatchesAll() bool { return c.Channel == "*" && c.Host == "*" }

func (c *Clause) sets(name string) bool {
	for i := range c.Settings {
		if c.Settings[i].Name == name {
			return true
		}
	}
	return false
}

// Fold returns the parameters that result from the matched clauses. Without a cluster, none of
// its limits is among them.
func (c *Config) Fold(matched []*Clause) *Params {
	p := c.Defaults
	for _, one := range matched {
		for i := range one.Settings {
			one.Settings[i].Apply(&p)
		}
	}
	if !c.Cluster {
		p.ClusterMax, p.ClusterSiteMax, p.ClusterRate = 0, 0, Rate{}
	}
	return &p
}

// CommandClause returns the clause that gives the command; nil: none does.
func CommandClause(clauses []*Clause) *Clause {
	for _, c := range slices.Backward(clauses) {
		if c.sets("command") {
			return c
		}
	}
	return nil
}

// InForce returns the settings that result from matched clauses. nice and
// priority set the same parameter.
func InForce(clauses []*Clause) []Setting {
	var settings []Setting
	for _, c := range clauses {
		for _, set := range c.Settings {
			i := slices.IndexFunc(settings, func(before Setting) bool { return sameField(before.Name, set.Name) })
			if i < 0 {
				settings = append(settings, set)
			} else {
				settings[i] = set
			}
		}
	}
	return settings
}

func sameField(a, b string) bool {
	isPriority := func(name string) bool { return name == "nice" || name == "priority" }
	return a == b || isPriority(a) && isPriority(b)
}

// WindowRules are the parameters of the windows of threads.
func (p *Params) WindowRules() limit.WindowRules {
	return limit.WindowRules{
		Most: max(1, p.MaxThr), Initial: p.InitialConcurrency,
		Positive: p.PositiveFeedback, Negative: p.NegativeFeedback, CohortLimit: p.CohortLimit,
	}
}
