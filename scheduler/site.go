package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Sites: the servers behind destinations (sitemax, siterate, clustersitemax). Many domains have the
// same MX host, and that host is what becomes overloaded. Agents report the site of
// a session; a thread whose site is not known is a site of its own.
//
// A thread whose site is full, or has no token, is closed when its turn comes
// (waitAtSite), and so picks pass over it as with a full window. When a session is free
// again, the site offers it to the thread of each ring that has waited longest. Nothing
// else looks at the threads of a site, which may be very many.

// knownSite is the site of a thread, as an agent reported it.
type knownSite struct {
	key   threadKey
	name  string
	until instant // it is forgotten then
	links links[*knownSite]
}

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
	name    string // channel, "/", and the reported name; or that of its only thread
	threads int
	busy    int // sessions of its threads
	rates   []*bucket
	queues  []siteQueue // one for each ring with threads that wait
	last    instant     // sequence of the last thread that began to wait

	share *clusterShare // of clustersitemax; nil: none
	maxes map[int]int   // how many threads have which clustersitemax
	want  int           // sessions that its threads could use, busy ones included
}

// siteQueue is the threads of one ring that wait at a site.
type siteQueue struct {
	ring    *ring
	waiting heap[*thread] // in the order in which they began to wait
}

// noteSite keeps what an agent has reported about the site of a thread.
func (q *queue) noteSite(t *thread, name string) {
	if name == "" {
		return
	}
	k := q.knownSites[t.key]
	if k == nil {
		if q.siteOrder.len >= maxKnownSites {
			q.forgetSite(q.siteOrder.head)
		}
		k = &knownSite{key: t.key}
		q.knownSites[t.key] = k
	} else {
		q.siteOrder.remove(k)
	}
	q.siteOrder.append(k)
	k.until = q.now + siteLifetime
	if k.name == name {
		q.doubtSite(t, true)
		return
	}
	k.name = name
	q.noteThreadChange(t)
	if t.shaping != nil && t.shaping.site != nil {
		q.setSite(t)
		q.updateThread(t)
	}
}

// doubtSite plans that the remembered site of a busy thread is forgotten, or, after a
// report has named the site, plans it anew.
func (q *queue) doubtSite(t *thread, named bool) {
	if x := t.shaping; x != nil && x.site != nil && t.busy > 0 && q.knownSites[t.key] != nil && (named || !x.siteDoubt.isPlanned()) {
		q.plan(&x.siteDoubt, q.now+siteConfirm)
	}
}

// siteDoubtDue forgets the site of a thread whose sessions have not confirmed it. They
// count for the thread's own site then.
func (q *queue) siteDoubtDue(t *thread) {
	k := q.knownSites[t.key]
	if t.busy == 0 || k == nil {
		return
	}
	q.forgetSite(k)
	q.noteThreadChange(t)
	q.setSite(t)
	q.updateThread(t)
}

func (q *queue) forgetSite(k *knownSite) {
	q.siteOrder.remove(k)
	delete(q.knownSites, k.key)
}

