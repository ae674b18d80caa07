package scheduler

import "time"

// Limits of the cluster: limits that several nodes share (clustermax,
// clustersitemax, clusterrate). The core says what it wants (Want, Draw), and is
// told what this node may use (Allowance). Package cluster speaks to the store.

// ClusterLimit names a limit that several nodes share.
type ClusterLimit struct {
	Setting string // clustermax, clustersitemax or clusterrate
	Channel string
	Name    string // the host of the thread, or the site
}

func (l ClusterLimit) String() string { return l.Setting + " " + l.Channel + "/" + l.Name }

// Unlimited as the sessions of an Allowance means that only the limits of this
// node apply.
const Unlimited = 1 << 30

type (
	// Want says how many sessions could be used under a limit of the cluster
	// (Want, with the busy ones) and how many are busy. There is one after each
	// Step that has changed this.
	Want struct {
		Limit      ClusterLimit
		Max        int // as configured on this node; 0: no longer limited
		Want, Busy int
	}

	// Draw asks for tokens for recipients under a rate of the cluster. The answer
	// is an Allowance, unless a later Draw for the same limit comes first. A
	// negative number gives tokens back, and there is no answer.
	Draw struct {
		Limit  ClusterLimit
		Max    int // recipients in each Per, as configured on this node
		Per    time.Duration
		Tokens int
	}

	// Allowance says how many sessions may be busy under a limit of the cluster,
	// or how many tokens were drawn, until a time. After that time, no session is
	// started and no token used.
	Allowance struct {
		Limit    ClusterLimit
		Sessions int
		Tokens   int
		Until    time.Time
	}
)

func (Want) action() {}
func (Draw) action() {}

func (Allowance) event() {}
