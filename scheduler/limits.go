package scheduler

import (
	"cmp"

	"zsched/scheduler/limit"
)

// Limits: which limits there are, and how the threads and rings see them. Package limit
// says how they work.
//
// A thread is fed if all its links allow one more session. Each thread is asked for the
// window and the site, and closed if they refuse; a ring is asked for the others, for all
// its threads, which may be very many. A ring starts an agent if the links of processes
// allow one more. What the sessions of one message may take is in msgsessions.go.

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
var sessionWaits = [sessionLinks][4]Wait{
	ofSite:    {limit.NoToken: WaitSiteRate, limit.Full: WaitSite, limit.NoShare: WaitClusterSite},
	ofThread:  {limit.NoToken: WaitRate, limit.Full: WaitThread, limit.NoShare: WaitClusterMax},
	ofRing:    {limit.Full: WaitRing},
	ofChannel: {limit.NoToken: WaitChannelRate, limit.Full: WaitChannel},
}

// links returns the links of a thread that has a ring.
func (d *dispatch) links(t *thread) [sessionLinks]limit.Link {
	ring := d.ringLinks(t.ring)
	return [...]limit.Link{ofSite: d.siteLink(t), ofThread: t.link(), ofRing: ring[0], ofChannel: ring[1]}
}

// ringLinks returns the last two of them, which all threads of a ring have in common.
func (d *dispatch) ringLinks(r *ring) [2]limit.Link {
	channel := r.channel.sessions.Link(d.maxChannel(r))
	channel.Tokens = d.tokensOf(r.channelRate)
	return [...]limit.Link{r.sessions.Link(d.maxRing(r)), channel}
}

// link is what the thread's own limits allow it.
func (t *thread) link() limit.Link {
	l := limit.Link{Busy: t.busy, Most: t.sessionLimit(), Share: limit.Unlimited, Tokens: limit.Unlimited}
	if t.params.WakeupRestartOnly && t.sessionCap > 0 {
		l.Most = min(l.Most, t.sessionCap)
	}
	if x := t.shaping; x != nil {
		l.Tokens = x.tokens
		if x.share != nil {
			l.Share = x.share.sessions
		}
	}
	return l
}

// siteLink is what the site of the thread allows it, according to the thread's own
// parameters.
func (q *queue) siteLink(t *thread) limit.Link {
	x := t.shaping
	if x == nil || x.site == nil {
		return limit.Open()
	}
	l := x.site.sessions.Link(t.params.SiteMax)
	l.Tokens = q.tokensOf(x.siteRate)
	if t.params.ClusterSiteMax > 0 && x.site.share != nil {
		l.Share = x.site.share.sessions
	}
	return l
}

// processLinks returns what limits the processes of a ring.
func (d *dispatch) processLinks(r *ring) [processLinks]limit.Link {
	return [...]limit.Link{
		ofAllProcesses:     d.processes.Link(d.maxTA(r)),
		ofChannelProcesses: r.channel.processes.Link(d.maxChannel(r)),
		ofRingProcesses:    r.processes.Link(d.maxRing(r)),
	}
}

// maxTA is the limit on processes that applies to the ring; 0: none.
func (d *dispatch) maxTA(r *ring) int { return cmp.Or(r.params.MaxTA, d.config.MaxAgents) }

// maxChannel is the limit on the busy sessions, and on the processes, of the
// ring's channel; 0: none.
func (d *dispatch) maxChannel(r *ring) int { return cmp.Or(r.params.MaxChannel, d.maxTA(r)) }

// maxRing is the limit on the busy sessions, and on the processes, of the ring;
// 0: none.
func (d *dispatch) maxRing(r *ring) int { return cmp.Or(r.params.MaxRing, d.maxTA(r)) }

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
func (d *dispatch) mayAddSessions(t *thread, n int) bool {
	links := d.links(t)
	_, why := limit.Chain(links[:]).Refusal(n)
	return why == limit.None && !t.waitsAtSite()
}

// waitAtChannel makes a ring wait for a session, or a token, of its channel.
func (d *dispatch) waitAtChannel(r *ring) {
	key := limit.Key{Most: d.maxChannel(r)}
	if b := r.channelRate; b != nil {
		key.Group = b.group
		if d.tokensOf(b) <= r.channel.expected {
			d.planToken(b)
		}
	}
	r.channel.sessions.Join(&r.place, key, &d.turns)
}

// wakeSessions lets rings try again that wait for a session, or a token, of a channel. A
// token for which an agent is being started is no longer free.
func (d *dispatch) wakeSessions(c *channel) {
	if c.sessions.Len() == 0 {
		return
	}
	c.sessions.Wake(func(r *ring) int {
		l := d.ringLinks(r)[1]
		if r.channelRate != nil {
			if l.Tokens -= c.expected; l.Tokens <= 0 {
				d.planToken(r.channelRate)
			}
		}
		return l.Free()
	}, d.wakeRing)
}

// wakeProcesses lets rings try again that wait for a process of a channel, or of all.
func (d *dispatch) wakeProcesses(c *channel) {
	if c.processes.Len() > 0 {
		c.processes.Wake(func(r *ring) int { return c.processes.Link(d.maxChannel(r)).Free() }, d.wakeRing)
	}
	if d.processes.Len() > 0 {
		d.processes.Wake(func(r *ring) int { return d.processes.Link(d.maxTA(r)).Free() }, d.wakeRing)
	}
}

func (d *dispatch) wakeRing(r *ring) bool {
	d.markDirty(r)
	return true
}

// evictIdle closes idle agents if rings that wait at a limit need their
// processes, the longest idle first. It spares agents whose own ring has work
// for them and only waits for a session.
func (d *dispatch) evictIdle(c *channel) {
	if !d.needProcesses(c) {
		return
	}
	for a := d.idleAgents.Head; a != nil; {
		next := a.Next
		if d.needProcesses(a.ring.channel) && !d.needsAgents(a.ring) {
			d.closeAgent(a)
		}
		a = next
	}
}

// needProcesses reports whether more rings wait for a process of the channel, or for one
// of all processes, than agents are closing. Then rings without work give up theirs.
func (d *dispatch) needProcesses(c *channel) bool {
	return d.processes.Len() > d.counts.AgentsClosing || c.processes.Len() > c.closing
}

// needsAgents reports whether the ring has work for the agents that it has.
func (d *dispatch) needsAgents(r *ring) bool {
	links := d.ringLinks(r)
	return r.wants > 0 && links[0].Free() > 0 && links[1].Tokens > 0
}

// othersWait reports whether rings wait for a session or a process that one of the channel
// occupies.
func (d *dispatch) othersWait(c *channel) bool {
	return c.sessions.Len() > 0 || c.processes.Len() > 0 || d.processes.Len() > 0
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
	// rates has a bucket for each value of channelrate. During a reload,
	// formerRates has those of the former configuration.
	rates, formerRates []*bucket

	// Recipients since the start, as in ChannelView.
	in, delivered, deferred, failed, expired, dropped, held, released uint64
}

// count counts an outcome; state is a word of the statistics log.
func (c *channel) count(state string) {
	switch state {
	case "ok", "ok2", "ok3":
		c.delivered++
	case "expire":
		c.expired++
	default:
		c.failed++
	}
}

func (q *queue) obtainChannel(name string) *channel {
	c := q.channels[name]
	if c == nil {
		c = &channel{name: name}
		q.channels[name] = c
		q.channelOrder = append(q.channelOrder, c)
	}
	return c
}
