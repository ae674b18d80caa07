package scheduler

import (
	"cmp"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
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
	forks        limit.Limit[*ring] // nothing is busy there; forkRate has the tokens
	forkRate     *bucket            // of option -R; nil: no limit
	rates        map[string]*bucket // by name
	sites        map[string]*site
	knownSites   map[threadKey]string // as agents have reported them
	turns        limit.Turns          // of those who wait at limits
	channels     map[string]*channel
	channelOrder []*channel // in the order in which they were made; none is dropped
}

// link is what a limit allows a thread, or all threads of a ring.
type link struct {
	limit.Link
	rate     *bucket             // that has the tokens; nil: none
	reserved int                 // tokens for which an agent is being started
	at       *limit.Limit[*ring] // where a ring waits for more; nil: it tries again when one of its own sessions or agents ends
}

// The kinds of limits. Each thread has a link to one limit of each kind. The first ones are on
// sessions, the others on processes.
const (
	ofSite             = iota // sitemax, siterate, clustersitemax
	ofThread                  // maxthr and the window, rate, clusterrate, clustermax
	ofRing                    // maxring
	ofChannel                 // maxchannel, channelrate
	ofAllProcesses            // maxta
	ofChannelProcesses        // maxchannel
	ofRingProcesses           // maxring
	ofForks                   // option -R
	allKinds
)

// kinds has for each kind the link of a thread in a ring, and what due mail waits for if it
// refuses. The thread is nil if a ring asks for all its threads.
var kinds = [allKinds]struct {
	link  func(*limits, *ring, *thread) link
	waits [4]view.Wait // by limit.Refusal
}{
	ofSite:             {(*limits).siteLink, [4]view.Wait{limit.NoToken: view.WaitSiteRate, limit.Full: view.WaitSite, limit.NoShare: view.WaitClusterSite}},
	ofThread:           {(*limits).threadLink, [4]view.Wait{limit.NoToken: view.WaitRate, limit.Full: view.WaitThread, limit.NoShare: view.WaitClusterMax}},
	ofRing:             {(*limits).ringLink, [4]view.Wait{limit.Full: view.WaitRing}},
	ofChannel:          {(*limits).channelLink, [4]view.Wait{limit.NoToken: view.WaitChannelRate, limit.Full: view.WaitChannel}},
	ofAllProcesses:     {(*limits).allProcesses, [4]view.Wait{limit.Full: view.WaitTA}},
	ofChannelProcesses: {(*limits).channelProcesses, [4]view.Wait{limit.Full: view.WaitChannel}},
	ofRingProcesses:    {(*limits).ringProcesses, [4]view.Wait{limit.Full: view.WaitRing}},
	ofForks:            {(*limits).forkLink, [4]view.Wait{limit.NoToken: view.WaitForks}},
}

func (ls *limits) siteLink(_ *ring, t *thread) link {
	x := t.shaping
	if x == nil || x.site == nil {
		return link{Link: limit.Open()}
	}
	l := link{Link: x.site.sessions.Link(t.params.SiteMax), rate: x.siteRate}
	l.Tokens = ls.tokensOf(x.siteRate)
	if c := x.shares[ofClusterSiteMax].clusterShare; c != nil {
		l.Share = c.sessions
	}
	return l
}

func (ls *limits) threadLink(_ *ring, t *thread) link { return link{Link: t.link()} }

