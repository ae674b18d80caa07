package scheduler

import "math"

// The gate: whether the rates allow a job line for a thread now and, if not, which
// of them does not, and when it will.
//
// A thread that must wait for a token is treated like one with a full window: picks
// do not find it, it uses no quantum, it blocks others in preemption, its idle agents
// may be evicted, and no session stays on it. The agenda has the exact time of the
// token, so nothing looks at the thread before that time.
//
// There are two gates. The gate of a thread (threadGate) bounds its sessions through
// freeSlots, like its window; a thread with a closed gate wants no sessions. The gate
// of a ring (ringGate) stops dispatchRing, like maxring, without touching the threads
// of the ring, which may be very many.

// shaping has the limits of a thread other than its window.
type shaping struct {
	rate bucket
	// tokens is how many job lines the thread may be given, as of the last
	// updateGate. If mail waits for more, the agenda has the time of the next token.
	tokens int
	// waits counts how often tokens have run out and come back. Together with
	// suspensions it tells which vertices have waited (vertex.suspensionsWhenDue).
	waits uint32

	share *clusterShare    // of clustermax; nil: none
	draws *drawnTokens     // of clusterrate; nil: none
	told  *DestinationDead // by whose word it was suspended last; nil: by nobody else's

	// Effects of reply rules and of an administrator's order (effect.go).
	effects   []effect
	effectEnd timer // when the next effect ends or changes
	order     *suspensionOrder
	suspended bool
	part      float64    // the part of its window limit that rules leave; 1: all
	noted     *ReplyRule // the rule that was last logged, and when
	notedAt   instant

	// The site (site.go); nil: no limit on it.
	site      *site
	siteRate  *bucket // nil: none
	siteIndex int32   // in siteQueue.waiting; 0: it does not wait
	siteRing  *ring   // of that queue
	siteSince instant // position in it, kept until the thread has a session
	offered   bool    // the site has offered it a session, which has not begun yet
	siteMax   int     // its clustersitemax, as counted in site.maxes; 0: none
	siteWant  int     // its part of site.want
	siteDoubt timer   // when the site is forgotten unless a session confirms it
}

// obtainShaping finds or makes the shaping of a thread.
func (q *queue) obtainShaping(t *thread) *shaping {
	if t.shaping == nil {
		x := &shaping{rate: bucket{thread: t, changeAt: noDate}, tokens: math.MaxInt, part: 1}
		x.rate.next.due = func(s *Scheduler) { s.tokenDue(&x.rate) }
		x.effectEnd.due = func(s *Scheduler) { s.effectDue(t) }
		x.siteDoubt.due = func(s *Scheduler) { s.siteDoubtDue(t) }
		t.shaping = x
		t.shaping.rate.setRates(q.clock, t.params.Rate, t.params.RateBurst)
	}
	return t.shaping
}

// setThreadRate gives a thread the bucket that its parameters ask for.
func (q *queue) setThreadRate(t *thread) {
	if len(t.params.Rate) == 0 && t.shaping == nil {
		return
	}
	q.obtainShaping(t).rate.setRates(q.clock, t.params.Rate, t.params.RateBurst)
	q.updateGate(t)
}

// threadGate is how many job lines the thread's own limits allow now.
func (t *thread) threadGate() int {
	if t.shaping == nil {
		return math.MaxInt
	}
	if t.shaping.siteIndex != 0 {
		return 0
	}
	return t.shaping.tokens
}

// updateGate counts the tokens of a thread with shaping, and plans when the next
// one comes if mail waits for it. An empty thread is kept until it has all its
// tokens again; otherwise the next message would begin with a full bucket.
func (q *queue) updateGate(t *thread) {
	x := t.shaping
	before := x.tokens
	x.tokens = x.rate.tokens(q.clock)
	own := x.tokens
	if x.draws != nil {
		q.drawAhead(t)
		x.tokens = min(x.tokens, x.draws.tokens(q.now))
	}
	if (before == 0) != (x.tokens == 0) {
		x.waits++
	}
	at := never
	switch {
	case t.vertices.len == 0 && x.rate.owed(q.clock):
		at = x.rate.paidAt
	case t.queue().len() > x.tokens && x.tokens == own:
		at = x.rate.nextAt(q.clock)
	case t.queue().len() > x.tokens:
		at = x.draws.nextAt(q.now)
	}
	if x.draws != nil && x.draws.left > 0 {
		at = min(at, x.draws.until)
	}
	q.plan(&x.rate.next, at)
}

