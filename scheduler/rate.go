package scheduler

import (
	"slices"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Rates: how many recipients may be fed in a span of time (rate, rateburst, channelrate,
// siterate). What a thread without a token does is in gate.go.

// bucket has the tokens of a thread's rate, or of one that the threads of a channel or a
// site share.
type bucket struct {
	limit.Bucket
	next  timer  // when there may be another token: what waits for it tries again
	group uint64 // in limit.Key, from 1
}

// both is the time as package limit has it.
func (c clock) both() limit.Clock {
	return limit.Clock{Now: time.Duration(c.now), Date: int64(c.date)}
}

// tokensOf is how many tokens a bucket has now; more than any count if it is nil.
func (ls *limits) tokensOf(b *bucket) int {
	if b == nil {
		return limit.Unlimited
	}
	return b.Tokens(ls.s.agenda.both())
}

// nextToken is when a bucket has one token more.
func (ls *limits) nextToken(b *bucket) instant { return instant(b.NextAt(ls.s.agenda.both())) }

// planToken makes what waits for a token of a bucket try again when there is one more.
func (ls *limits) planToken(b *bucket) {
	if at := ls.nextToken(b); at != never {
		ls.s.agenda.plan(&b.next, at)
	}
}

// setChannelRate gives a ring the bucket of its channel that its parameters ask for.
func (ls *limits) setChannelRate(r *ring) {
	p, c := r.params, r.channel
	r.channelRate = nil
	if len(p.ChannelRate) > 0 {
		r.channelRate = ls.obtainBucket(&c.rates, "channelrate "+c.name, p.ChannelRate, p.RateBurst, func() { ls.wakeSessions(c) })
	}
}

// obtainBucket finds or makes the bucket for a table of rates and a burst among those
// of a channel or a site. Clauses may set different values; each feed counts in all
// of them, as with maxchannel. So what is missing in one is missing in a new one. due is called
// when there may be another token.
func (ls *limits) obtainBucket(list *[]*bucket, owner string, rates []rule.Rate, burst int, due func()) *bucket {
	for _, b := range *list {
		if b.Burst == max(1, burst) && slices.Equal(b.Rates, rates) {
			return b
		}
	}
	ls.lastBucket++
	b := &bucket{group: ls.lastBucket}
	b.next.due = due
	if len(*list) > 0 {
		b.Inherit(&(*list)[0].Bucket)
	}
	b.SetRates(ls.s.agenda.both(), rates, burst)
	ls.s.saved.restoreTokens(owner, b)
	*list = append(*list, b)
	return b
}

// dropRates drops the buckets of channels that no ring uses any more.
func (ls *limits) dropRates() {
	used := make(map[*bucket]bool)
	for r := ls.s.rings.inOrder.Head; r != nil; r = ls.s.rings.inOrder.Next(r) {
		used[r.channelRate] = true
	}
	for _, c := range ls.channelOrder {
		c.rates = slices.DeleteFunc(c.rates, func(b *bucket) bool {
			if !used[b] {
				ls.s.agenda.plan(&b.next, never)
			}
			return !used[b]
		})
	}
}
