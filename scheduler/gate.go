package scheduler

import (
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// The gate: which rates and other limits a thread has beside its window, and what a job line
// takes of them.
//
// A thread that must wait for a token is treated like one with a full window: picks
// do not find it, it uses no quantum, it blocks others in preemption, its idle agents
// may be evicted, and no session stays on it. The rate has the exact time of the
// token in the agenda, so nothing looks at the thread before that time.
//
// The tokens of a thread bound its sessions through freeSlots, like its window; a thread
// without any wants no sessions. Those of a channel stop dispatchRing, like maxchannel,
// without touching the threads of the ring, which may be very many.

// shaping has the limits of a thread other than its window.
type shaping struct {
	rate        *bucket // nil: none
	clusterRate *bucket // this node's share of clusterrate; nil: none
	tokens      func()  // called when there may be more of rate or clusterRate

	shares [threadShares]sharing
	// told is by whose word the thread was suspended last; nil: by nobody else's. suspendedBy is the
	// rule that has suspended it, and slowedBy the one that has made its rate slower; nil: none has.
	told        *DestinationDead
	suspendedBy *rule.ReplyRule
	slowedBy    *rule.ReplyRule
	slowEnd     timer // when that ends

	// The site (site.go); nil: no limit on it.
	site   *site
	toSite link
	place  limit.Place[bounds] // where it waits at its site
	moves  bool                // to its own site, from that of all that are not known
}

// obtainShaping finds or makes the shaping of a thread.
func (ls *limits) obtainShaping(t *thread) *shaping {
	if t.shaping == nil {
		x := new(shaping)
		x.place.Try = func() bool {
			ls.s.threads.updateThread(t)
			return t.wants > 0
		}
		x.tokens = func() {
			ls.s.threads.updateThread(t)
			ls.s.rings.overfeedThread(t)
		}
		x.slowEnd.due = func() {
			ls.s.rules.endSlowing(t)
			x.tokens()
		}
		t.shaping = x
	}
	return t.shaping
}

// setThreadRate gives a thread the bucket that its parameters and reply rules ask for.
func (ls *limits) setThreadRate(t *thread) {
	if t.params.Rates.Thread.Recipients == 0 && t.shaping == nil {
		return
	}
	x, r := ls.obtainShaping(t), t.params.Rates.Thread
	if r.Recipients == 0 {
		r = x.slowest()
	}
	ls.useRate(&x.rate, "rate "+t.name(), r, t.params.Rates.Burst, x.tokens)
	if x.rate != nil {
		ls.slow(x.rate, x.slowest().Per())
	}
	ls.planTokens(t)
}

// dropShaping gives up what a thread without mail has used.
func (ls *limits) dropShaping(t *thread) {
	x := t.shaping
	if x == nil {
		return
	}
	ls.leaveSite(t)
	for _, b := range [...]**bucket{&x.rate, &x.clusterRate} {
		ls.useRate(b, "", limit.Rate{}, 0, nil)
	}
	for i := range x.shares {
		ls.s.cluster.useShare(&x.shares[i], ClusterLimit{}, 0, nil)
	}
	ls.s.agenda.plan(&x.slowEnd, never)
}

// planTokens makes a thread try again when there is another token, if mail waits for it.
func (ls *limits) planTokens(t *thread) {
	x := t.shaping
	if tokens := min(ls.tokensOf(x.rate), ls.clusterTokens(x)); t.fair.Len() > tokens {
		ls.planToken(x.rate, tokens)
		ls.planToken(x.clusterRate, tokens)
	}
}

// pass lets a job line with n recipients through the gates: it takes n tokens of each
// rate that applies. They do not come back if its agent dies.
func (ls *limits) pass(t *thread, r *ring, n int) {
	if x := t.shaping; x != nil {
		for _, b := range [...]*bucket{x.rate, x.clusterRate, x.toSite.rate} {
			ls.take(b, n)
		}
		ls.planTokens(t)
	}
	if r.channelRate != nil {
		ls.take(r.channelRate, n)
		ls.evictIdle(r.channel) // rings of the channel may have no token now for theirs
	}
}

// waitName says what a thread waits for if one of its links refuses.
func (ls *limits) waitName(t *thread, k kind, why limit.Refusal) view.Wait {
	switch {
	case k == ofThread && why == limit.NoToken && ls.tokensOf(t.shaping.rate) > 0:
		return view.WaitClusterRate
	case k == ofThread && why == limit.Full:
		return t.windowWait()
	}
	return waits[k][why]
}

// tokenAt returns when the rate for which a thread waits has a token; never: it waits for no rate.
func (ls *limits) tokenAt(t *thread, why view.Wait) instant {
	switch why {
	case view.WaitSiteRate:
		return ls.nextToken(t.siteLink().rate)
	case view.WaitClusterRate:
		if t.shaping.shares[ofClusterRate].sessions == 0 {
			return never // until there is an Allowance
		}
		return ls.nextToken(t.shaping.clusterRate)
	case view.WaitRate:
		return ls.nextToken(t.shaping.rate)
	}
	return ls.nextToken(t.ring.channelRate)
}
