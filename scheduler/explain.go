package scheduler

import (
	"iter"
	"slices"
	"time"
)

// Explain: which clauses and limits apply to a channel and host, and what its
// mail waits for.

// Explanation says how the mail for a channel and host is treated and what it
// waits for. It can be made for any channel and host, even without mail.
type Explanation struct {
	Channel, Host string
	Held          bool
	Thread        *ThreadView // nil: there is no mail
	Ring          *RingView   // nil: there is no ring that mail would join
	// Clauses that match, in order. They belong to the Config.
	Clauses []*Clause
	// Settings in force, in the order in which the clauses first name them. If
	// one is set twice, the later one is in force. Parameters that are not here
	// have their defaults.
	Settings []Setting
	Params   *Params // in force
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
	// Ordered counts the vertices with agents for which an order waits, by its verb.
	Ordered map[Verb]int
	// TakenBack counts the vertices that were taken back from an agent (Recall) which has
	// not come to them yet.
	TakenBack int
	// Told is what another node has said about the destination; nil: nothing, or this
	// node has found that it is dead.
	Told *ToldView
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
	TokenNext   Upcoming = "token" // of a rate
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
	e := &Explanation{Channel: channel, Host: host, Held: s.held[key]}
	e.Told = s.viewTold(key)
	e.Clauses = match(s.config.Clauses, channel, host)
	e.Settings = inForce(e.Clauses)
	e.Params = fold(s.config.Defaults, e.Clauses)
	name, _ := s.ringName(key, e.Clauses, e.Params)
	r, t := s.rings[name], s.threads[key]
	if t != nil {
		r = t.ring
		e.Thread = s.viewThread(t)
		e.Wait = e.Thread.Wait
		e.Next, e.NextAt = s.upcoming(t)
		if why, until := s.gate(t); why != NoWait && until != never {
			e.GateUntil = until.time()
		}
		if v := s.nextVertex(t); v != nil {
			w := Walk{s: s}
			e.Vertex = w.visitVertex(v).Vertex
			e.Vertex.Position = s.position(v, maxExplained)
		}
		e.Rules = s.rules(t, e.Vertex)
		s.explainOrders(e, t)
	}
	if r != nil {
		e.Ring = s.viewRing(r)
	}
	e.Limits = s.limits(e.Params, channel, r, t)
	return e
}

// explainOrders counts the orders that wait for agents of a thread.
func (s *Scheduler) explainOrders(e *Explanation, t *thread) {
	for i, a := range t.agents {
		if slices.Contains(t.agents[:i], a) {
			continue
		}
		for j := range a.lines {
			switch l := &a.lines[j]; {
			case l.thread != t:
			case l.ended():
				if m := s.message(l.id); m != nil && l.recalled {
					e.TakenBack += s.takenBack(m, t)
				}
			default:
				e.countOrdered(s.orderOn(l.vertex))
			}
		}
	}
}

// countOrdered counts a vertex for which an order waits; 0: none does.
func (e *Explanation) countOrdered(verb Verb) {
	if verb == 0 {
		return
	}
	if e.Ordered == nil {
		e.Ordered = make(map[Verb]int)
	}
	e.Ordered[verb]++
}

// takenBack counts the vertices of a message in a thread that were taken back.
func (s *Scheduler) takenBack(m *message, t *thread) (n int) {
	s.eachVertex(m, func(v *vertex) {
		if v.state != 0 && s.threadOf(v) == t && s.isTakenBack(v) {
			n++
		}
	})
	return n
}

// inForce returns the settings that result from matched clauses. nice and
// priority set the same parameter.
func inForce(clauses []*Clause) []Setting {
	var settings []Setting
	for _, c := range clauses {
		for _, set := range c.Settings {
			i := slices.IndexFunc(settings, func(before Setting) bool { return sameField(before.Name, set.Name) })
			if i < 0 {
				settings = append(settings, set)
			} else {
				settings[i] = set
			}
		}
	}
	return settings
}

