package scheduler

import (
	"cmp"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/view"
)

// Limits: which limits there are, and how the threads and rings see them. Package limit
// says how they work.
//
// A thread is fed if all its links allow one more session. Each thread is asked for the
// window and the site, and closed if they refuse; its ring is asked for the others, for all
// its threads, which may be very many. A ring starts an agent if the links to processes
// allow one more. A new limit is a link in setLinks, and its words in waits. What the sessions
// of one message or share may take is in msgsessions.go.

// limits has the limits on sessions and processes, the rates, and the sites that threads share.
type limits struct {
	s *Scheduler

	processes    limit.Limit[bounds] // of all channels
	forks        limit.Limit[bounds] // bounded by the tokens of forkRate alone
	forkRate     *bucket             // of option -R; nil: no limit
	rates        map[string]*bucket  // by name
	sites        map[string]*site
	moving       []*thread            // to their sites (shaping.moves)
	knownSites   map[threadKey]string // as agents have reported them
	turns        limit.Turns          // of those who wait at limits
	channels     map[string]*channel
	channelOrder []*channel // in the order in which they were made; none is dropped
}

// link leads from a thread, or a ring for all its threads, to a limit.
type link struct {
	kind kind
	at   *limit.Limit[bounds]
	bounds
}

// bounds are what bounds a user of a limit.
type bounds struct {
	most  int           // that may be busy; 0: no bound
	rate  *bucket       // that has the tokens; nil: none
	share *clusterShare // of this node; nil: none
	ring  *ring         // of a thread that waits itself: of each ring, one is woken at a time
}

// allow is what the bounds allow now, when so many are busy.
func (ls *limits) allow(b *bounds, busy int) limit.Link {
	l := limit.Link{Busy: busy, Most: b.most, Share: limit.Unlimited, Tokens: ls.tokensOf(b.rate)}
	if b.share != nil {
		l.Share = b.share.sessions
	}
	return l
}

// now is what a link allows now.
func (ls *limits) now(l *link) limit.Link { return ls.allow(&l.bounds, l.at.Busy) }

// kind is a kind of limit. Each thread has a link to one limit of each kind; its ring has all but
// the first two, those on sessions before those on processes.
type kind uint8

const (
	ofSite             kind = iota // sitemax, siterate, clustersitemax
	ofThread                       // maxthr and the window, rate, clusterrate, clustermax
	ofRing                         // maxring
	ofChannel                      // maxchannel, channelrate
	ofAllProcesses                 // maxta
	ofChannelProcesses             // maxchannel
	ofRingProcesses                // maxring
	ofForks                        // option -R
	allKinds
)

// waits has what due mail waits for if a limit of a kind refuses it.
var waits = [allKinds][limit.NoShare + 1]view.Wait{
	ofSite:             {limit.NoToken: view.WaitSiteRate, limit.Full: view.WaitSite, limit.NoShare: view.WaitClusterSite},
	ofThread:           {limit.NoToken: view.WaitRate, limit.Full: view.WaitThread, limit.NoShare: view.WaitClusterMax},
	ofRing:             {limit.Full: view.WaitRing},
	ofChannel:          {limit.NoToken: view.WaitChannelRate, limit.Full: view.WaitChannel},
	ofAllProcesses:     {limit.Full: view.WaitTA},
	ofChannelProcesses: {limit.Full: view.WaitChannel},
	ofRingProcesses:    {limit.Full: view.WaitRing},
	ofForks:            {limit.NoToken: view.WaitForks},
}

// ringLinks are the links of a ring, those of all its threads.
type ringLinks [allKinds - ofRing]link

// setLinks links a ring to the limits that its parameters ask for.
func (ls *limits) setLinks(r *ring) {
	maxTA := cmp.Or(r.params.MaxTA, ls.s.rules.config.MaxAgents)
	maxChannel, maxRing := cmp.Or(r.params.MaxChannel, maxTA), cmp.Or(r.params.MaxRing, maxTA)
	r.links = ringLinks{
		{kind: ofRing, at: &r.sessions, bounds: bounds{most: maxRing}},
		{kind: ofChannel, at: &r.channel.sessions, bounds: bounds{most: maxChannel, rate: r.channelRate}},
		{kind: ofAllProcesses, at: &ls.processes, bounds: bounds{most: maxTA}},
		{kind: ofChannelProcesses, at: &r.channel.processes, bounds: bounds{most: maxChannel}},
		{kind: ofRingProcesses, at: &r.processes, bounds: bounds{most: maxRing}},
		{kind: ofForks, at: &ls.forks, bounds: bounds{rate: ls.forkRate}},
	}
}

