package scheduler

import (
	"math"
	"slices"
	"time"
)

// Rates: how many recipients may be fed in a span of time (rate, rateburst, channelrate,
// siterate). What a thread without a token does is in gate.go.

// Rate is a number of recipients in a span of time.
type Rate struct {
	Recipients int // 0: no limit
	Span       time.Duration
	// From is when it begins to apply; zero for the first rate of a table, which
	// applies from the beginning.
	From time.Time
}

// per returns the time that one recipient takes, rounded up to nanoseconds; 0: no
// limit.
func (r Rate) per() time.Duration {
	if r.Recipients <= 0 {
		return 0
	}
	return (r.Span + time.Duration(r.Recipients) - 1) / time.Duration(r.Recipients)
}

// bucket counts the tokens of one rate. A job line is fed if there is at least one
// token, and each of its recipients takes one, so that the next job line may have to
// wait for several.
//
// It follows the generic cell rate algorithm (ITU-T I.371): one point in time, paidAt,
// sums up everything that was fed.
type bucket struct {
	rates []Rate
	burst int // the most tokens that the bucket holds; at least 1
	// per is how long one token takes now; 0: no limit. base is what it would be by
	// the table alone; part and least come from effects (restrict).
	per, base, least time.Duration
	part             float64 // 0 means 1
	changeAt         date    // when the next rate of rates begins; noDate: there is none
	// paidAt is when all tokens will be available again (the theoretical arrival time
	// of I.371).
	paidAt instant
	next   timer // when there may be another token for what waits
	// What waits for a token: one of these is set.
	thread *thread
	queue  *limitQueue // the rings of a channel
	site   *site
	shared *sharedRate // nil: the rate of one thread
}

// setRates gives the bucket another table. The tokens that are missing are still
// missing under the new rate.
func (b *bucket) setRates(now clock, rates []Rate, burst int) {
	b.rates, b.burst, b.changeAt = rates, max(1, burst), 0
	b.advance(now)
}

// advance applies the rate of the table that is in force now.
func (b *bucket) advance(now clock) {
	if b.changeAt > now.date {
		return
	}
	b.changeAt = noDate
	current := 0
	for i, r := range b.rates {
		from := dateOf(r.From)
		if i > 0 && from > now.date {
			b.changeAt = from
			break
		}
		current = i
	}
	var per time.Duration
	if current < len(b.rates) {
		per = b.rates[current].per()
	}
	b.base = per
	b.apply(now)
}

// setPer changes how long a token takes. The number of tokens that are missing
// stays the same.
func (b *bucket) setPer(now clock, per time.Duration) {
	if per == b.per {
		return
	}
	if owed := b.paidAt - now.now; owed > 0 && b.per > 0 {
		wait := min(float64(owed)/float64(b.per)*float64(per), float64(longestRetry))
		b.paidAt = now.now.after(time.Duration(math.Ceil(wait)))
	}
	b.per = per
}

// tokens returns how many tokens there are now.
func (b *bucket) tokens(now clock) int {
	b.advance(now)
	if b.per == 0 {
		return math.MaxInt
	}
	free := times(b.per, b.burst) - max(0, b.paidAt.since(now.now))
	return max(0, int(free/b.per))
}

// nextAt returns when there is one token more than now. A change of the rate may
// come before that, and then the caller must ask again.
func (b *bucket) nextAt(now clock) instant {
	tokens := b.tokens(now)
	if b.per == 0 || tokens >= b.burst {
		return never
	}
	wait := b.paidAt.since(now.now) - times(b.per, b.burst-1-tokens)
	return min(now.now.after(max(wait, 1)), now.instantAt(b.changeAt))
}

// owed reports whether tokens are missing, so that the bucket must be kept.
func (b *bucket) owed(now clock) bool { return b.paidAt > now.now && b.per > 0 }

// take takes n tokens, even if there are fewer.
func (b *bucket) take(now clock, n int) {
	b.advance(now)
	if b.per > 0 {
		b.paidAt = max(b.paidAt, now.now).after(times(b.per, n))
	}
}

// refund gives n tokens back.
func (b *bucket) refund(n int) { b.paidAt -= min(b.paidAt, instant(times(b.per, n))) }

// setChannelRate gives a ring the bucket of its channel that its parameters ask for.
func (q *queue) setChannelRate(r *ring) {
	p := r.params
	r.channelRate = nil
	if len(p.ChannelRate) > 0 {
		r.channelRate = q.obtainBucket(&r.channel.rates, r.channel.formerRates, p.ChannelRate, p.RateBurst)
		if r.channelRate.queue == nil {
			r.channelRate.queue = newLimitQueue(0)
		}
		q.shareBucket(r.channelRate, "channelrate", r.channel.name)
	}
}

// obtainBucket finds or makes the bucket for a table of rates and a burst among those
// of a channel or a site. Clauses may set different values; each feed counts in all
// of them, as with maxchannel. former has those of the configuration before.
func (q *queue) obtainBucket(list *[]*bucket, former []*bucket, rates []Rate, burst int) *bucket {
	same := func(b *bucket) bool {
		return b.burst == max(1, burst) && slices.Equal(b.rates, rates)
	}
	if i := slices.IndexFunc(*list, same); i >= 0 {
		return (*list)[i]
	}
	b := new(bucket)
	b.next.due = func(s *Scheduler) { s.tokenDue(b) }
	if i := slices.IndexFunc(former, same); i >= 0 {
		b = former[i]
	} else if len(former) > 0 {
		b.per, b.paidAt = former[0].per, former[0].paidAt
	}
	b.setRates(q.clock, rates, burst)
	*list = append(*list, b)
	return b
}

// reloadRates sets the buckets of the channel aside until its rings have new
// parameters. The rings then take back the buckets that they still need (obtainBucket).
func (q *queue) reloadRates(c *channel) {
	c.formerRates, c.rates = c.rates, nil
	for _, b := range c.formerRates {
		for b.queue.head != nil {
			b.queue.head.dequeue()
		}
		q.plan(&b.next, never)
	}
}

// tokenDue is called when a bucket may have another token: what waits for it tries
// again.
func (d *dispatch) tokenDue(b *bucket) {
	switch {
	case b.thread != nil:
		d.updateThread(b.thread)
		d.overfeedThread(b.thread)
	case b.site != nil:
		d.offerSite(b.site)
		d.dropSite(b.site)
	default:
		d.admitAtRate(b)
	}
}

// admitAtRate lets the first ring that waits for a token of a channel try again, if
// there is a token that no agent is being started for.
func (d *dispatch) admitAtRate(b *bucket) {
	r := b.queue.head
	if r == nil {
		return
	}
	if b.tokens(d.clock) > r.channel.expected {
		r.dequeue()
		d.markDirty(r)
	}
	if b.queue.head != nil {
		d.plan(&b.next, b.nextAt(d.clock))
	}
}
