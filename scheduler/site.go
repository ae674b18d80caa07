package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/scheduler/limit"
)

// Sites: the servers behind destinations (sitemax, siterate, clustersitemax). Many domains have the
// same MX host, and that host is what becomes overloaded. Agents report the site of
// a session; a thread whose site is not known is a site of its own.
//
// A thread whose site is full, or has no token, is closed when its turn comes
// (waitAtSite), and so picks pass over it as with a full window. When a session is free
// again, the site offers it to the thread of each ring that has waited longest. Nothing
// else looks at the threads of a site, which may be very many.

// Bounds on what is remembered about sites.
const (
	maxKnownSites = 100_000
	siteLifetime  = 24 * instant(time.Hour)
	// siteConfirm is how long sessions of a thread may count for its remembered site
	// without a report that names it. The domain may have another MX host by now, so
	// sessions that hang there must not occupy the old one for longer.
	siteConfirm = 10 * instant(time.Minute)
)

// site is a server with the threads that use it and have a limit on it.
type site struct {
	name     string // channel, "/", and the reported name; or that of its only thread
	threads  int
	sessions limit.Limit[*thread] // of its threads; the lines are those of the rings
	rates    []*bucket

	share *clusterShare // of clustersitemax; nil: none
	maxes map[int]int   // how many threads have which clustersitemax
	want  int           // sessions that its threads could use, busy ones included
}

// rememberSite keeps what an agent has reported about the site of a thread.
func (q *queue) rememberSite(t *thread, name string) {
	if name == "" {
		return
	}
	if !q.siteNames.Note(t.key, name, time.Duration(q.now+siteLifetime)) {
		q.doubtSite(t, true)
		return
	}
	if t.shaping != nil && t.shaping.site != nil {
		q.setSite(t)
		q.updateThread(t)
	}
}

// doubtSite plans that the remembered site of a busy thread is forgotten, or, after a
// report has named the site, plans it anew.
func (q *queue) doubtSite(t *thread, named bool) {
	if x := t.shaping; x != nil && x.site != nil && t.busy > 0 && q.knownSite(t.key) != "" && (named || !x.siteDoubt.isPlanned()) {
		q.plan(&x.siteDoubt, q.now+siteConfirm)
	}
}

// siteDoubtDue forgets the site of a thread whose sessions have not confirmed it. They
// count for the thread's own site then.
func (q *queue) siteDoubtDue(t *thread) {
	if t.busy == 0 || q.knownSite(t.key) == "" {
		return
	}
	q.siteNames.Forget(t.key)
	q.setSite(t)
	q.updateThread(t)
}

// knownSite returns the name of the site of a thread, as an agent reported it; "": it is
// not known.
func (q *queue) knownSite(key threadKey) string {
	name, _ := q.siteNames.Find(time.Duration(q.now), key)
	return name
}

// siteName returns the name under which a thread has its site.
func (q *queue) siteName(key threadKey) string {
	q.siteNames.Expire(time.Duration(q.now))
	if name := q.knownSite(key); name != "" {
		return key.channel + "/" + name
	}
	return key.channel + "//" + key.host // no reported name has this form
}

// setSite puts a thread into its site, if its parameters limit the site.
func (q *queue) setSite(t *thread) {
	p := t.params
	limited := p.SiteMax > 0 || len(p.SiteRate) > 0 || q.config.Cluster && p.ClusterSiteMax > 0
	if !limited && (t.shaping == nil || t.shaping.site == nil) {
		return
	}
	x := q.obtainShaping(t)
	q.leaveSite(t)
	if !limited {
		return
	}
	name := q.siteName(t.key)
	s := q.sites[name]
	if s == nil {
		s = &site{name: name}
		q.sites[name] = s
	}
	s.threads++
	s.sessions.Busy += t.busy
	x.site, x.siteRate = s, nil
	if len(p.SiteRate) > 0 {
		x.siteRate = q.obtainBucket(&s.rates, nil, p.SiteRate, p.RateBurst)
		x.siteRate.site = s
		q.restoreTokens(x.siteRate)
	}
	if q.config.Cluster && p.ClusterSiteMax > 0 {
		q.joinSiteShare(t)
	}
	q.updateSiteWant(t)
	q.doubtSite(t, true)
}

