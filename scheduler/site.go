package scheduler

import (
	"strings"

	"zsched/scheduler/limit"
)

// Sites: the servers behind destinations (sitemax, siterate, clustersitemax). Many domains have the
// same MX host, and that host is what becomes overloaded. Agents report the site of
// a session; a thread whose site is not known is a site of its own.
//
// A thread whose site is full, or has no token, is closed when its turn comes
// (isRefusedAtSite), and so picks pass over it as with a full window. When a session is free
// again, the site offers it to the thread of each ring that has waited longest. Nothing
// else looks at the threads of a site, which may be very many.

// What is remembered of sites for threads without mail. Beyond maxKnownSites, all is forgotten:
// the next reports tell it again.
const maxKnownSites = 100_000

// site is a server with the threads that use it and have a limit on it.
type site struct {
	name     string // channel, "/", and the reported name; or that of its only thread
	threads  int
	sessions limit.Limit[bounds] // of its threads
}

// rememberSite keeps what an agent has reported about the site of a thread.
func (ls *limits) rememberSite(t *thread, name string) {
	if name == "" {
		return
	}
	changed := ls.knownSites[t.key] != name
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
	ls.knownSites[key] = name
}

// siteName returns the name under which a thread has its site.
func (ls *limits) siteName(key threadKey) string {
	if name := ls.knownSites[key]; name != "" {
		return key.channel + "/" + name
	}
	return key.channel + "//" + key.host // no reported name has this form
}

// setSite puts a thread into its site, if its parameters limit the site.
func (ls *limits) setSite(t *thread) {
	p := t.params
	ls.leaveSite(t)
	if p.SiteMax == 0 && p.SiteRate.Recipients == 0 && p.Cluster.SiteMax == 0 {
		return
	}
	x, name := ls.obtainShaping(t), ls.siteName(t.key)
	s := ls.sites[name]
	if s == nil {
		s = &site{name: name}
		ls.sites[name] = s
	}
	s.threads++
	s.sessions.Busy += t.busy()
	x.site = s
	wake := func() { ls.wake(&s.sessions) }
	ls.useRate(&x.toSite.rate, "siterate "+name, p.SiteRate, p.RateBurst, wake)
	id := ClusterLimit{"clustersitemax", t.key.channel, strings.TrimPrefix(name, t.key.channel+"/")}
	ls.s.cluster.useShare(&x.shares[ofClusterSiteMax], id, p.Cluster.SiteMax, wake)
	x.toSite = link{ofSite, &s.sessions, bounds{p.SiteMax, x.toSite.rate, x.shares[ofClusterSiteMax].clusterShare, t.ring}}
}

// leaveSite takes a thread out of its site.
func (ls *limits) leaveSite(t *thread) {
	x := t.shaping
	if x == nil || x.site == nil {
		return
	}
	x.place.Served()
	s := x.site
	x.site = nil
	s.threads--
	s.sessions.Busy -= t.busy()
	ls.useRate(&x.toSite.rate, "", limit.Rate{}, 0, nil)
	ls.s.cluster.useShare(&x.shares[ofClusterSiteMax], ClusterLimit{}, 0, nil)
	if s.threads == 0 {
		delete(ls.sites, s.name)
	}
	ls.wake(&s.sessions)
}

// waitsAtSite reports whether the thread waits for a session, or a token, of its site.
func (t *thread) waitsAtSite() bool { return t.shaping != nil && t.shaping.place.Waits() }

// siteLink is the thread's link to its site; nil: the thread has no limit on it.
func (t *thread) siteLink() *link {
	if t.shaping == nil || t.shaping.site == nil {
		return nil
	}
	return &t.shaping.toSite
}

// isRefusedAtSite reports whether the site of a thread has nothing free. It closes the thread then
// until there is something: of each ring, the thread that has waited longest tries first, and the
// next when that one has begun, or no longer wants a session.
func (ls *limits) isRefusedAtSite(t *thread) bool {
	l := t.siteLink()
	if l == nil || ls.now(l).Free() > 0 {
		return false
	}
	ls.wait(&t.shaping.place, l)
	ls.s.threads.updateThread(t)
	return true
}
