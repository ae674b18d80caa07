package scheduler

import "time"

// Limits of the cluster: limits that several nodes share (clustermax,
// clustersitemax, clusterrate). The core says what it wants (Want, Draw), and is
// told what this node may use (Allowance). Package cluster speaks to the store.

// cluster has the limits that nodes share, and what they tell each other of dead destinations.
type cluster struct {
	s *Scheduler

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
	// (Want, which includes the busy ones) and how many are busy. Each Step that
	// has changed one of them ends with a Want.
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

// clusterShare is this node's share of a limit on sessions: of clustermax, which is a
// thread's, or of clustersitemax, which is a site's. If both thread and site are nil,
// they are gone.
type clusterShare struct {
	id       ClusterLimit
	max      int // as configured
	thread   *thread
	site     *site
	sessions int   // that may be busy
	index    int32 // in agenda.shares
	said     Want  // the last one
	unsaid   bool  // is in cluster.unsaid
}

// setClusterLimits gives a thread the shares that its parameters ask for.
func (cl *cluster) setClusterLimits(t *thread) {
	p := t.params
	if p.ClusterMax > 0 || p.ClusterRate.Recipients > 0 {
		cl.s.limits.obtainShaping(t)
	}
	x := t.shaping
	if x == nil {
		return
	}
	switch {
	case p.ClusterMax > 0:
		if x.share == nil {
			x.share = &clusterShare{id: ClusterLimit{"clustermax", t.key.channel, t.key.host}, thread: t}
		}
		x.share.max = p.ClusterMax
		cl.markDemand(x.share)
	case x.share != nil:
		cl.dropShare(x.share)
		x.share = nil
	}
	cl.setClusterRate(t)
}

// dropShare gives up a share whose thread, site or limit is gone.
func (cl *cluster) dropShare(c *clusterShare) {
	c.thread, c.site = nil, nil
	cl.s.agenda.shares.Remove(c)
	cl.markDemand(c)
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
		if w := cl.demand(c); w != c.said && (w.Want > 0 || c.said != Want{}) {
			c.said = w
			cl.s.agenda.do(w)
		}
	}
	clear(cl.unsaid)
	cl.unsaid = cl.unsaid[:0]
}

// demand is what could be used of a share, and what is used.
func (cl *cluster) demand(c *clusterShare) Want {
	w := Want{Limit: c.id, Max: c.max}
	if t := c.thread; t != nil {
		w.Busy, w.Want = t.busy, t.busy
		if t.mayFeed() {
			w.Want = t.usableSessions()
		}
	}
	if s := c.site; s != nil {
		w.Busy, w.Want = s.sessions.Busy, max(s.sessions.Busy, s.want)
	}
	return w
}

// usableSessions is how many sessions the thread could use, busy ones included.
func (t *thread) usableSessions() int {
	return max(t.busy, min(t.windowSize(), t.busy+int(t.states[due])))
}

// allowance applies an Allowance. It ignores one for a thread or site without mail.
func (cl *cluster) allowance(e Allowance) {
	if e.Limit.Setting == "clustersitemax" {
		if s := cl.s.limits.sites[e.Limit.Channel+"/"+e.Limit.Name]; s != nil && s.share != nil {
			cl.setSessions(s.share, &e)
			cl.s.limits.offerSite(s)
		}
		return
	}
	t := cl.s.threads.byKey[threadKey{e.Limit.Channel, e.Limit.Name}]
	if t == nil || t.shaping == nil {
		return
	}
	switch x := t.shaping; {
	case e.Limit.Setting == "clusterrate" && x.draws != nil:
		cl.tokensDrawn(t, &e)
	case e.Limit.Setting == "clustermax" && x.share != nil:
		cl.setSessions(x.share, &e)
		cl.s.threads.updateThread(t)
		cl.s.rings.overfeedThread(t)
	}
}

// setSessions notes how many sessions a share allows, and until when.
func (cl *cluster) setSessions(c *clusterShare, e *Allowance) {
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
}

// endAllowances ends the shares whose time is over. This comes before anything else in
// a Step, so that nothing is started after that time.
func (cl *cluster) endAllowances() {
	for cl.s.agenda.shares.Next() <= cl.s.agenda.now {
		c := cl.s.agenda.shares.Pop()
		c.sessions = 0
		if c.thread != nil {
			cl.s.threads.updateThread(c.thread)
		}
	}
}
