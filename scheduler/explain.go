package scheduler

import "time"

// Explanation says how a channel and host is treated, and what its mail waits
// for. It can be had for any, mail or not.
type Explanation struct {
	Channel, Host string
	Held          bool
	Thread        *ThreadView // nil: there is no mail
	Ring          *RingView   // nil: there is no ring that mail would join
	// Clauses that match, in order. They belong to the Config.
	Clauses []*Clause
	// Settings in force, in the order in which the clauses first name them; of
	// one that is set twice, the later. What is not here has its default.
	Settings []Setting
	Params   *Params // in force
	Limits   []Limit
	// Wait is why due mail is not fed now.
	Wait Wait
	// Next is what happens next without anybody's doing, and when; zero where
	// the thread waits for others, or for nothing.
	Next   Upcoming
	NextAt time.Time
}

// Upcoming is the next thing that comes with time.
type Upcoming string

const (
	NothingNext Upcoming = ""
	RetryNext   Upcoming = "retry"             // a vertex is due again
	ResumeNext  Upcoming = "end of suspension" // of the thread
	ExpiryNext  Upcoming = "expiry"            // of the oldest message
	StartNext   Upcoming = "start of an agent" // after starts that failed, or for the fork rate
	ProbeNext   Upcoming = "probe of the spool"
)

// Limit is one of the limits on a thread and how far it is used.
type Limit struct {
	Name   string // maxta, maxchannel, maxring, maxthr
	Used   int    // processes of maxta, busy sessions of the others
	Most   int    // 0: none
	Blocks bool   // due mail is not fed because of it
}

// Explain says how a channel and host, in lower case, is treated.
func (s *Scheduler) Explain(channel, host string) *Explanation { panic("not yet") }
