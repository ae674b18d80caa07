package scheduler

import (
	"time"

	"zsched/scheduler/rule"
)

// Limits of the cluster: limits that several nodes share (clustermax,
// clustersitemax, clusterrate). The core says what it wants (Want), and is
// told what this node may use (Allowance). Package cluster speaks to the store.

// cluster has the limits that nodes share, and what they tell each other of dead destinations.
type cluster struct {
	s *Scheduler

	shares map[ClusterLimit]*clusterShare
	unsaid []*clusterShare // whose demand may have changed
}

// ClusterLimit names a limit that several nodes share.
type ClusterLimit struct {
	Setting string // clustermax, clustersitemax or clusterrate
	Channel string
	Name    string // the host of the thread, or the site
}

func (l ClusterLimit) String() string { return l.Setting + " " + l.Channel + "/" + l.Name }

type (
	// Want says how many sessions could be used under a limit of the cluster
	// (Want, which includes the busy ones) and how many are busy. Of a clusterrate, these are
	// thousandths of the rate. Each Step that has changed one of them ends with a Want.
	Want struct {
		Limit      ClusterLimit
		Max        int // as configured on this node
		Want, Busy int
	}

	// Allowance says how many sessions may be busy under a limit of the cluster, or how many
	// thousandths of a rate may be used, until a time. After that time, nothing is started.
	Allowance struct {
		Limit    ClusterLimit
		Sessions int
		Until    time.Time
	}
)

func (Want) action() {}

func (Allowance) event() {}

// clusterShare is this node's share of a limit.
type clusterShare struct {
	id       ClusterLimit
	users    int    // threads to which it applies; 0: it is given up when the Step ends
	max      int    // as configured for the thread that was last attached to it
	demand   demand // of all its users
	changed  func() // something else may be used
	sessions int    // that may be busy
	index    int32  // in agenda.shares
	said     Want   // the last one
	unsaid   bool   // is in cluster.unsaid
}

// demand is what could be used of a share, with what is used.
type demand struct{ want, busy int }

// sharing is the part that a thread has in a share.
type sharing struct {
	*clusterShare // nil: none
	part          demand
}

// The shares of a thread.
const (
	ofClusterMax = iota
	ofClusterSiteMax
	ofNextClusterSite // of the site to which the thread is to move with its sessions
	ofClusterRate
	threadShares
)

// useShare puts a share of a limit in the place of another. It is none if most is 0.
func (cl *cluster) useShare(at *sharing, id ClusterLimit, most int, changed func()) {
	before := *at
	*at = sharing{}
	if most > 0 {
		c := cl.shares[id]
		if c == nil {
			c = &clusterShare{id: id}
			cl.shares[id] = c
		}
		c.users++
		c.max, c.changed = most, changed
		at.clusterShare = c
		cl.markDemand(c)
	}
	if before.clusterShare != nil {
		before.users--
		cl.count(before.clusterShare, before.part, demand{})
		cl.markDemand(before.clusterShare)
	}
}

// setShares gives a thread the shares of its own that its parameters ask for.
func (cl *cluster) setShares(t *thread) {
	p := t.params
	if t.shaping == nil && p.Cluster.Max == 0 && p.Cluster.Rate.Recipients == 0 {
		return
	}
	x := cl.s.limits.obtainShaping(t)
	whole := 0
	if p.Cluster.Rate.Recipients > 0 {
		whole = wholeRate
	}
	cl.useShare(&x.shares[ofClusterMax], ClusterLimit{"clustermax", t.key.channel, t.key.host}, p.Cluster.Max, x.tokens)
	cl.s.limits.useRate(&x.clusterRate, "clusterrate "+t.name(), p.Cluster.Rate, p.Rates.Burst, x.tokens)
	cl.useShare(&x.shares[ofClusterRate], ClusterLimit{"clusterrate", t.key.channel, t.key.host}, whole, func() {
		cl.slowRate(x)
		x.tokens()
	})
	cl.slowRate(x)
	cl.s.limits.planTokens(t)
}

