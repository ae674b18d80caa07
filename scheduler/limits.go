package scheduler

import (
	"cmp"

	"zsched/scheduler/limit"
	"zsched/scheduler/view"
)

// Limits: which limits there are, and how the threads and rings see them. Package limit
// says how they work.
//
// A thread is fed if all its links allow one more session. Each thread is asked for the
// window and the site, and closed if they refuse; a ring is asked for the others, for all
// its threads, which may be very many. A ring starts an agent if the links of processes
// allow one more. What the sessions of one message may take is in msgsessions.go.

// limits has the limits on sessions and processes, the rates, and the sites that threads share.
type limits struct {
	s *Scheduler

	processes    limit.Limit[*ring] // of all channels
	rates        map[string]*bucket // by name
	sites        map[string]*site
	knownSites   map[threadKey]string // as agents have reported them
	turns        limit.Turns          // of those who wait at limits
	channels     map[string]*channel
	channelOrder []*channel // in the order in which they were made; none is dropped
}

// The links of a thread to the limits on sessions. Queries name them in this order.
const (
	ofSite    = iota // sitemax, siterate, clustersitemax
	ofThread         // maxthr and the window, rate, clusterrate, clustermax
	ofRing           // maxring
	ofChannel        // maxchannel, channelrate
	sessionLinks
)

// The links of a ring to the limits on processes.
const (
	ofAllProcesses     = iota // maxta
	ofChannelProcesses        // maxchannel
	ofRingProcesses           // maxring
	processLinks
)

// sessionWaits says what due mail waits for if a link refuses a session. The window of a
// thread has several names (thread.windowWait).
var sessionWaits = [sessionLinks][4]view.Wait{
	ofSite:    {limit.NoToken: view.WaitSiteRate, limit.Full: view.WaitSite, limit.NoShare: view.WaitClusterSite},
	ofThread:  {limit.NoToken: view.WaitRate, limit.Full: view.WaitThread, limit.NoShare: view.WaitClusterMax},
	ofRing:    {limit.Full: view.WaitRing},
	ofChannel: {limit.NoToken: view.WaitChannelRate, limit.Full: view.WaitChannel},
}

// links returns the links of a thread that has a ring.
func (ls *limits) links(t *thread) [sessionLinks]limit.Link {
	ring := ls.ringLinks(t.ring)
	return [...]limit.Link{ofSite: ls.siteLink(t), ofThread: t.link(), ofRing: ring[0], ofChannel: ring[1]}
}

// ringLinks returns the last two of them, which all threads of a ring have in common.
func (ls *limits) ringLinks(r *ring) [2]limit.Link {
	channel := r.channel.sessions.Link(ls.maxChannel(r))
	channel.Tokens = ls.tokensOf(r.channelRate)
	return [...]limit.Link{r.sessions.Link(ls.maxRing(r)), channel}
}

// link is what the thread's own limits allow it.
func (t *thread) link() limit.Link {
	l := limit.Link{Busy: t.busy, Most: t.windowSize(), Share: limit.Unlimited, Tokens: limit.Unlimited}
	if t.params.WakeupRestartOnly && t.sessionCap > 0 {
		l.Most = min(l.Most, t.sessionCap)
	}
	if x := t.shaping; x != nil {
		l.Tokens = x.tokens
		if c := x.shares[ofClusterMax].clusterShare; c != nil {
			l.Share = c.sessions
		}
	}
	return l
}

// siteLink is what the site of the thread allows it, according to the thread's own
// parameters.
func (ls *limits) siteLink(t *thread) limit.Link {
	x := t.shaping
	if x == nil || x.site == nil {
		return limit.Open()
	}
	l := x.site.sessions.Link(t.params.SiteMax)
	l.Tokens = ls.tokensOf(x.siteRate)
	if c := x.shares[ofClusterSiteMax].clusterShare; c != nil {
		l.Share = c.sessions
	}
	return l
}

// processLinks returns what limits the processes of a ring.
func (ls *limits) processLinks(r *ring) [processLinks]limit.Link {
	return [...]limit.Link{
		ofAllProcesses:     ls.processes.Link(ls.maxTA(r)),
		ofChannelProcesses: r.channel.processes.Link(ls.maxChannel(r)),
		ofRingProcesses:    r.processes.Link(ls.maxRing(r)),
	}
}

