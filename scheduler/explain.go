package scheduler

import (
	"cmp"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// Explain: which clauses and limits apply to a channel and host, and what its
// mail waits for.

// Explain explains a channel and host, in lower case, and returns the parameters in force.
func (s *Scheduler) Explain(channel, host string) (*view.Explanation, *rule.Params) {
	key := threadKey{channel, host}
	clauses := rule.Match(s.rules.config.Clauses, channel, host)
	params := s.rules.config.Fold(clauses)
	x := &view.Explanation{Name: view.Name{Channel: channel, Host: host}, Hold: s.orders.heldThreads[key]}
	for _, c := range clauses {
		x.Clauses = append(x.Clauses, view.Clause{Pattern: c.Channel + "/" + c.Host, File: c.File, Line: c.Line})
	}
	for _, set := range rule.InForce(clauses) {
		x.Settings = append(x.Settings, view.Setting{Name: set.Name, Value: set.Value, File: set.File, Line: set.Line})
	}
	name, _ := s.rings.ringName(key, clauses, params)
	r, t := s.rings.byKey[name], s.threads.byKey[key]
	if t != nil {
		r = t.ring
		x.Thread, x.Wait = s.views.viewThread(t), s.views.waitOfMail(t)
		if until := s.views.waitEnd(t, x.Wait); until != never {
			x.Until = s.agenda.timeAt(until)
		}
	}
	x.Limits = s.views.viewLimits(params, channel, r, t)
	for i := range x.Limits {
		l := &x.Limits[i]
		l.Blocks = l.Name == string(x.Wait) || l.Name == "window" && (x.Wait == view.WaitThread || x.Wait == view.WaitProbe)
	}
	return x, params
}

// viewLimits returns the limits on a thread. Ring and thread may be nil; those of the cluster are there
// only if there is mail.
func (vi *views) viewLimits(p *rule.Params, name string, r *ring, t *thread) []view.Limit {
	c := vi.s.limits.channels[name]
	if c == nil {
		c = new(channel)
	}
	would := &ring{params: p, channel: c}
	if r != nil {
		would.sessions.Busy, would.processes.Busy = r.sessions.Busy, r.processes.Busy
	}
	vi.s.limits.setLinks(would)
	own := limit.Link{Most: new(limit.Window).Sessions(max(1, p.MaxThr), p.Window.Initial)}
	if t != nil {
		own = limit.Link{Busy: t.busy(), Most: t.windowSize()}
	}
	limits := []view.Limit{
		{Name: "maxta", Used: vi.s.limits.processes.Busy, Most: would.links.of(ofAllProcesses).most},
		{Name: "maxchannel", Used: c.sessions.Busy, Most: would.links.of(ofChannel).most, Agents: c.processes.Busy},
		{Name: "maxring", Used: would.sessions.Busy, Most: would.links.of(ofRing).most, Agents: would.processes.Busy},
		{Name: "maxthr", Used: own.Busy, Most: max(1, p.MaxThr)},
		{Name: "window", Used: own.Busy, Most: own.Most},
	}
	x := &shaping{}
	if t != nil && t.shaping != nil {
		x = t.shaping
	}
	if c := x.shares[ofClusterMax].clusterShare; c != nil {
		limits = append(limits, view.Limit{Name: "clustermax", Used: own.Busy, Most: c.sessions})
	}
	st := cmp.Or(x.site, &site{})
	if p.SiteMax > 0 {
		limits = append(limits, view.Limit{Name: "sitemax", Used: st.sessions.Busy, Most: p.SiteMax})
	}
	if c := x.shares[ofClusterSiteMax].clusterShare; c != nil {
		limits = append(limits, view.Limit{Name: "clustersitemax", Used: st.sessions.Busy, Most: c.sessions})
	}
	return limits
}
