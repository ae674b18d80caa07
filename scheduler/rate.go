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
// site share. One of thread, channel and site is set.
type bucket struct {
	limit.Bucket
	next    timer // when there may be another token for what waits
	thread  *thread
	channel *channel
	site    *site
	group   uint64 // in limit.Key: its place among the buckets of the channel, from 1
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
	return b.Tokens(ls.agenda.both())
}

// nextToken is when a bucket has one token more.
func (ls *limits) nextToken(b *bucket) instant { return instant(b.NextAt(ls.agenda.both())) }

// planToken makes what waits for a token of a bucket try again when there is one more.
func (ls *limits) planToken(b *bucket) {
	if at := ls.nextToken(b); at != never {
		ls.agenda.plan(&b.next, at)
	}
}

// setChannelRate gives a ring the bucket of its channel that its parameters ask for.
func (ls *limits) setChannelRate(r *ring) {
	p, c := r.params, r.channel
	r.channelRate = nil
	if len(p.ChannelRate) > 0 {
		r.channelRate = ls.obtainBucket(&c.rates, c.formerRates, p.ChannelRate, p.RateBurst)
		r.channelRate.channel = c
		r.channelRate.group = uint64(slices.Index(c.rates, r.channelRate)) + 1
		ls.saved.restoreTokens(r.channelRate)
	}
}

// obtainBucket finds or makes the bucket for a table of rates and a burst among those
// of a channel or a site. Clauses may set different values; each feed counts in all
// of them, as with maxchannel. former has those of the configuration before.
func (ls *limits) obtainBucket(list *[]*bucket, former []*bucket, rates []rule.Rate, burst int) *bucket {
	same := func(b *bucket) bool {
		return b.Burst == max(1, burst) && slices.Equal(b.Rates, rates)
	}
	if i := slices.IndexFunc(*list, same); i >= 0 {
		return (*list)[i]
	}
	b := new(bucket)
	b.next.due = func() { ls.tokenDue(b) }
	if i := slices.IndexFunc(former, same); i >= 0 {
		b = former[i]
	} else if len(former) > 0 {
		b.Inherit(&former[0].Bucket)
	}
	b.SetRates(ls.agenda.both(), rates, burst)
	*list = append(*list, b)
	return b
}

// reloadRates sets the buckets of the channel aside until its rings have new
// parameters. The rings then take back the buckets that they still need (obtainBucket).
func (ls *limits) reloadRates(c *channel) {
	c.formerRates, c.rates = c.rates, nil
	for _, b := range c.formerRates {
		ls.agenda.plan(&b.next, never)
	}
}

// tokenDue is called when a bucket may have another token: what waits for it tries
// again.
func (ls *limits) tokenDue(b *bucket) {
	switch {
	case b.thread != nil:
		ls.threads.updateThread(b.thread)
		ls.rings.overfeedThread(b.thread)
	case b.site != nil:
		ls.offerSite(b.site)
		ls.dropSite(b.site)
	default:
		ls.wakeSessions(b.channel)
	}
}