// leaveSite takes a thread out of its site.
func (q *queue) leaveSite(t *thread) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.place.Served()
	q.plan(&x.siteDoubt, never)
	s := x.site
	x.site, x.siteRate = nil, nil
	s.threads--
	s.sessions.Busy -= t.busy
	s.want -= x.siteWant
	x.siteWant = 0
	q.leaveSiteShare(s, x)
	q.dropSite(s)
	q.offerSite(s)
}

// dropSite drops a site without threads, once it has all its tokens.
func (q *queue) dropSite(s *site) {
	if s.threads > 0 {
		return
	}
	for _, b := range s.rates {
		if b.Owed(q.both()) {
			q.plan(&b.next, instant(b.PaidAt))
			return
		}
	}
	for _, b := range s.rates {
		q.plan(&b.next, never)
	}
	if q.sites[s.name] == s {
		delete(q.sites, s.name)
	}
}

// waitsAtSite reports whether the thread waits for a session, or a token, of its site.
func (t *thread) waitsAtSite() bool { return t.shaping != nil && t.shaping.place.Waits() }

// waitAtSite closes a thread until its site has a free session for it.
func (q *queue) waitAtSite(t *thread) {
	x := t.shaping
	x.site.sessions.Join(&x.place, limit.Key{Group: t.ring.id}, &q.turns)
	q.planSiteToken(x)
	q.updateThread(t)
	if t.stubs != nil {
		q.considerUnloadingThread(t)
	}
}

// planSiteToken plans the next token of a site if there is none.
func (q *queue) planSiteToken(x *shaping) {
	if x.siteRate != nil && q.tokensOf(x.siteRate) == 0 {
		q.planToken(x.siteRate)
	}
}

// offerSite lets threads try again that wait at a site, if there are free sessions: of each
// ring the one that has waited longest, and the next when that one has begun. A thread that
// no longer wants a session passes its turn on at once.
func (q *queue) offerSite(s *site) {
	if s.sessions.Len() == 0 {
		return
	}
	s.sessions.Wake(func(t *thread) int {
		q.planSiteToken(t.shaping)
		return min(1, q.siteLink(t).Free())
	}, func(t *thread) bool {
		q.updateThread(t)
		return t.wants > 0
	})
}

// countSiteSession counts a session of the thread that has begun (n is 1) or ended (-1).
func (q *queue) countSiteSession(t *thread, n int) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.site.sessions.Busy += n
	if n > 0 {
		q.doubtSite(t, false)
		x.place.Served()
	}
	q.offerSite(x.site)
}

// siteContended reports whether other threads wait at the site of the thread.
func (t *thread) siteContended() bool {
	return t.shaping != nil && t.shaping.site != nil && t.shaping.site.sessions.Len() > 0
}

// joinSiteShare counts the clustersitemax of a thread. The smallest one of the threads
// of a site counts.
func (q *queue) joinSiteShare(t *thread) {
	x := t.shaping
	s := x.site
	if s.share == nil {
		s.maxes = make(map[int]int)
		s.share = &clusterShare{id: ClusterLimit{"clustersitemax", t.key.channel, strings.TrimPrefix(s.name, t.key.channel+"/")}, site: s}
	}
	x.siteMax = t.params.ClusterSiteMax
	s.maxes[x.siteMax]++
	q.setSiteShare(s)
}

// leaveSiteShare is called when a thread has left its site.
func (q *queue) leaveSiteShare(s *site, x *shaping) {
	if s.share == nil {
		return
	}
	if x.siteMax > 0 {
		if s.maxes[x.siteMax]--; s.maxes[x.siteMax] == 0 {
			delete(s.maxes, x.siteMax)
		}
		x.siteMax = 0
	}
	if len(s.maxes) > 0 {
		q.setSiteShare(s)
		return
	}
	q.dropShare(s.share)
	s.share, s.maxes = nil, nil
}

func (q *queue) setSiteShare(s *site) {
	s.share.max = slices.Min(slices.Collect(maps.Keys(s.maxes)))
	q.markDemand(s.share)
}

// updateSiteWant counts what a thread could use at its site.
func (q *queue) updateSiteWant(t *thread) {
	x := t.shaping
	want := t.busy
	if t.mayFeed() {
		want = t.usableSessions()
	}
	x.site.want += want - x.siteWant
	x.siteWant = want
	if x.site.share != nil {
		q.markDemand(x.site.share)
	}
}
