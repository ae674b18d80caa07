package scheduler

import (
	"strconv"
	"time"

	"zsched/scheduler/limit"
)

// Rates: how many recipients may be fed in a span of time (rate, rateburst, channelrate,
// siterate, the reply action rate).

// bucket has the tokens of one rate, for all that use it under the same name. It outlives
// its users until all its tokens are there, so that mail that comes later does not find more
// of them than it may use.
type bucket struct {
	limit.Bucket
	name  string     // what the rate is for, the rate and its burst
	rate  limit.Rate // zero: it is new
	users int
	wake  func() // what waits for a token tries again
	next  timer  // when there may be another token, or when nobody needs the bucket any more
}

// longPeriod is the period of a rate from which it begins without tokens after a start: the process
// before may have used them all. Those of shorter periods would be back soon.
const longPeriod = time.Hour

// rateName names a rate. What has another value or burst has another name.
func rateName(owner string, r limit.Rate, burst int) string {
	return owner + " " + strconv.Itoa(r.Recipients) + "/" + r.Span.String() + " " + strconv.Itoa(max(1, burst))
}

// useRate puts a bucket for a rate, or none, in the place of another. What was
// missing in that one is missing in a new one. wake is called when there may be another token.
func (ls *limits) useRate(at **bucket, owner string, r limit.Rate, burst int, wake func()) {
	before := *at
	*at = nil
	if r.Recipients > 0 {
		b := ls.obtainBucket(rateName(owner, r, burst))
		if b.rate.Recipients == 0 {
			if before != nil {
				b.Bucket = before.Bucket
			}
			b.rate, b.Burst = r, max(1, burst)
			if before == nil && r.Span >= longPeriod {
				b.Per = r.Per()
				b.Take(time.Duration(ls.s.agenda.startedAt), b.Burst)
			}
		}
		b.users++
		b.wake = wake
		*at = b
		ls.slow(b, 0)
	}
	if before != nil {
		before.users--
		ls.dropBucket(before)
	}
}

// slow makes each token of a bucket take at least the given time.
func (ls *limits) slow(b *bucket, least time.Duration) {
	b.SetPer(time.Duration(ls.s.agenda.now), max(b.rate.Per(), least))
}

func (ls *limits) obtainBucket(name string) *bucket {
	b := ls.rates[name]
	if b == nil {
		b = &bucket{name: name}
		b.next.due = func() {
			if b.users > 0 {
				b.wake()
				return
			}
			ls.dropBucket(b)
		}
		ls.rates[name] = b
	}
	return b
}

// dropBucket drops a bucket that nobody uses, once all its tokens are there.
func (ls *limits) dropBucket(b *bucket) {
	switch {
	case b.users > 0:
	case b.Owed(time.Duration(ls.s.agenda.now)):
		ls.s.agenda.plan(&b.next, instant(b.PaidAt))
	default:
		ls.s.agenda.plan(&b.next, never)
		delete(ls.rates, b.name)
	}
}

// tokensOf is how many tokens a bucket has now; more than any count if it is nil.
func (ls *limits) tokensOf(b *bucket) int {
	if b == nil {
		return limit.Unlimited
	}
	return b.Tokens(time.Duration(ls.s.agenda.now))
}

// nextToken is when a bucket has one token more; never if it is nil.
func (ls *limits) nextToken(b *bucket) instant {
	if b == nil {
		return never
	}
	return instant(b.NextAt(time.Duration(ls.s.agenda.now)))
}

// take takes n tokens of a bucket, which may be nil.
func (ls *limits) take(b *bucket, n int) {
	if b != nil {
		b.Take(time.Duration(ls.s.agenda.now), n)
	}
}

// planToken makes what waits for a token of a bucket try again when there are more than so many.
func (ls *limits) planToken(b *bucket, tokens int) {
	if b == nil || ls.tokensOf(b) > tokens {
		return
	}
	if at := ls.nextToken(b); at != never {
		ls.s.agenda.plan(&b.next, at)
	}
}
