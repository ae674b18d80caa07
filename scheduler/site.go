package scheduler

import (
	"cmp"
	"slices"
	"strconv"

	"zsched/scheduler/limit"
	"zsched/scheduler/store"
)

// Sites: the servers behind destinations (sitemax, siterate, clustersitemax). Many domains have the
// same MX host, and that host is what becomes overloaded. Agents report the site of
// a session, before they connect and with each result.
//
// Threads whose sites are not known may all have the same one. So they are one site, the unknown
// one. It has a quarter of the limit, and each known site has the rest. When the site of a thread
// becomes known, the thread moves there if its sessions have room. Until then it takes no more. So
// no server has more sessions than the limit.
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
	name     string // channel, "/", and the name of siteName
	unknown  bool   // it is that of the threads whose sites are not known
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
		ls.moveToSite(t)
		ls.s.threads.updateThread(t)
	}
}

func (ls *limits) noteSite(key threadKey, name string) {
	if len(ls.knownSites) >= maxKnownSites {
		clear(ls.knownSites)
	}
	ls.knownSites[key] = name
}

// siteName returns the name of the site of a thread. Threads with different limits have different
// unknown sites. Without such a limit, a thread whose site is not known is a site of its own.
func (ls *limits) siteName(t *thread) (name string, unknown bool) {
	if name = ls.knownSites[t.key]; name != "" {
		return name, false
	}
	if most := cmp.Or(t.params.Cluster.SiteMax, t.params.SiteMax); most > 0 {
		return "/" + strconv.Itoa(most), true // no reported name has this form
	}
	return "/" + t.key.host, false
}

// sitePart is the part of a limit that is for one site; 0: no limit. If the limit is 1, both parts
// are 1.
func sitePart(most int, unknown bool) int {
	quarter := min(most, max(1, most/4))
	if unknown {
		return quarter
	}
	return max(quarter, most-quarter)
}

// moveToSite moves a thread to the site that has become known. A thread of the unknown site must
// wait until the sessions that it has there have room.
func (ls *limits) moveToSite(t *thread) {
	x := t.shaping
	if !x.site.unknown || t.busy() == 0 || t.busy() <= ls.roomAtSite(t) {
		ls.setSite(t)
		return
	}
	if !x.moves {
		x.moves = true
		ls.moving = append(ls.moving, t)
	}
	name, unknown := ls.siteName(t)
	ls.useSiteShare(&x.shares[ofNextClusterSite], t, name, sitePart(t.params.Cluster.SiteMax, unknown))
}

// useSiteShare gives a thread a share of the clustersitemax of a site; none if most is 0.
func (ls *limits) useSiteShare(at *sharing, t *thread, name string, most int) {
	full := t.key.channel + "/" + name
	ls.s.cluster.useShare(at, ClusterLimit{"clustersitemax", t.key.channel, name}, most, func() {
		for _, t := range slices.Clone(ls.moving) {
			if name, _ := ls.siteName(t); t.key.channel+"/"+name == full {
				ls.moveToSite(t)
				ls.s.threads.updateThread(t)
			}
		}
		if s := ls.sites[full]; s != nil {
			ls.wake(&s.sessions)
		}
	})
}

// roomAtSite is how many more sessions the site of a thread may have. The thread need not be there.
func (ls *limits) roomAtSite(t *thread) int {
	name, unknown := ls.siteName(t)
	b, busy := bounds{most: sitePart(t.params.SiteMax, unknown)}, 0
	if t.params.Cluster.SiteMax > 0 {
		b.share = cmp.Or(ls.s.cluster.shares[ClusterLimit{"clustersitemax", t.key.channel, name}], new(clusterShare))
	}
	if s := ls.sites[t.key.channel+"/"+name]; s != nil {
		busy = s.sessions.Busy
	}
	return ls.allow(&b, busy).Room()
}

// setSite puts a thread into its site, if its parameters limit the site.
func (ls *limits) setSite(t *thread) {
	p := t.params
	ls.leaveSite(t)
	if p.SiteMax == 0 && p.Rates.Site.Recipients == 0 && p.Cluster.SiteMax == 0 {
		return
	}
	x := ls.obtainShaping(t)
	name, unknown := ls.siteName(t)
	full := t.key.channel + "/" + name
	s := ls.sites[full]
	if s == nil {
		s = &site{name: full, unknown: unknown}
		ls.sites[full] = s
	}
	s.threads++
	s.sessions.Busy += t.busy()
	x.site = s
	wake := func() { ls.wake(&s.sessions) }
	if !unknown { // the threads of the unknown site would wait for each other's tokens
		ls.useRate(&x.toSite.rate, "siterate "+full, p.Rates.Site, p.Rates.Burst, wake)
	}
	ls.useSiteShare(&x.shares[ofClusterSiteMax], t, name, sitePart(p.Cluster.SiteMax, unknown))
	x.toSite = link{ofSite, &s.sessions, bounds{sitePart(p.SiteMax, unknown), x.toSite.rate, x.shares[ofClusterSiteMax].clusterShare, t.ring}}
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
	if x.moves {
		x.moves = false
		ls.moving = store.Delete(ls.moving, slices.Index(ls.moving, t))
		ls.s.cluster.useShare(&x.shares[ofNextClusterSite], ClusterLimit{}, 0, nil)
	}
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

// movesToSite reports whether the thread waits to be moved.
func (t *thread) movesToSite() bool { return t.shaping != nil && t.shaping.moves }

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