// isShaped reports whether an empty thread must be kept for its shaping.
func (q *queue) isShaped(t *thread) bool {
	x := t.shaping
	return x != nil && (x.rate.owed(q.clock) || len(x.effects) > 0 || x.draws != nil && x.draws.left > 0 && x.draws.until > q.now)
}

// waits counts the suspensions of the thread, and its waits for tokens.
func (t *thread) waits() uint32 {
	if t.shaping == nil {
		return t.suspensions
	}
	return t.suspensions + t.shaping.waits
}

// ringGate is how many job lines channelrate allows the threads of the ring now.
func (d *dispatch) ringGate(r *ring) int {
	if r.channelRate == nil {
		return math.MaxInt
	}
	return r.channelRate.tokens(d.clock)
}

// waitForChannel puts the ring among those that wait for a token of the channel.
func (d *dispatch) waitForChannel(r *ring) {
	b := r.channelRate
	if r.limitQueue != b.queue {
		r.dequeue()
		d.enqueueRing(b.queue, r)
	}
	d.plan(&b.next, b.nextAt(d.clock))
}

// pass lets a job line with n recipients through the gates: it takes n tokens of each
// rate that applies.
func (d *dispatch) pass(t *thread, r *ring, n int) {
	if t.shaping != nil {
		t.shaping.rate.take(d.clock, n)
		if t.shaping.rate.per >= minSavedToken {
			d.noteThreadChange(t)
		}
		if w := t.shaping.draws; w != nil {
			w.take(d.now, n)
		}
		d.updateGate(t)
		if s := t.shaping.site; s != nil {
			for _, b := range s.rates {
				d.takeShared(b, n)
			}
		}
	}
	for _, b := range r.channel.rates {
		d.takeShared(b, n)
		if b.tokens(d.clock) == 0 {
			d.spent = r.channel
		}
	}
}

// refund gives back what a job line with n recipients has taken.
func (d *dispatch) refund(t *thread, n int) {
	if t.shaping != nil {
		t.shaping.rate.refund(n)
		if w := t.shaping.draws; w != nil {
			w.left += n
		}
		if s := t.shaping.site; s != nil {
			for _, b := range s.rates {
				b.refund(n)
			}
			d.offerSite(s)
		}
	}
	r := t.ring
	if r == nil {
		return
	}
	for _, b := range r.channel.rates {
		b.refund(n)
		d.admitAtRate(b)
	}
}

// gate returns why the gates let no job line of the thread through, and until when; or
// NoWait.
func (d *dispatch) gate(t *thread) (why Wait, until instant) {
	if x := t.shaping; x != nil && x.suspended {
		if x.order != nil {
			return WaitOrder, d.instantAt(x.order.until)
		}
		return WaitRule, d.shapingEnd(x)
	}
	if x := t.shaping; x != nil && x.site != nil && d.freeAtSite(t) <= 0 {
		if x.siteRate != nil && x.siteRate.tokens(d.clock) == 0 {
			return WaitSiteRate, x.siteRate.nextAt(d.clock)
		}
		if below(x.site.busy, t.params.SiteMax) {
			return WaitClusterSite, never
		}
		return WaitSite, never
	}
	if t.threadGate() == 0 && t.shaping.tokens == 0 {
		if x := t.shaping; x.draws != nil && x.rate.tokens(d.clock) > 0 {
			return WaitClusterRate, x.draws.nextAt(d.now)
		}
		return WaitRate, t.shaping.rate.nextAt(d.clock)
	}
	if r := t.ring; r != nil && r.channelRate != nil && r.channelRate.tokens(d.clock) == 0 {
		return WaitChannelRate, r.channelRate.nextAt(d.clock)
	}
	return NoWait, never
}