// of returns the link of one kind.
func (ll *ringLinks) of(k kind) *link { return &ll[k-ofRing] }

// onSessions are the links that a new session needs.
func (ll *ringLinks) onSessions() []link { return ll[:ofAllProcesses-ofRing] }

// onProcesses are the links that a new agent needs.
func (ll *ringLinks) onProcesses() []link { return ll[ofAllProcesses-ofRing:] }

// refusal returns the first link that refuses n more, and why; nil: none does. With n = 0, that is
// whether what is busy may be given more to do.
func (ls *limits) refusal(links []link, n int) (*link, limit.Refusal) {
	for i := range links {
		if why := ls.now(&links[i]).Refusal(n); why != limit.None {
			return &links[i], why
		}
	}
	return nil, limit.None
}

// threadRefusal returns which limit refuses a thread n more sessions, and why.
func (ls *limits) threadRefusal(t *thread, n int) (kind, limit.Refusal) {
	if l := t.siteLink(); l != nil {
		if t.movesToSite() {
			return ofSite, limit.Full
		}
		if why := ls.now(l).Refusal(n); why != limit.None {
			return ofSite, why
		}
	}
	if why := ls.own(t).Refusal(n); why != limit.None {
		return ofThread, why
	}
	if l, why := ls.refusal(t.ring.links.onSessions(), n); l != nil {
		return l.kind, why
	}
	return 0, limit.None
}

// own is what the thread's own limits allow it.
func (ls *limits) own(t *thread) limit.Link {
	l := limit.Open()
	if x := t.shaping; x != nil {
		l = ls.allow(&bounds{rate: x.rate, share: x.shares[ofClusterMax].clusterShare}, 0)
		l.Tokens = min(l.Tokens, ls.clusterTokens(x))
	}
	l.Busy, l.Most = t.busy(), t.windowSize()
	if t.params.WakeupRestartOnly && t.sessionCap > 0 {
		l.Most = min(l.Most, t.sessionCap)
	}
	return l
}

// roomOf is how many more sessions a ring may have, as far as all its threads have the same limits.
func (ls *limits) roomOf(r *ring) int {
	return min(ls.now(r.links.of(ofRing)).Room(), ls.now(r.links.of(ofChannel)).Room())
}

// sizeOf is how many sessions a ring may have while no other ring has one.
func (ls *limits) sizeOf(r *ring) int {
	ring, channel := r.links.of(ofRing).most, r.links.of(ofChannel).most // 0: unlimited
	return min(cmp.Or(ring, limit.Unlimited), cmp.Or(channel, limit.Unlimited))
}

// freeSlots is how many more sessions the thread may take as far as its own limits go. A
// thread that waits at its site, or is to move to it, may take none.
func (ls *limits) freeSlots(t *thread) int {
	if t.waitsAtSite() || t.movesToSite() {
		return 0
	}
	return ls.own(t).Free()
}

// mayAddSessions reports whether all limits allow the thread n more sessions. With n = 0, that is
// whether one of its sessions may be given another job line.
func (ls *limits) mayAddSessions(t *thread, n int) bool {
	_, why := ls.threadRefusal(t, n)
	return why == limit.None && !t.waitsAtSite()
}

// wait makes a ring, or a thread, wait at a limit that refuses it. A ring does not wait at limits
// of its own: it tries again when one of its sessions or agents ends.
func (ls *limits) wait(p *limit.Place[bounds], l *link) {
	if l.kind == ofRing || l.kind == ofRingProcesses {
		p.Leave()
		return
	}
	ls.planToken(l.rate, 0)
	l.at.Join(p, l.bounds, &ls.turns)
}

// wake lets those try again that wait at a limit, if there is something free for them.
func (ls *limits) wake(at *limit.Limit[bounds]) {
	if at.Len() > 0 { // which most are not; so the compiler can put the test where wake is called
		ls.wakeWaiting(at)
	}
}

