package scheduler

import (
	"strings"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Sites: the servers behind destinations (sitemax, siterate, clustersitemax). Many domains have the
// same MX host, and that host is what becomes overloaded. Agents report the site of
// a session; a thread whose site is not known is a site of its own.
//
// A thread whose site is full, or has no token, is closed when its turn comes
// (waitAtSite), and so picks pass over it as with a full window. When a session is free
// again, the site offers it to the thread of each ring that has waited longest. Nothing
// else looks at the threads of a site, which may be very many.

// What is remembered of sites for threads without mail. Beyond maxKnownSites, all is forgotten:
// the next reports tell it again.
const (
	maxKnownSites = 100_000
	siteLifetime  = 24 * instant(time.Hour)
)

// knownSite is the site of a thread, as an agent has reported it.
type knownSite struct {
	name  string
	until instant // it is forgotten then
}

// site is a server with the threads that use it and have a limit on it.
type site struct {
	name     string // channel, "/", and the reported name; or that of its only thread
	threads  int
	sessions limit.Limit[*thread] // of its threads; the lines are those of the rings
	rates    []*bucket

	share     *clusterShare // of clustersitemax; nil: none
	limitedBy *rule.Config  // that gave the maximum of share
	limited   int           // threads with a clustersitemax
	want      int           // sessions that its threads could use, busy ones included
}

// rememberSite keeps what an agent has reported about the site of a thread.
func (ls *limits) rememberSite(t *thread, name string) {
	if name == "" {
		return
	}
	changed := ls.knownSite(t.key) != name
	ls.noteSite(t.key, name)
	if changed && t.shaping != nil && t.shaping.site != nil {
		ls.setSite(t)
		ls.s.threads.updateThread(t)
	}
}

func (ls *limits) noteSite(key threadKey, name string) {
	if len(ls.knownSites) >= maxKnownSites {
		clear(ls.knownSites)
	}
	ls.knownSites[key] = knownSite{name, ls.s.agenda.now + siteLifetime}
}

// knownSite returns the name of the site of a thread, as an agent reported it; "": it is
// not known.
func (ls *limits) knownSite(key threadKey) string {
	if known := ls.knownSites[key]; known.until > ls.s.agenda.now {
		return known.name
	}
	return ""
}

// siteName returns the name under which a thread has its site.
func (ls *limits) siteName(key threadKey) string {
	if name := ls.knownSite(key); name != "" {
		return key.channel + "/" + name
	}
	return key.channel + "//" + key.host // no reported name has this form
}

// setSite puts a thread into its site, if its parameters limit the site.
func (ls *limits) setSite(t *thread) {
	p := t.params
	limited := p.SiteMax > 0 || len(p.SiteRate) > 0 || p.ClusterSiteMax > 0
	if !limited && (t.shaping == nil || t.shaping.site == nil) {
		return
	}
	x := ls.obtainShaping(t)
	ls.leaveSite(t)
	if !limited {
		return
	}
	name := ls.siteName(t.key)
	s := ls.sites[name]
	if s == nil {
		s = &site{name: name}
		ls.sites[name] = s
	}
	s.threads++
	s.sessions.Busy += t.busy
	x.site, x.siteRate = s, nil
	if len(p.SiteRate) > 0 {
		x.siteRate = ls.obtainBucket(&s.rates, "siterate "+s.name, p.SiteRate, p.RateBurst, func() {
			ls.offerSite(s)
			ls.dropSite(s)
		})
	}
	if p.ClusterSiteMax > 0 {
		ls.joinSiteShare(t)
	}
	ls.updateSiteWant(t)
}

// leaveSite takes a thread out of its site.
func (ls *limits) leaveSite(t *thread) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.place.Served()
	s := x.site
	x.site, x.siteRate = nil, nil
	s.threads--
	s.sessions.Busy -= t.busy
	s.want -= x.siteWant
	x.siteWant = 0
	ls.leaveSiteShare(s, x)
	ls.dropSite(s)
	ls.offerSite(s)
}