// link is what the thread's own limits allow it.
func (t *thread) link() limit.Link {
	l := limit.Link{Busy: t.busy(), Most: t.windowSize(), Share: limit.Unlimited, Tokens: limit.Unlimited}
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

func (ls *limits) ringLink(r *ring, _ *thread) link {
	return link{Link: r.sessions.Link(ls.maxRing(r))}
}

func (ls *limits) channelLink(r *ring, _ *thread) link {
	l := link{Link: r.channel.sessions.Link(ls.maxChannel(r)), rate: r.channelRate, reserved: r.channel.expected, at: &r.channel.sessions}
	l.Tokens = ls.tokensOf(r.channelRate)
	return l
}

func (ls *limits) allProcesses(r *ring, _ *thread) link {
	return link{Link: ls.processes.Link(ls.maxTA(r)), at: &ls.processes}
}

func (ls *limits) channelProcesses(r *ring, _ *thread) link {
	return link{Link: r.channel.processes.Link(ls.maxChannel(r)), at: &r.channel.processes}
}

func (ls *limits) ringProcesses(r *ring, _ *thread) link {
	return link{Link: r.processes.Link(ls.maxRing(r))}
}

func (ls *limits) forkLink(*ring, *thread) link {
	l := link{Link: limit.Open(), rate: ls.forkRate, at: &ls.forks}
	l.Tokens = ls.tokensOf(ls.forkRate)
	return l
}

// maxTA is the limit on processes that applies to the ring; 0: none.
func (ls *limits) maxTA(r *ring) int { return cmp.Or(r.params.MaxTA, ls.s.rules.config.MaxAgents) }

// maxChannel is the limit on the busy sessions, and on the processes, of the
// ring's channel; 0: none.
func (ls *limits) maxChannel(r *ring) int { return cmp.Or(r.params.MaxChannel, ls.maxTA(r)) }

// maxRing is the limit on the busy sessions, and on the processes, of the ring;
// 0: none.
func (ls *limits) maxRing(r *ring) int { return cmp.Or(r.params.MaxRing, ls.maxTA(r)) }

// refusal returns the first kind of those from one to another that refuses n more, and why; None:
// none does. With n = 0, that is whether what is busy may be given more to do.
func (ls *limits) refusal(r *ring, t *thread, from, to, n int) (at int, why limit.Refusal) {
	for at := from; at <= to; at++ {
		if why := kinds[at].link(ls, r, t).Refusal(n); why != limit.None {
			return at, why
		}
	}
	return 0, limit.None
}

// roomOf is how many more sessions a ring may have, as far as all its threads have the same limits.
func (ls *limits) roomOf(r *ring) int {
	return min(ls.ringLink(r, nil).Room(), ls.channelLink(r, nil).Room())
}

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
	_, why := ls.refusal(t.ring, t, ofSite, ofChannel, n)
	return why == limit.None && !t.waitsAtSite()
}

// wait makes a ring wait at the limit of a kind that refuses it.
func (ls *limits) wait(r *ring, kind int) {
	l := kinds[kind].link(ls, r, nil)
	if l.at == nil {
		r.place.Leave()
		return
	}
	ls.planToken(l.rate, l.reserved)
	l.at.Join(&r.place, limit.Key{Most: l.Most, Group: l.rate}, &ls.turns)
}

// wake lets rings try again that wait at a limit of a kind. A token for which an agent is being
// started is no longer free.
func (ls *limits) wake(kind int, at *limit.Limit[*ring]) {
	if at.Len() == 0 {
		return
	}
	at.Wake(func(r *ring) int {
		l := kinds[kind].link(ls, r, nil)
		ls.planToken(l.rate, l.reserved)
		return min(l.Room(), l.Tokens-l.reserved)
	}, func(r *ring) bool {
		ls.s.rings.markDirty(r)
		return true
	})
}

// wakeSessions lets rings try again that wait for a session, or a token, of a channel.
func (ls *limits) wakeSessions(c *channel) { ls.wake(ofChannel, &c.sessions) }

// wakeProcesses lets rings try again that wait for a process of a channel, or of all.
func (ls *limits) wakeProcesses(c *channel) {
	ls.wake(ofChannelProcesses, &c.processes)
	ls.wake(ofAllProcesses, &ls.processes)
	ls.wake(ofForks, &ls.forks)
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
	n, r := ls.s.rules.config.ForkRate, rule.Rate{}
	if n > 0 {
		r = rule.Rate{Recipients: n/2 + 1, Span: time.Second}
	}
	ls.useRate(&ls.forkRate, "forks", r, (n+1)/2, func() { ls.wake(ofForks, &ls.forks) })
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
	return r.wants > 0 && ls.ringLink(r, nil).Room() > 0 && ls.tokensOf(r.channelRate) > 0
}

// othersWait reports whether others wait for what a session of the thread occupies: rings for a session
// or a process, or threads of its site.
func (ls *limits) othersWait(r *ring, t *thread) bool {
	return r.channel.sessions.Len() > 0 || r.channel.processes.Len() > 0 || ls.processes.Len() > 0 ||
		t.shaping != nil && t.shaping.site != nil && t.shaping.site.sessions.Len() > 0
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