func sameField(a, b string) bool {
	isPriority := func(name string) bool { return name == "nice" || name == "priority" }
	return a == b || isPriority(a) && isPriority(b)
}

// limits returns the limits on a thread. Ring and thread may be nil.
func (s *Scheduler) limits(p *Params, channel string, r *ring, t *thread) []Limit {
	would := &ring{params: p}
	busy := Limit{Name: "maxchannel", Most: s.maxChannel(would)}
	if c := s.channels[channel]; c != nil {
		busy.Used, busy.Agents = c.busy, c.procs
	}
	busy.Setting = limitSetting("maxchannel", p.MaxChannel, p)
	limits := []Limit{
		{Name: "maxta", Used: len(s.agents), Most: s.maxTA(would), Setting: limitSetting("maxta", p.MaxTA, p)},
		busy,
		{Name: "maxring", Most: s.maxRing(would), Setting: limitSetting("maxring", p.MaxRing, p)},
		{Name: "maxthr", Most: max(1, p.MaxThr), Setting: "maxthr"},
		{Name: "window", Most: new(window).sessions(p)},
	}
	if r != nil {
		limits[2].Used, limits[2].Agents = r.busy, r.procs
	}
	if t != nil {
		b := s.blocksOf(t)
		limits[0].Blocks, limits[1].Blocks, limits[2].Blocks = b.processes, b.channel, b.ring
		limits[3].Used, limits[3].Blocks = t.busy, b.thread && t.windowWait() == WaitThread
		limits[4].Used, limits[4].Most, limits[4].Blocks = t.busy, t.windowSize(), b.thread
	}
	if s.config.Cluster && p.ClusterMax > 0 {
		share := Limit{Name: "clustermax", Setting: "clustermax"}
		if t != nil && t.shaping != nil && t.shaping.share != nil {
			share.Used, share.Most, share.Blocks = t.busy, t.shaping.share.sessions, s.blocksOf(t).cluster
			share.Of = t.shaping.share.id
		}
		limits = append(limits, share)
	}
	return append(limits, s.siteLimits(p, t)...)
}

// siteLimits returns the limits on the site of a thread. Thread may be nil.
func (s *Scheduler) siteLimits(p *Params, t *thread) (limits []Limit) {
	var st *site
	if t != nil && t.shaping != nil {
		st = t.shaping.site
	}
	blocked := NoWait
	if st != nil {
		blocked = s.blocksOf(t).gate
	}
	if p.SiteMax > 0 {
		l := Limit{Name: "sitemax", Most: p.SiteMax, Setting: "sitemax", Blocks: blocked == WaitSite}
		if st != nil {
			l.Used = st.busy
		}
		limits = append(limits, l)
	}
	if s.config.Cluster && p.ClusterSiteMax > 0 {
		l := Limit{Name: "clustersitemax", Setting: "clustersitemax", Blocks: blocked == WaitClusterSite}
		if st != nil && st.share != nil {
			l.Used, l.Most, l.Of = st.busy, st.share.sessions, st.share.id
		}
		limits = append(limits, l)
	}
	return limits
}

// limitSetting returns the keyword that a limit comes from.
func limitSetting(name string, value int, p *Params) string {
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
	if t.held {
		return NothingNext, time.Time{}
	}
	next, at := NothingNext, never
	consider := func(what Upcoming, when instant) {
		if when < at {
			next, at = what, when
		}
	}
	retry := t.wakeTimes.earliest()
	if till := t.suspensionEnd(); till != 0 && (t.states[due] > 0 || retry <= till) {
		consider(ResumeNext, till)
	} else {
		consider(RetryNext, retry)
	}
	if p := t.params; p.Expiry != 0 && t.vertices.len > 0 {
		primary, secondary := p.expiryOf(t.modTimes.earliest())
		if primary <= s.now {
			primary = secondary
		}
		if primary > s.now {
			consider(ExpiryNext, primary)
		}
	}
	switch s.waitOf(t) {
	case WaitRate, WaitRingRate, WaitChannelRate, WaitClusterRate, WaitSiteRate:
		_, until := s.gate(t)
		consider(TokenNext, until)
	case WaitStart:
		consider(StartNext, s.startFailures[t.ring.clause].until)
	case WaitForks:
		consider(StartNext, s.forks.next())
	case WaitSpool:
		consider(ProbeNext, s.store.next())
	}
	if at == never {
		return NothingNext, time.Time{}
	}
	return next, at.time()
}

