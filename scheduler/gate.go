package scheduler

import (
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// The gate: whether the rates allow a job line for a thread now and, if not, which
// of them does not, and when it will.
//
// A thread that must wait for a token is treated like one with a full window: picks
// do not find it, it uses no quantum, it blocks others in preemption, its idle agents
// may be evicted, and no session stays on it. The agenda has the exact time of the
// token, so nothing looks at the thread before that time.
//
// The tokens of a thread bound its sessions through freeSlots, like its window; a thread
// without any wants no sessions. Those of a channel stop dispatchRing, like maxchannel,
// without touching the threads of the ring, which may be very many.

// shaping has the limits of a thread other than its window.
type shaping struct {
	rate        *bucket // nil: none
	clusterRate *bucket // this node's share of clusterrate; nil: none
	// tokens is how many job lines the thread may be given, as of the last
	// updateGate. If mail waits for more, gate has the time of the next token.
	tokens int
	gate   timer

	shares [threadShares]sharing
	// told is by whose word the thread was suspended last; nil: by nobody else's. suspendedBy is the
	// rule that has suspended it, and slowedBy the one that has made its rate slower; nil: none has.
	told        *DestinationDead
	suspendedBy *rule.ReplyRule
	slowedBy    *rule.ReplyRule
	slowEnd     timer // when that ends

	// The site (site.go); nil: no limit on it.
	site     *site
	siteRate *bucket              // nil: none
	place    limit.Place[*thread] // where it waits at its site
}

// obtainShaping finds or makes the shaping of a thread.
func (ls *limits) obtainShaping(t *thread) *shaping {
	if t.shaping == nil {
		x := &shaping{tokens: limit.Unlimited, place: limit.Place[*thread]{Who: t}}
		x.gate.due = func() {
			ls.s.threads.updateThread(t)
			ls.s.rings.overfeedThread(t)
		}
		x.slowEnd.due = func() {
			ls.s.rules.endSlowing(t)
			x.gate.due()
		}
		t.shaping = x
	}
	return t.shaping
}

// setThreadRate gives a thread the bucket that its parameters and reply rules ask for.
func (ls *limits) setThreadRate(t *thread) {
	if t.params.Rate.Recipients == 0 && t.shaping == nil {
		return
	}
	x, r := ls.obtainShaping(t), t.params.Rate
	if r.Recipients == 0 {
		r = x.slowest()
	}
	ls.useRate(&x.rate, "rate "+t.name(), r, t.params.RateBurst, x.gate.due)
	if x.rate != nil {
		ls.slow(x.rate, x.slowest().Per())
	}
	ls.updateGate(t)
}

// dropShaping gives up what a thread without mail has used.
func (ls *limits) dropShaping(t *thread) {
	x := t.shaping
	if x == nil {
		return
	}
	ls.leaveSite(t)
	for _, b := range [...]**bucket{&x.rate, &x.clusterRate} {
		ls.useRate(b, "", rule.Rate{}, 0, nil)
	}
	for i := range x.shares {
		ls.s.cluster.useShare(&x.shares[i], ClusterLimit{}, 0, nil)
	}
	ls.s.agenda.plan(&x.gate, never)
	ls.s.agenda.plan(&x.slowEnd, never)
}

// updateGate counts the tokens of a thread with shaping, and plans when the next
// one comes if mail waits for it.
func (ls *limits) updateGate(t *thread) {
	x := t.shaping
	part := x.shares[ofClusterRate].clusterShare
	if part != nil && part.sessions > 0 {
		each := float64(t.params.ClusterRate.Per()) * wholeRate / float64(part.sessions)
		ls.slow(x.clusterRate, time.Duration(min(each, float64(rule.LongestRetry))))
	}
	own, shared := ls.tokensOf(x.rate), ls.tokensOf(x.clusterRate)
	x.tokens = min(own, shared)
	at := never
	if t.fair.Len() > x.tokens && own == x.tokens {
		at = ls.nextToken(x.rate)
	}
	if t.fair.Len() > x.tokens && shared == x.tokens {
		at = min(at, ls.nextToken(x.clusterRate))
	}
	if part != nil && part.sessions == 0 {
		x.tokens, at = 0, never // until there is an Allowance
	}
	ls.s.agenda.plan(&x.gate, at)
}

// pass lets a job line with n recipients through the gates: it takes n tokens of each
// rate that applies. A negative number gives back what a job line has taken.
func (ls *limits) pass(t *thread, r *ring, n int) {
	if x := t.shaping; x != nil {
		for _, b := range [...]*bucket{x.rate, x.clusterRate, x.siteRate} {
			ls.take(b, n)
		}
		ls.updateGate(t)
	}
	ls.take(r.channelRate, n)
}

// refund gives back what a job line with n recipients has taken.
func (ls *limits) refund(t *thread, n int) {
	if t.ring == nil {
		return
	}
	ls.pass(t, t.ring, -n)
	if t.shaping != nil && t.shaping.site != nil {
		ls.offerSite(t.shaping.site)
	}
	ls.wakeSessions(t.ring.channel)
}

// waitName says what a thread waits for if one of its links refuses.
func (ls *limits) waitName(t *thread, kind int, why limit.Refusal) view.Wait {
	switch x := t.shaping; {
	case kind == ofThread && why == limit.NoToken && ls.tokensOf(x.rate) > 0:
		return view.WaitClusterRate
	case kind == ofThread && why == limit.Full:
		return t.windowWait()
	}
	return kinds[kind].waits[why]
}

// tokenAt returns when the rate for which a thread waits has a token; never: it waits for no rate.
func (ls *limits) tokenAt(t *thread, why view.Wait) instant {
	switch why {
	case view.WaitSiteRate:
		return ls.nextToken(t.shaping.siteRate)
	case view.WaitClusterRate, view.WaitRate:
		return ls.s.agenda.plannedAt(&t.shaping.gate)
	}
	return ls.nextToken(t.ring.channelRate)
}