// dropSite drops a site without threads, once it has all its tokens.
func (ls *limits) dropSite(s *site) {
	if s.threads > 0 {
		return
	}
	for _, b := range s.rates {
		if b.Owed(ls.s.agenda.both()) {
			ls.s.agenda.plan(&b.next, instant(b.PaidAt))
			return
		}
	}
	for _, b := range s.rates {
		ls.s.agenda.plan(&b.next, never)
	}
	if ls.sites[s.name] == s {
		delete(ls.sites, s.name)
	}
}

// waitsAtSite reports whether the thread waits for a session, or a token, of its site.
func (t *thread) waitsAtSite() bool { return t.shaping != nil && t.shaping.place.Waits() }

// waitAtSite closes a thread until its site has a free session for it.
func (ls *limits) waitAtSite(t *thread) {
	x := t.shaping
	x.site.sessions.Join(&x.place, limit.Key{Group: t.ring.id}, &ls.turns)
	ls.planSiteToken(x)
	ls.s.threads.updateThread(t)
	if t.stubs != nil {
		ls.s.loads.considerUnloadingThread(t)
	}
}

// planSiteToken plans the next token of a site if there is none.
func (ls *limits) planSiteToken(x *shaping) {
	if x.siteRate != nil && ls.tokensOf(x.siteRate) == 0 {
		ls.planToken(x.siteRate)
	}
}

// offerSite lets threads try again that wait at a site, if there are free sessions: of each
// ring the one that has waited longest, and the next when that one has begun. A thread that
// no longer wants a session passes its turn on at once.
func (ls *limits) offerSite(s *site) {
	if s.sessions.Len() == 0 {
		return
	}
	s.sessions.Wake(func(t *thread) int {
		ls.planSiteToken(t.shaping)
		return min(1, ls.siteLink(t).Free())
	}, func(t *thread) bool {
		ls.s.threads.updateThread(t)
		return t.wants > 0
	})
}

// countSiteSession counts a session of the thread that has begun (n is 1) or ended (-1).
func (ls *limits) countSiteSession(t *thread, n int) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.site.sessions.Busy += n
	if n > 0 {
		x.place.Served()
	}
	ls.offerSite(x.site)
}

// siteContended reports whether other threads wait at the site of the thread.
func (t *thread) siteContended() bool {
	return t.shaping != nil && t.shaping.site != nil && t.shaping.site.sessions.Len() > 0
}

// joinSiteShare counts the clustersitemax of a thread. The smallest one of the threads that
// have joined the site under this configuration counts.
func (ls *limits) joinSiteShare(t *thread) {
	s, most := t.shaping.site, t.params.ClusterSiteMax
	if s.share == nil {
		s.share = &clusterShare{id: ClusterLimit{"clustersitemax", t.key.channel, strings.TrimPrefix(s.name, t.key.channel+"/")}, site: s}
	}
	if s.limitedBy == ls.s.rules.config {
		most = min(most, s.share.max)
	}
	s.limitedBy, s.share.max = ls.s.rules.config, most
	s.limited++
	t.shaping.siteLimited = true
	ls.s.cluster.markDemand(s.share)
}

// leaveSiteShare is called when a thread has left its site.
func (ls *limits) leaveSiteShare(s *site, x *shaping) {
	if s.share != nil {
		ls.s.cluster.markDemand(s.share)
	}
	if !x.siteLimited {
		return
	}
	x.siteLimited = false
	if s.limited--; s.limited == 0 {
		ls.s.cluster.dropShare(s.share)
		s.share, s.limitedBy = nil, nil
	}
}

// updateSiteWant counts what a thread could use at its site.
func (ls *limits) updateSiteWant(t *thread) {
	x := t.shaping
	want := t.busy
	if t.mayFeed() {
		want = t.usableSessions()
	}
	x.site.want += want - x.siteWant
	x.siteWant = want
	if x.site.share != nil {
		ls.s.cluster.markDemand(x.site.share)
	}
}