// Wait is why due mail of a thread is not fed now.
type Wait string

const (
	NoWait       Wait = ""               // nothing is due, or it is being fed
	WaitTA       Wait = "maxta"          // the limit on processes
	WaitChannel  Wait = "maxchannel"     // the limit of the channel
	WaitRing     Wait = "maxring"        // the limit of the ring
	WaitThread   Wait = "maxthr"         // the limit of the thread
	WaitWindow   Wait = "window"         // it is below maxthr: reduced by failures, or not grown yet
	WaitProbe    Wait = "probe"          // one session tries a dead destination
	WaitMessage  Wait = "msgsessions"    // the message has as many sessions as it may have
	WaitFrozen   Wait = "frozen"         // option -F
	WaitForks    Wait = "fork rate"      // option -R
	WaitCommand  Wait = "no command"     // no clause gives one
	WaitStart    Wait = "agents fail"    // they cannot be started, or die at once
	WaitHeld     Wait = "held"           // HeldThread
	WaitTrigger  Wait = "queueonly"      // an ETRN is needed
	WaitSpool    Wait = "spool down"     // it cannot be written
	WaitSuspend  Wait = "suspended"      // the destination has failed
	WaitSelect   Wait = "not selected"   // option -p
	WaitStopping Wait = "stopping"       // the scheduler stops
	WaitMemory   Wait = "memory"         // as much is in memory as active-limit or recipient-limit allows
	WaitAgent    Wait = "agent expected" // one is starting, or will be free

	WaitOrder       Wait = "suspended by order" // SuspendedThread
	WaitRule        Wait = "reply rule"         // suspended by one
	WaitRate        Wait = "rate"               // the thread has no token
	WaitSite        Wait = "sitemax"            // its site has as many sessions as it may have
	WaitSiteRate    Wait = "siterate"           // its site has no token
	WaitRingRate    Wait = "ringrate"           // the ring has no token
	WaitChannelRate Wait = "channelrate"        // the channel has no token
	WaitClusterMax  Wait = "clustermax"         // this node's share of it is used
	WaitClusterSite Wait = "clustersitemax"     // this node's share of the site's limit is used
	WaitClusterRate Wait = "clusterrate"        // no token has been drawn from it
	WaitProbeRight  Wait = "probe right"        // the store says which node tries a dead destination
)

// Rules that decide which mail is fed when a session is free. They are in
// Explanation.Rules, but they are not reasons why a thread waits.
const (
	WaitRetry   Wait = "retry"    // no vertex is due yet
	WaitShare   Wait = "share"    // other shares have their turns first
	WaitQuantum Wait = "quantum"  // the thread has used its quantum in this round
	WaitJobs    Wait = "job list" // other jobs of the share are before it
)

// waitOf returns why due mail of a thread is not fed now. It is the first
// reason found; when an administrator removes it, there may be another. A held
// thread has its reason even if no mail is due.
func (s *Scheduler) waitOf(t *thread) Wait {
	for wait := range s.waits(t) {
		return wait
	}
	return NoWait
}