// maxTA is the limit on processes that applies to the ring; 0: none.
func (ls *limits) maxTA(r *ring) int { return cmp.Or(r.params.MaxTA, ls.s.rules.config.MaxAgents) }

// maxChannel is the limit on the busy sessions, and on the processes, of the
// ring's channel; 0: none.
func (ls *limits) maxChannel(r *ring) int { return cmp.Or(r.params.MaxChannel, ls.maxTA(r)) }

// maxRing is the limit on the busy sessions, and on the processes, of the ring;
// 0: none.
func (ls *limits) maxRing(r *ring) int { return cmp.Or(r.params.MaxRing, ls.maxTA(r)) }

// freeSlots is how many more sessions the thread may take as far as its own limits go. A
// thread that waits at its site may take none.
func (t *thread) freeSlots() int {
	if t.waitsAtSite() {
		return 0
	}
	return t.link().Free()
}

// mayAddSessions reports whether all limits allow the thread n more sessions. With n = 0, that is
// whether one of its sessions may be given another job line.
func (ls *limits) mayAddSessions(t *thread, n int) bool {
	links := ls.links(t)
	_, why := limit.Chain(links[:]).Refusal(n)
	return why == limit.None && !t.waitsAtSite()
}

// waitAtChannel makes a ring wait for a session, or a token, of its channel.
func (ls *limits) waitAtChannel(r *ring) {
	key := limit.Key{Most: ls.maxChannel(r)}
	if b := r.channelRate; b != nil {
		key.Group = b
		ls.planToken(b, r.channel.expected)
	}
	r.channel.sessions.Join(&r.place, key, &ls.turns)
}

// wakeSessions lets rings try again that wait for a session, or a token, of a channel. A
// token for which an agent is being started is no longer free.
func (ls *limits) wakeSessions(c *channel) {
	if c.sessions.Len() == 0 {
		return
	}
	c.sessions.Wake(func(r *ring) int {
		l := ls.ringLinks(r)[1]
		if r.channelRate != nil {
			l.Tokens -= c.expected
			ls.planToken(r.channelRate, c.expected)
		}
		return l.Free()
	}, ls.wakeRing)
}

// wakeProcesses lets rings try again that wait for a process of a channel, or of all.
func (ls *limits) wakeProcesses(c *channel) {
	if c.processes.Len() > 0 {
		c.processes.Wake(func(r *ring) int { return c.processes.Link(ls.maxChannel(r)).Free() }, ls.wakeRing)
	}
	if ls.processes.Len() > 0 {
		ls.processes.Wake(func(r *ring) int { return ls.processes.Link(ls.maxTA(r)).Free() }, ls.wakeRing)
	}
}

func (ls *limits) wakeRing(r *ring) bool {
	ls.s.rings.markDirty(r)
	return true
}

// endWaits ends all waits for sessions and processes, because the limits change, and forgets the
// rings that were found last. The rings keep their turns.
func (ls *limits) endWaits() {
	for _, c := range ls.channelOrder {
		c.latest = nil
		c.sessions.Clear()
		c.processes.Clear()
	}
	ls.processes.Clear()
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
// of all processes, than agents are closing. Then rings without work give up theirs.
func (ls *limits) needProcesses(c *channel) bool {
	return ls.processes.Len() > ls.s.mail.counts.AgentsClosing || c.processes.Len() > c.closing
}

// needsAgents reports whether the ring has work for the agents that it has.
func (ls *limits) needsAgents(r *ring) bool {
	links := ls.ringLinks(r)
	return r.wants > 0 && links[0].Free() > 0 && links[1].Tokens > 0
}

// othersWait reports whether rings wait for a session or a process that one of the channel
// occupies.
func (ls *limits) othersWait(c *channel) bool {
	return c.sessions.Len() > 0 || c.processes.Len() > 0 || ls.processes.Len() > 0
}

// channel has the limits of a channel, and counts what runs there.
type channel struct {
	name      string
	sessions  limit.Limit[*ring]
	processes limit.Limit[*ring] // agents, idle and closing ones included
	closing   int                // agents that are closing; they still count
	// expected is how many sessions its agents should still offer.
	expected int
	// latest is the ring found last among those whose command is the same for
	// all hosts. The next new host probably belongs to it.
	latest *ring

	counts ChannelCounts
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
