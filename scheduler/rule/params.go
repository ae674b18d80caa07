package rule

// The keywords of a clause.

import (
	"time"

	"zsched/scheduler/limit"
	"zsched/ta"
)

// Params are the parameters of a thread: the defaults with the settings of each
// matched clause applied in order.
//
// A field that has a kind is a keyword, here and in the structs that are fields. Nothing else says
// what a keyword is: package config reads the tags, and scheduler.cf(5) begins its entry with the
// first sentence of the comment.
//
//	kind     the kind of value and its bounds (config/kind.go)
//	default  as a file would set it; none: the zero value
//	name     of the keyword; none: that of the field, in lower case
//	also     older names
//	zero     the value that 0 stands for, if it is not what the field then has
type Params struct {
	// When to try.

	// Unit of the waits between attempts.
	Interval time.Duration `kind:"time 1s 365d" default:"1m"`
	// Waits after failed attempts, in units of interval.
	Retries []int `kind:"numbers 0 1000000 100" default:"1 1 2 3 5 8 13 21 34"`
	// Percentage by which waits vary at random.
	Jitter int `kind:"number 0 100" default:"10"`
	// How waits are calculated.
	Backoff Backoff `kind:"choice retries age" default:"retries"`
	// Shortest wait with backoff=age.
	MinBackoff time.Duration `kind:"time 1s 365d" default:"5m"`
	// Longest wait with backoff=age.
	MaxBackoff time.Duration `kind:"time 1s 365d" default:"4000s"`
	// Age at which a recipient that was tried expires; 0: never. It counts from the message
	// file's mtime.
	Expiry time.Duration `kind:"time 0 36500d" default:"3d"`
	// Time after expiry at which a recipient that was never tried expires; 0: a day.
	Expiry2 time.Duration `kind:"time 0 36500d" default:"1d" zero:"1d"`
	// Deliver only on request.
	QueueOnly bool `kind:"flag" default:"no"`
	// New mail does not start another agent for its thread.
	WakeupRestartOnly bool `kind:"flag" default:"no"`
	// Ages at which senders who asked for it (NOTIFY=DELAY) are notified of a delay.
	ReportTimes []time.Duration `kind:"times 1s 365d 4"`

	// What to start.

	// The agent and its arguments. The words are not expanded.
	Command []string `kind:"words"`
	// User the agent runs as. -1: the scheduler's own, and so for the group.
	UID int `kind:"user" name:"user" default:"root"`
	// Group the agent runs as.
	GID int `kind:"group" name:"group" default:"daemon"`
	// Nice value of the agent, relative to the scheduler's.
	Nice int `kind:"number -40 39" default:"0"`
	// Priority of the agent, regardless of the scheduler's. Of nice and priority, the later in
	// the file is in force; PrioritySet distinguishes a priority of 0 from none.
	Priority    int `kind:"number -20 19"`
	PrioritySet bool
	// Who writes results into the control file.
	Marking ta.Marking `kind:"choice agent scheduler" default:"agent"`
	// How long an agent may have open job lines without progress on any; 0: no limit.
	AgentTimeout time.Duration `kind:"time 0 365d" name:"agent-timeout" default:"2h"`
	// How long an agent may be idle; 0: three times interval.
	IdleMax time.Duration `kind:"time 0 365d" default:"0"`

	// How much at a time.

	// Maximum number of agents in total; 0: what the descriptors allow.
	MaxTA int `kind:"atleast 0 1000000" also:"maxtransport maxtransports" default:"0"`
	// Maximum number of busy sessions of the channel; 0: maxta. It bounds agents likewise.
	MaxChannel int `kind:"atleast 0 1000000" also:"maxchannels" default:"0"`
	// Maximum number of busy sessions of the ring; 0: maxta. It bounds agents likewise.
	MaxRing int `kind:"atleast 0 1000000" also:"maxrings" default:"0"`
	// Maximum number of busy sessions of the thread.
	MaxThr int `kind:"atleast 1 1000000" default:"1"`
	// Job lines an agent is given in addition to the one it works on.
	Overfeed int `kind:"atleast 0 100000" default:"150"`
	// Job lines an agent works on at once.
	Sessions int `kind:"number 1 1000" default:"1"`
	// Maximum number of busy sessions of the site; 0: no limit.
	SiteMax int `kind:"number 0 1000000" default:"0"`
	Cluster Cluster
	Window  limit.WindowRules
	// Log how windows change.
	FeedbackLog bool `kind:"flag" default:"no"`
	Rates       Rates

	// What is delivered next.

	// Oldest message first.
	AgeOrder   bool `kind:"flag" default:"no"`
	Preemption Preemption
	// Number of sessions that any message may have.
	MsgSessions int `kind:"number 1 1000000" default:"20"`
	// Number of sessions that a message may have for each free session.
	MsgScale int `kind:"number 0 1000000" default:"10"`
	// Number of sessions that a share may have for each free session; 0: no limit.
	ShareScale int `kind:"number 0 1000000" default:"0"`
	// Who takes turns.
	Share string `kind:"word source sender senderdomain none" default:"source"`
	// Picks a thread may have in a round while others wait.
	Quantum int `kind:"number 1 1000000" default:"50"`
}

// Cluster are the limits that several nodes share.
type Cluster struct {
	// Maximum number of busy sessions of the thread on all nodes together; 0: no limit.
	Max int `kind:"number 0 1000000" name:"clustermax" default:"0"`
	// Maximum number of busy sessions of the site on all nodes together; 0: no limit.
	SiteMax int `kind:"number 0 1000000" name:"clustersitemax" default:"0"`
	// Maximum rate at which recipients of the thread are fed, on all nodes together.
	Rate limit.Rate `kind:"rate" name:"clusterrate"`
}

// Rates bound how fast recipients are fed.
type Rates struct {
	// Maximum rate at which recipients of the thread are fed.
	Thread limit.Rate `kind:"rate" name:"rate"`
	// Maximum rate at which recipients of the channel are fed.
	Channel limit.Rate `kind:"rate" name:"channelrate"`
	// Maximum rate at which recipients of the site are fed.
	Site limit.Rate `kind:"rate" name:"siterate"`
	// Recipients that may be fed at once after a pause, under each rate.
	Burst int `kind:"number 1 1000000" name:"rateburst" default:"1"`
}

// Preemption is between the jobs of a ring.
type Preemption struct {
	// Number of picks of a big message that earn one slot for a smaller message; 0: nothing overtakes.
	SlotCost int `kind:"number 0 1000" default:"5"`
	// Percentage discount on the price of overtaking.
	SlotDiscount int `kind:"number 0 100" default:"50"`
	// Slots lent towards the price of overtaking.
	SlotLoan int `kind:"number 0 1000" default:"3"`
	// Slots a message must be able to earn to be overtaken at all.
	MinSlots int `kind:"number 0 1000" default:"3"`
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