// waits yields the reasons why due mail of a thread is not fed now. It leaves out
// reasons that can be determined only when others do not apply.
func (s *Scheduler) waits(t *thread) iter.Seq[Wait] {
	return func(yield func(Wait) bool) {
		if t.held && !yield(WaitHeld) || t.states[due] == 0 {
			return
		}
		if t.ring == nil {
			yield(WaitCommand)
			return
		}
		suspended := t.shaping != nil && t.shaping.suspended
		order := suspended && t.shaping.order != nil
		for _, reason := range [...]struct {
			wait  Wait
			holds bool
		}{
			{WaitSelect, !t.selected}, {WaitOrder, order}, {WaitRule, suspended && !order}, {WaitSuspend, t.suspendedUntil != 0},
			{WaitTrigger, t.params.QueueOnly && !t.running}, {WaitStopping, s.stop.begun},
			{WaitSpool, s.spoolDown}, {WaitFrozen, s.config.Frozen},
		} {
			if reason.holds && !yield(reason.wait) {
				return
			}
		}
		if !t.mayFeed() || s.halted() {
			return
		}
		b := s.blocksOf(t)
		expected := t.ring.expected > 0
		if t.queue().len() == 0 { // all of it is on record
			yield(WaitMemory)
			return
		}
		message := t.queue().pickable() == 0
		for _, reason := range [...]struct {
			wait  Wait
			holds bool
		}{
			{b.gate, b.gate != NoWait}, {WaitClusterMax, b.cluster}, {t.windowWait(), b.thread}, {WaitRing, b.ring}, {WaitChannel, b.channel},
			{WaitMessage, message}, {WaitAgent, expected}, {WaitStart, b.start && !expected},
			{WaitTA, b.processes && !expected}, {WaitForks, b.forks && !expected},
			{WaitAgent, !expected && !message && b == blocks{}},
		} {
			if reason.holds && !yield(reason.wait) {
				return
			}
		}
	}
}

// rules returns all rules that keep the next vertex of a thread from being fed.
func (s *Scheduler) rules(t *thread, next *VertexView) []Wait {
	rules := slices.Collect(s.waits(t))
	switch {
	case next == nil && t.states[due] == 0 && t.states[waiting] > 0:
		rules = append(rules, WaitRetry)
	case next == nil || next.Position == nil || !t.mayFeed():
	default:
		p := next.Position
		if next.Wait == WaitMessage && !slices.Contains(rules, WaitMessage) {
			rules = append(rules, WaitMessage)
		}
		if p.SharesBefore > 0 {
			rules = append(rules, WaitShare)
		}
		if p.QuantumUsed && p.PicksBefore > 0 {
			rules = append(rules, WaitQuantum)
		} else if p.JobsBefore > 0 {
			rules = append(rules, WaitJobs)
		}
	}
	return rules
}

// windowWait returns why a thread that has as many sessions as it may have is
// not given more.
func (t *thread) windowWait() Wait {
	switch {
	case t.window.dead:
		return WaitProbe
	case t.windowSize() < max(1, t.params.MaxThr):
		return WaitWindow
	}
	return WaitThread
}

// blocks says which limits keep due mail of a thread from being fed.
type blocks struct {
	thread, ring, channel, processes bool
	start, forks                     bool // agents are started later
	cluster                          bool // no share of clustermax is left
	gate                             Wait // NoWait: it is open
}

func (s *Scheduler) blocksOf(t *thread) blocks {
	r := t.ring
	if r == nil || t.states[due] == 0 || !t.mayFeed() || s.halted() {
		return blocks{}
	}
	// One more process is needed if no agent has a free session.
	full := r.sessionFor(t) == nil && r.expected == 0
	failures := s.startFailures[r.clause]
	gate, _ := s.gate(t)
	return blocks{
		gate:      gate,
		cluster:   t.roomInShare() <= 0,
		thread:    t.roomInWindow() <= 0,
		ring:      !below(r.busy, s.maxRing(r)) || full && !below(r.procs, s.maxRing(r)),
		channel:   !below(r.channel.busy, s.maxChannel(r)) || full && !below(r.channel.procs, s.maxChannel(r)),
		processes: full && !below(len(s.agents), s.maxTA(r)),
		start:     full && failures != nil && failures.until > s.now,
		forks:     full && r.limitQueue == s.forks.queue,
	}
}
