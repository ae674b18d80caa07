package scheduler

import (
	"math"
	"time"

	"zsched/scheduler/limit"
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
	rate bucket
	// tokens is how many job lines the thread may be given, as of the last
	// updateGate. If mail waits for more, the agenda has the time of the next token.
	tokens int

	share *clusterShare    // of clustermax; nil: none
	draws *draws           // of clusterrate; nil: none
	told  *DestinationDead // by whose word it was suspended last; nil: by nobody else's

	// Effects of reply rules (effect.go).
	effects   []effect
	effectEnd timer // when the next effect ends
	suspended bool

	// The site (site.go); nil: no limit on it.
	site        *site
	siteRate    *bucket              // nil: none
	place       limit.Place[*thread] // where it waits at its site
	siteLimited bool                 // it counts in site.limited
	siteWant    int                  // its part of site.want
}

// obtainShaping finds or makes the shaping of a thread.
func (ls *limits) obtainShaping(t *thread) *shaping {
	if t.shaping == nil {
		x := &shaping{tokens: math.MaxInt, place: limit.Place[*thread]{Who: t}}
		x.rate.next.due = func() {
			ls.s.threads.updateThread(t)
			ls.s.rings.overfeedThread(t)
		}
		x.effectEnd.due = func() { ls.s.rules.effectDue(t) }
		t.shaping = x
		x.rate.SetRates(ls.s.agenda.both(), t.params.Rate, t.params.RateBurst)
		ls.s.saved.restoreTokens(t.rateOwner(), &x.rate)
	}
	return t.shaping
}

// rateOwner names the thread in the name of its rate (rateName).
func (t *thread) rateOwner() string { return "rate " + t.key.channel + "/" + t.key.host }

// setThreadRate gives a thread the bucket that its parameters ask for.
func (ls *limits) setThreadRate(t *thread) {
	if len(t.params.Rate) == 0 && t.shaping == nil {
		return
	}
	ls.obtainShaping(t).rate.SetRates(ls.s.agenda.both(), t.params.Rate, t.params.RateBurst)
	ls.updateGate(t)
}

// updateGate counts the tokens of a thread with shaping, and plans when the next
// one comes if mail waits for it. An empty thread is kept until it has all its
// tokens again; otherwise the next message would begin with a full bucket.
func (ls *limits) updateGate(t *thread) {
	x := t.shaping
	x.tokens = x.rate.Tokens(ls.s.agenda.both())
	own := x.tokens
	if x.draws != nil {
		ls.s.cluster.drawAhead(t)
		x.tokens = min(x.tokens, x.draws.Tokens(time.Duration(ls.s.agenda.now)))
	}
	at := never
	switch {
	case t.isEmpty() && x.rate.Owed(ls.s.agenda.both()):
		at = instant(x.rate.PaidAt)
	case t.backlog() > x.tokens && x.tokens == own:
		at = ls.nextToken(&x.rate)
	case t.backlog() > x.tokens:
		at = instant(x.draws.NextAt(time.Duration(ls.s.agenda.now)))
	}
	if x.draws != nil && x.draws.Left > 0 {
		at = min(at, instant(x.draws.Until))
	}
	ls.s.agenda.plan(&x.rate.next, at)
}

// isShaped reports whether an empty thread must be kept for its shaping.
func (ls *limits) isShaped(t *thread) bool {
	x := t.shaping
	return x != nil && (x.rate.Owed(ls.s.agenda.both()) || len(x.effects) > 0 || x.draws != nil && x.draws.Left > 0 && instant(x.draws.Until) > ls.s.agenda.now)
}

// pass lets a job line with n recipients through the gates: it takes n tokens of each
// rate that applies.
func (ls *limits) pass(t *thread, r *ring, n int) {
	if t.shaping != nil {
		t.shaping.rate.Take(ls.s.agenda.both(), n)
		if w := t.shaping.draws; w != nil {
			w.Take(time.Duration(ls.s.agenda.now), n)
		}
		ls.updateGate(t)
		if s := t.shaping.site; s != nil {
			for _, b := range s.rates {
				b.Take(ls.s.agenda.both(), n)
			}
		}
	}
	for _, b := range r.channel.rates {
		b.Take(ls.s.agenda.both(), n)
		if ls.tokensOf(b) == 0 {
			ls.s.rings.spent = r.channel
		}
	}
}

// refund gives back what a job line with n recipients has taken.
func (ls *limits) refund(t *thread, n int) {
	if t.shaping != nil {
		t.shaping.rate.Refund(n)
		if w := t.shaping.draws; w != nil {
			w.Left += n
		}
		if s := t.shaping.site; s != nil {
			for _, b := range s.rates {
				b.Refund(n)
			}
			ls.offerSite(s)
		}
	}
	r := t.ring
	if r == nil {
		return
	}
	for _, b := range r.channel.rates {
		b.Refund(n)
	}
	ls.wakeSessions(r.channel)
}

// refusal returns what due mail of a thread with a ring waits for because a link refuses one more
// session; NoWait: none does.
func (ls *limits) refusal(t *thread) view.Wait {
	links := ls.links(t)
	if at, why := limit.Chain(links[:]).Refusal(1); why != limit.None {
		return ls.waitName(t, at, why)
	}
	return view.NoWait
}

// waitName says what a thread waits for if one of its links refuses.
func (ls *limits) waitName(t *thread, link int, why limit.Refusal) view.Wait {
	switch x := t.shaping; {
	case link == ofThread && why == limit.NoToken && x.draws != nil && ls.tokensOf(&x.rate) > 0:
		return view.WaitClusterRate
	case link == ofThread && why == limit.Full:
		return t.windowWait()
	}
	return sessionWaits[link][why]
}

// tokenAt returns when the rate for which a thread waits has a token; never: it waits for no rate.
func (ls *limits) tokenAt(t *thread, why view.Wait) instant {
	switch x := t.shaping; why {
	case view.WaitSiteRate:
		return ls.nextToken(x.siteRate)
	case view.WaitClusterRate:
		return instant(x.draws.NextAt(time.Duration(ls.s.agenda.now)))
	case view.WaitRate:
		return ls.nextToken(&x.rate)
	case view.WaitChannelRate:
		return ls.nextToken(t.ring.channelRate)
	}
	return never
}