// slowRate gives a thread the part of its clusterrate that is this node's.
func (cl *cluster) slowRate(x *shaping) {
	if part := x.shares[ofClusterRate].clusterShare; part != nil && part.sessions > 0 {
		cl.s.limits.slow(x.clusterRate, min(x.clusterRate.rate.Per()*wholeRate/time.Duration(part.sessions), rule.LongestRetry))
	}
}

// clusterTokens is how many recipients the clusterrate of a thread allows it.
func (ls *limits) clusterTokens(x *shaping) int {
	if part := x.shares[ofClusterRate].clusterShare; part != nil && part.sessions == 0 {
		return 0 // until there is an Allowance
	}
	return ls.tokensOf(x.clusterRate)
}

// updateShares counts what a thread could use of its shares.
func (cl *cluster) updateShares(t *thread) {
	x := t.shaping
	for i := range x.shares {
		at := &x.shares[i]
		if at.clusterShare == nil {
			continue
		}
		now := demand{t.usableSessions(), t.busy()}
		switch i {
		case ofNextClusterSite:
			now = demand{want: t.busy()}
		case ofClusterRate:
			now.want = t.usableRate()
			now.busy = min(now.want, at.sessions)
		}
		cl.count(at.clusterShare, at.part, now)
		at.part = now
	}
}

// count counts the demand of a thread in a share, in the place of what it was before.
func (cl *cluster) count(c *clusterShare, before, now demand) {
	if before != now {
		c.demand.want += now.want - before.want
		c.demand.busy += now.busy - before.busy
		cl.markDemand(c)
	}
}

// A clusterrate is divided into so many parts. A node asks for as many as it could use in
// rateAhead.
const (
	wholeRate = 1000
	rateAhead = 2 * time.Second
)

// usableRate is which part of its clusterrate the thread could use.
func (t *thread) usableRate() int {
	backlog := t.fair.Len()
	if backlog == 0 || !t.mayFeed() {
		return 0
	}
	parts := float64(backlog) * float64(t.params.Cluster.Rate.Per()) * wholeRate / float64(rateAhead)
	return max(1, int(min(parts, wholeRate)))
}

// usableSessions is how many sessions the thread could use, busy ones included.
func (t *thread) usableSessions() int {
	if !t.mayFeed() {
		return t.busy()
	}
	return max(t.busy(), min(t.windowSize(), t.busy()+int(t.states[due])))
}

// markDemand makes sure that a change of the demand is reported before the Step ends.
func (cl *cluster) markDemand(c *clusterShare) {
	if !c.unsaid {
		c.unsaid = true
		cl.unsaid = append(cl.unsaid, c)
	}
}

// sayDemand reports the demands that have changed in this Step.
func (cl *cluster) sayDemand() {
	for _, c := range cl.unsaid {
		c.unsaid = false
		w := Want{c.id, c.max, c.demand.want, c.demand.busy}
		if c.users == 0 {
			cl.s.agenda.shares.Remove(c)
			delete(cl.shares, c.id)
		}
		if w != c.said && (w.Want > 0 || c.said != Want{}) {
			c.said = w
			cl.s.agenda.do(w)
		}
	}
	cl.unsaid = cl.unsaid[:0]
}

// allowance applies an Allowance. It ignores one for which there is no mail.
func (cl *cluster) allowance(e Allowance) {
	c := cl.shares[e.Limit]
	if c == nil {
		return
	}
	c.sessions = e.Sessions
	until := cl.s.agenda.instantAt(dateOf(e.Until))
	if until <= cl.s.agenda.now {
		c.sessions = 0
	}
	if c.sessions == 0 || until == never {
		cl.s.agenda.shares.Remove(c)
	} else {
		cl.s.agenda.shares.Put(until, c)
	}
	c.changed()
}

// endAllowances ends the shares whose time is over. This comes before anything else in
// a Step, so that nothing is started after that time.
func (cl *cluster) endAllowances() {
	for cl.s.agenda.shares.Next() <= cl.s.agenda.now {
		c := cl.s.agenda.shares.Pop()
		c.sessions = 0
		c.changed()
	}
}
