package scheduler

import (
	"slices"

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
	x := &view.Explanation{Name: key.view(), Hold: s.orders.heldThreads[key], Clauses: viewClauses(clauses)}
	for _, set := range rule.InForce(clauses) {
		x.Settings = append(x.Settings, view.Setting{Name: set.Name, Value: set.Value, File: set.File, Line: set.Line})
	}
	if t := s.threads.byKey[key]; t != nil {
		x.Thread, x.Wait = s.views.viewThread(t), s.views.waitOfMail(t)
		if until := s.views.waitEnd(t, x.Wait); until != never {
			x.Until = s.agenda.timeAt(until)
		}
		x.Limits = s.views.viewLimits(t, x.Wait)
	}
	return x, params
}

// viewClauses returns clauses with the places where they are.
func viewClauses(clauses []*rule.Clause) (views []view.Clause) {
	for _, c := range clauses {
		views = append(views, view.Clause{Pattern: c.Channel + "/" + c.Host, File: c.File, Line: c.Line})
	}
	return views
}

// viewLimits returns the limits on a thread that waits for something, by the words of waits. The
// processes under a limit stand beside its sessions.
func (vi *views) viewLimits(t *thread, why view.Wait) (limits []view.Limit) {
	ls := &vi.s.limits
	add := func(name view.Wait, busy, most int) {
		i := slices.IndexFunc(limits, func(l view.Limit) bool { return l.Name == string(name) })
		switch {
		case i >= 0:
			limits[i].Agents = busy
		case name != "" && most < limit.Unlimited:
			blocks := name == why || name == view.WaitWindow && (why == view.WaitThread || why == view.WaitProbe)
			limits = append(limits, view.Limit{Name: string(name), Used: busy, Most: most, Blocks: blocks})
		}
	}
	for i := range t.ring.links {
		l := &t.ring.links[i]
		add(waits[l.kind][limit.Full], l.at.Busy, l.most)
	}
	own := ls.own(t)
	add(view.WaitThread, own.Busy, max(1, t.params.MaxThr))
	add(view.WaitWindow, own.Busy, own.Most)
	add(view.WaitClusterMax, own.Busy, own.Share)
	if l := t.siteLink(); l != nil {
		at := ls.now(l)
		add(view.WaitSite, at.Busy, at.Most)
		add(view.WaitClusterSite, at.Busy, at.Share)
	}
	for _, s := range t.fair.AsideShares() {
		busy, room := s.Sessions(), vi.s.rings.shareRoom(s, t.ring)
		limits = append(limits, view.Limit{Name: string(view.WaitShare), Share: s.Name(), Used: busy, Most: busy + room, Blocks: room <= 0})
	}
	return limits
}
