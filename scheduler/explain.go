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
	// Clauses that match, in order. They belong to the Config.
	Clauses []*rule.Clause
	Params  *rule.Params // in force
	Limits  []Limit
	// Wait is why mail is not fed now, and Until when that ends by itself; zero: it does
	// not, or the time is not known.
	Wait  Wait
	Until time.Time
}

// Limit is one of the limits on a thread and how much of it is used.
type Limit struct {
	// Name is maxta, maxchannel, maxring, maxthr, window, clustermax, sitemax or
	// clustersitemax.
	Name string
	Used int // processes for maxta, busy sessions for the others
	Most int // 0: no limit, except in clustermax and clustersitemax
	// Agents are the processes that count for maxchannel and maxring as well,
	// idle ones included.
	Agents int
	Blocks bool // mail waits for it
}

// Explain explains a channel and host, in lower case.
func (s *Scheduler) Explain(channel, host string) *Explanation {
	key := threadKey{channel, host}
	e := &Explanation{Channel: channel, Host: host, Hold: s.orders.holdOrders.threads[key]}
	e.Clauses = rule.Match(s.rules.config.Clauses, channel, host)
	e.Params = rule.Fold(s.rules.config.Defaults, e.Clauses)
	name, _ := s.rings.ringName(key, e.Clauses, e.Params)
	r, t := s.rings.byKey[name], s.threads.byKey[key]
	if t != nil {
		r = t.ring
		e.Thread, e.Wait = s.views.viewThread(t), s.views.waitOfMail(t)
		if until := s.views.waitEnd(t, e.Wait); until != never {
			e.Until = s.agenda.timeAt(until)
		}
	}
	e.Limits = s.views.viewLimits(e.Params, channel, r, t)
	for i := range e.Limits {
		l := &e.Limits[i]
		l.Blocks = l.Name == string(e.Wait) || l.Name == "window" && (e.Wait == WaitThread || e.Wait == WaitProbe)
	}
	return e
}

// viewLimits returns the limits on a thread. Ring and thread may be nil.
func (vi *views) viewLimits(p *rule.Params, name string, r *ring, t *thread) []Limit {
	c := vi.limits.channels[name]
	if c == nil {
		c = new(channel)
	}
	would := &ring{params: p, channel: c}
	if r != nil {
		would.sessions.Busy, would.processes.Busy = r.sessions.Busy, r.processes.Busy
	}
	sessions, processes := vi.limits.ringLinks(would), vi.limits.processLinks(would)
	own := limit.Link{Most: new(limit.Window).Sessions(max(1, p.MaxThr), p.InitialConcurrency)}
	if t != nil {
		own = limit.Link{Busy: t.busy, Most: t.sessionLimit()}
	}
	limits := []Limit{
		{Name: "maxta", Used: processes[ofAllProcesses].Busy, Most: processes[ofAllProcesses].Most},
		{Name: "maxchannel", Used: sessions[1].Busy, Most: sessions[1].Most, Agents: c.processes.Busy},
		{Name: "maxring", Used: sessions[0].Busy, Most: sessions[0].Most, Agents: would.processes.Busy},
		{Name: "maxthr", Used: own.Busy, Most: max(1, p.MaxThr)},
		{Name: "window", Used: own.Busy, Most: own.Most},
	}
	x := &shaping{}
	if t != nil && t.shaping != nil {
		x = t.shaping
	}
	if vi.rules.config.Cluster && p.ClusterMax > 0 {
		limits = append(limits, shareLimit("clustermax", own.Busy, x.share))
	}
	st := cmp.Or(x.site, &site{})
	if p.SiteMax > 0 {
		limits = append(limits, Limit{Name: "sitemax", Used: st.sessions.Busy, Most: p.SiteMax})
	}
	if vi.rules.config.Cluster && p.ClusterSiteMax > 0 {
		limits = append(limits, shareLimit("clustersitemax", st.sessions.Busy, st.share))
	}
	return limits
}

// shareLimit returns a limit of the cluster. The share is nil if there is no mail for it.
func shareLimit(name string, busy int, share *clusterShare) Limit {
	l := Limit{Name: name}
	if share != nil {
		l.Used, l.Most = busy, share.sessions
	}
	return l
}