// siteName returns the name of the site of a thread.
func (q *queue) siteName(key threadKey) string {
	for q.siteOrder.head != nil && q.siteOrder.head.until <= q.now {
		q.forgetSite(q.siteOrder.head)
	}
	if k := q.knownSites[key]; k != nil {
		return key.channel + "/" + k.name
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
	s.busy += t.busy
	x.site, x.siteRate = s, nil
	if len(p.SiteRate) > 0 {
		x.siteRate = q.obtainBucket(&s.rates, nil, p.SiteRate, p.RateBurst)
		x.siteRate.site = s
		q.shareBucket(x.siteRate, "siterate", s.name)
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
	q.leaveSiteQueue(t)
	q.plan(&t.shaping.siteDoubt, never)
	s := x.site
	x.site, x.siteRate, x.offered, x.siteSince = nil, nil, false, 0
	s.threads--
	s.busy -= t.busy
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
		if b.owed(q.clock) {
			q.plan(&b.next, b.paidAt)
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

// freeAtSite is how many more sessions the site of the thread may have now, according
// to the thread's own parameters.
func (q *queue) freeAtSite(t *thread) int {
	n := 1 << 30
	if most := t.params.SiteMax; most > 0 {
		n = most - t.shaping.site.busy
	}
	if t.params.ClusterSiteMax > 0 {
		n = min(n, t.shaping.site.roomInShare())
	}
	if b := t.shaping.siteRate; b != nil {
		n = min(n, b.tokens(q.clock))
	}
	return n
}

// admitsSite reports whether the site of the thread, if it has one, has room for
// another session.
func (q *queue) admitsSite(t *thread) bool {
	return t.shaping == nil || t.shaping.site == nil || q.freeAtSite(t) > 0
}

// mayRideSite reports whether a busy session of the thread may be given another line.
func (q *queue) mayRideSite(t *thread) bool {
	x := t.shaping
	return x == nil || x.site == nil ||
		below(x.site.busy-1, t.params.SiteMax) && (t.params.ClusterSiteMax == 0 || x.site.roomInShare() >= 0) && (x.siteRate == nil || x.siteRate.tokens(q.clock) > 0)
}

// waitAtSite closes a thread until its site has a free session for it.
func (q *queue) waitAtSite(t *thread) {
	x := t.shaping
	s := x.site
	if x.siteSince == 0 {
		s.last++
		x.siteSince = s.last
	}
	i := 0
	for i < len(s.queues) && s.queues[i].ring != t.ring {
		i++
	}
	if i == len(s.queues) {
		s.queues = append(s.queues, siteQueue{ring: t.ring})
		s.queues[i].waiting.index = func(t *thread) *int32 { return &t.shaping.siteIndex }
	}
	s.queues[i].waiting.put(x.siteSince, t)
	x.siteRing = t.ring
	x.waits++
	if b := x.siteRate; b != nil && b.tokens(q.clock) == 0 {
		q.plan(&b.next, b.nextAt(q.clock))
	}
	q.updateThread(t)
}

// leaveSiteQueue takes a thread out of those that wait at its site.
func (q *queue) leaveSiteQueue(t *thread) {
	x := t.shaping
	if x.siteIndex == 0 {
		return
	}
	s := x.site
	for i := range s.queues {
		if s.queues[i].ring == x.siteRing {
			s.queues[i].waiting.remove(t)
			if s.queues[i].waiting.len() == 0 {
				s.queues = append(s.queues[:i], s.queues[i+1:]...)
			}
			return
		}
	}
}

// offerSite lets the thread of each ring that has waited longest at the site try again,
// if there is a free session for it. When it begins the session or no longer wants it,
// the site offers what is left.
func (q *queue) offerSite(s *site) {
	for i := len(s.queues) - 1; i >= 0; i-- {
		if i >= len(s.queues) {
			continue
		}
		t := s.queues[i].waiting.first()
		if q.freeAtSite(t) <= 0 {
			if b := t.shaping.siteRate; b != nil && b.tokens(q.clock) == 0 {
				q.plan(&b.next, b.nextAt(q.clock))
			}
			continue
		}
		q.leaveSiteQueue(t)
		t.shaping.offered = true
		t.shaping.waits++
		q.updateThread(t)
	}
}

// noteSiteSession notes that a session of the thread has begun (n is 1) or ended (-1).
func (q *queue) noteSiteSession(t *thread, n int) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.site.busy += n
	if n > 0 {
		q.doubtSite(t, false)
		x.siteSince, x.offered = 0, false
	}
	q.offerSite(x.site)
}

// declineSite passes on a session that a thread was offered and no longer wants.
func (q *queue) declineSite(t *thread) {
	if t.shaping.offered {
		t.shaping.offered = false
		q.offerSite(t.shaping.site)
	}
}

// siteContended reports whether other threads wait at the site of the thread.
func (t *thread) siteContended() bool {
	return t.shaping != nil && t.shaping.site != nil && len(t.shaping.site.queues) > 0
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
	q.noteDemand(s.share)
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
		q.noteDemand(x.site.share)
	}
}

// roomInShare is how many more sessions the site may have as far as clustersitemax
// goes. It is negative if more are busy than allowed.
func (s *site) roomInShare() int {
	if s.share == nil {
		return Unlimited
	}
	return s.share.sessions - s.busy
}