func (ls *limits) wakeWaiting(at *limit.Limit[bounds]) {
	at.Wake(func(b bounds) int {
		ls.planToken(b.rate, 0)
		free := ls.allow(&b, at.Busy).Free()
		if b.ring != nil {
			free = min(1, free)
		}
		return free
	})
}

// wakeAll lets those try again that wait at one of the limits.
func (ls *limits) wakeAll(links []link) {
	if ls.turns.Waiting == 0 {
		return
	}
	for i := range links {
		ls.wake(links[i].at)
	}
}

// countBusy counts a session or a process that has begun (n is 1) or ended (-1).
func countBusy(links []link, n int) {
	for i := range links {
		links[i].at.Busy += n
	}
}

// newLimits ends all waits for sessions and processes, because the limits change, and forgets the
// rings that were found last. The rings keep their turns.
func (ls *limits) newLimits() {
	for _, c := range ls.channelOrder {
		c.latest = nil
		c.sessions.Clear()
		c.processes.Clear()
	}
	ls.processes.Clear()
	ls.forks.Clear()
	// Half of them may come at once; with those that follow, no second has more than all.
	n, r := ls.s.rules.config.ForkRate, limit.Rate{}
	if n > 0 {
		r = limit.Rate{Recipients: n/2 + 1, Span: time.Second}
	}
	ls.useRate(&ls.forkRate, "forks", r, (n+1)/2, func() { ls.wake(&ls.forks) })
	for r := ls.s.rings.inOrder.Head; r != nil; r = ls.s.rings.inOrder.Next(r) {
		ls.setLinks(r)
	}
}

// evictIdle closes idle agents if rings that wait at a limit need their
// processes, the longest idle first. It spares agents whose own ring has work
// for them and only waits for a session.
func (ls *limits) evictIdle(c *channel) {
	if !ls.needProcesses(c) {
		return
	}
	for a := ls.s.agents.idleAgents.Head; a != nil; {
		next := a.Next
		if ls.needProcesses(a.ring.channel) && !ls.needsAgents(a.ring) {
			ls.s.agents.closeAgent(a)
		}
		a = next
	}
}

// needProcesses reports whether more rings wait for a process of the channel, or for one
// of all processes, than there are agents that leave soon. Then rings without work give up theirs.
func (ls *limits) needProcesses(c *channel) bool {
	leaving := ls.s.mail.counts.AgentsClosing - ls.s.agents.stop.locked
	return ls.processes.Len() > leaving || c.processes.Len() > c.closing
}

// needsAgents reports whether the ring has work for the agents that it has.
func (ls *limits) needsAgents(r *ring) bool {
	return r.wants > 0 && !r.fair.OnlyAsideShares() && ls.now(r.links.of(ofRing)).Room() > 0 && ls.tokensOf(r.channelRate) > 0
}

// othersWait reports whether others wait for what a session of the thread occupies: rings for a session
// or a process, or threads of its site.
func (ls *limits) othersWait(r *ring, t *thread) bool {
	return r.channel.sessions.Len() > 0 || r.channel.processes.Len() > 0 || ls.processes.Len() > 0 ||
		t.siteLink() != nil && t.siteLink().at.Len() > 0
}

// channel has the limits of a channel, and counts what runs there.
type channel struct {
	name      string
	sessions  limit.Limit[bounds]
	processes limit.Limit[bounds] // agents, idle and closing ones included
	closing   int                 // agents that leave soon; they still count
	// latest is the ring found last among those whose command is the same for
	// all hosts. The next new host probably belongs to it.
	latest *ring
	// asideShares has the rings in which shares are set aside. They may be released when a session
	// of the channel ends.
	asideShares []*ring

	counts view.ChannelCounts
}

// count counts an outcome; state is a word of the statistics log.
func (c *channel) count(state string) {
	switch state {
	case "ok", "ok2", "ok3":
		c.counts.Delivered++
	case "expire":
		c.counts.Expired++
	default:
		c.counts.Failed++
	}
}

func (ls *limits) obtainChannel(name string) *channel {
	c := ls.channels[name]
	if c == nil {
		c = &channel{name: name}
		ls.channels[name] = c
		ls.channelOrder = append(ls.channelOrder, c)
	}
	return c
}
