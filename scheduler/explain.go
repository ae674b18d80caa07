package scheduler

import (
	"cmp"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Explain: which clauses and limits apply to a channel and host, and what its
// mail waits for.

// Explanation says how the mail for a channel and host is treated and what it
// waits for. It can be made for any channel and host, even without mail.
type Explanation struct {
	Channel, Host string
	Hold          *HoldOrder  // of the thread; nil: it is not held
	Thread        *ThreadView // nil: there is no mail
	Ring          *RingView   // nil: there is no ring that mail would join
	// Clauses that match, in order. They belong to the Config.
	Clauses []*rule.Clause
	// Settings in force, in the order in which the clauses first name them. If
	// one is set twice, the later one is in force. Parameters that are not here
	// have their defaults.
	Settings []rule.Setting
	Params   *rule.Params // in force
	Limits   []Limit
	// Wait is why due mail is not fed now, or WaitHeld.
	Wait Wait
	// Rules are all rules that keep the next vertex from being fed, the one of
	// Wait first.
	Rules []Wait
	// Vertex is the vertex of the thread that is fed next; nil: none is due.
	Vertex *VertexView
	// Next is what happens next without outside action, and NextAt is when.
	// They are zero if the thread waits for an agent, a person or nothing.
	Next   Upcoming
	NextAt time.Time
	// GateUntil is when a rate allows the next job line; zero: no rate keeps mail
	// waiting.
	GateUntil time.Time
	// Delays are the reply rules with defer and hold that make vertices wait.
	Delays []DelayView
	// Ordered counts the vertices with agents for which an order waits, by its verb.
	Ordered map[Verb]int
	// Rerouted counts those of VerbReroute by the channel and host that they are sent to.
	Rerouted map[Target]int
	// Told is by whose word the thread is suspended; nil: it is not, or this node has
	// found that the destination is dead.
	Told *DestinationDead
}

// Upcoming is the next thing that happens to a thread at a known time.
type Upcoming string

const (
	NothingNext Upcoming = ""
	RetryNext   Upcoming = "retry"             // a vertex is due again
	ResumeNext  Upcoming = "end of suspension" // of the thread
	ExpiryNext  Upcoming = "expiry"            // of the oldest message
	StartNext   Upcoming = "start of an agent" // after failed starts, or by the fork rate
	ProbeNext   Upcoming = "probe of the spool"
	TokenNext   Upcoming = "token"           // of a rate
	TimeoutNext Upcoming = "end of an agent" // that makes no progress
)

// Limit is one of the limits on a thread and how much of it is used.
type Limit struct {
	// Name is maxta, maxchannel, maxring, maxthr, window, clustermax, sitemax or
	// clustersitemax.
	Name string
	Used int // processes for maxta, busy sessions for the others
	Most int // 0: no limit, except in clustermax and clustersitemax
	// Of is the limit of the cluster in clustermax and clustersitemax; empty: there is
	// no mail for it.
	Of ClusterLimit
	// Agents are the processes that count for maxchannel and maxring as well,
	// idle ones included.
	Agents int
	// Setting is the keyword that gives the limit: the name, or maxta where the
	// limit has no value of its own; "": the limit is the scheduler's.
	Setting string
	Blocks  bool // due mail is not fed because of it
}

// Explain explains a channel and host, in lower case.
func (s *Scheduler) Explain(channel, host string) *Explanation {
	key := threadKey{channel, host}
	e := &Explanation{Channel: channel, Host: host, Hold: s.holdOrders.threads[key]}
	e.Clauses = rule.Match(s.config.Clauses, channel, host)
	e.Settings = rule.InForce(e.Clauses)
	e.Params = rule.Fold(s.config.Defaults, e.Clauses)
	name, _ := s.ringName(key, e.Clauses, e.Params)
	r, t := s.rings[name], s.threads[key]
	if t != nil {
		r = t.ring
		e.Thread = s.viewThread(t)
		e.Told = t.told()
		e.Wait = e.Thread.Wait
		e.Next, e.NextAt = s.upcoming(t)
		if why, until := s.gate(t); why != NoWait && until != never {
			e.GateUntil = s.timeAt(until)
		}
		if v := s.nextVertex(t); v != nil {
			w := Walk{s: s}
			e.Vertex = w.visitVertex(v).Vertex
			e.Vertex.Position = s.position(v, maxExplained)
		}
		e.Rules = s.rules(t, e.Vertex)
		s.explainOrders(e, t)
		s.explainDelays(e, t)
	}
	if r != nil {
		e.Ring = s.viewRing(r)
	}
	e.Limits = s.limits(e.Params, channel, r, t)
	return e
}

// limits returns the limits on a thread. Ring and thread may be nil.
func (s *Scheduler) limits(p *rule.Params, name string, r *ring, t *thread) []Limit {
	c := s.channels[name]
	if c == nil {
		c = new(channel)
	}
	would := &ring{params: p, channel: c}
	if r != nil {
		would.sessions.Busy, would.processes.Busy = r.sessions.Busy, r.processes.Busy
	}
	sessions, processes := s.ringLinks(would), s.processLinks(would)
	own := limit.Link{Most: new(limit.Window).Sessions(max(1, p.MaxThr), p.InitialConcurrency)}
	if t != nil {
		own = limit.Link{Busy: t.busy, Most: t.sessionLimit()}
	}
	limits := []Limit{
		{Name: "maxta", Used: processes[ofAllProcesses].Busy, Most: processes[ofAllProcesses].Most, Setting: limitSetting("maxta", p.MaxTA, p)},
		{Name: "maxchannel", Used: sessions[1].Busy, Most: sessions[1].Most, Agents: c.processes.Busy, Setting: limitSetting("maxchannel", p.MaxChannel, p)},
		{Name: "maxring", Used: sessions[0].Busy, Most: sessions[0].Most, Agents: would.processes.Busy, Setting: limitSetting("maxring", p.MaxRing, p)},
		{Name: "maxthr", Used: own.Busy, Most: max(1, p.MaxThr), Setting: "maxthr"},
		{Name: "window", Used: own.Busy, Most: own.Most},
	}
	x := &shaping{}
	if t != nil && t.shaping != nil {
		x = t.shaping
	}
	if s.config.Cluster && p.ClusterMax > 0 {
		limits = append(limits, shareLimit("clustermax", own.Busy, x.share))
	}
	st := cmp.Or(x.site, &site{})
	if p.SiteMax > 0 {
		limits = append(limits, Limit{Name: "sitemax", Used: st.sessions.Busy, Most: p.SiteMax, Setting: "sitemax"})
	}
	if s.config.Cluster && p.ClusterSiteMax > 0 {
		limits = append(limits, shareLimit("clustersitemax", st.sessions.Busy, st.share))
	}
	if t != nil {
		for wait := range s.waits(t) {
			for i := range limits {
				l := &limits[i]
				l.Blocks = l.Blocks || l.Name == string(wait) || l.Name == "window" && (wait == WaitThread || wait == WaitProbe)
			}
		}
	}
	return limits
}

// shareLimit returns a limit of the cluster. The share is nil if there is no mail for it.
func shareLimit(name string, busy int, share *clusterShare) Limit {
	if share == nil {
		return Limit{Name: name, Setting: name}
	}
	return Limit{Name: name, Setting: name, Used: busy, Most: share.sessions, Of: share.id}
}

// limitSetting returns the keyword that a limit comes from.
func limitSetting(name string, value int, p *rule.Params) string {
	switch {
	case value > 0:
		return name
	case p.MaxTA > 0:
		return "maxta"
	}
	return ""
}

// upcoming returns the next thing that happens to a thread at a known time.
func (s *Scheduler) upcoming(t *thread) (Upcoming, time.Time) {
	if t.isHeld() {
		return NothingNext, time.Time{}
	}
	next, at := NothingNext, never
	consider := func(what Upcoming, when instant) {
		if when < at {
			next, at = what, when
		}
	}
	retry := t.nextWake()
	switch till := s.suspensionEnd(t); {
	case len(s.barriers(t)) > 0:
	case till != 0 && (t.states[due] > 0 || retry <= till):
		consider(ResumeNext, till)
	default:
		consider(RetryNext, retry)
	}
	if oldest := t.modTimes.earliest(); oldest != 0 && t.params.Expiry != 0 {
		if at := s.nextExpiry(t, oldest.date(), t.attempts > 0 || !t.isUntriable()); at > s.date {
			consider(ExpiryNext, s.instantAt(at))
		}
	}
	for _, a := range t.agents {
		if len(a.lines) > 0 {
			consider(TimeoutNext, s.deadline(a))
		}
	}
	switch s.waitOf(t) {
	case WaitRate, WaitChannelRate, WaitClusterRate, WaitSiteRate:
		_, until := s.gate(t)
		consider(TokenNext, until)
	case WaitStart:
		consider(StartNext, s.startFailures[t.ring.clause].until)
	case WaitForks:
		consider(StartNext, s.plannedAt(&s.forks.next))
	case WaitSpool:
		consider(ProbeNext, s.plannedAt(&s.store.retry))
	}
	if at == never {
		return NothingNext, time.Time{}
	}
	return next, s.timeAt(at)
}
