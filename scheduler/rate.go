package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Rates: how many recipients may be fed in a span of time (rate, rateburst, channelrate,
// siterate, the reply action rate).

// bucket has the tokens of one rate, for all that use it under the same name. It outlives
// its users until all its tokens are there, so that mail that comes later does not find more
// of them than it may use.
type bucket struct {
	limit.Bucket
	name  string    // what the rate is for, the rate and its burst; also across restarts
	rate  rule.Rate // zero: nothing has used it since the restart
	users int
	wake  func() // what waits for a token tries again
	next  timer  // when there may be another token, or when nobody needs the bucket any more
}

// rateName names a rate. What has another value or burst has another name.
func rateName(owner string, r rule.Rate, burst int) string {
	return owner + " " + strconv.Itoa(r.Recipients) + "/" + r.Span.String() + " " + strconv.Itoa(max(1, burst))
}

// useRate puts a bucket for a rate, or none, in the place of another. What was
// missing in that one is missing in a new one. wake is called when there may be another token.
func (ls *limits) useRate(at **bucket, owner string, r rule.Rate, burst int, wake func()) {
	before := *at
	*at = nil
	if r.Recipients > 0 {
		b := ls.obtainBucket(rateName(owner, r, burst))
		if b.rate.Recipients == 0 {
			if before != nil {
				b.Bucket = before.Bucket
			}
			b.rate, b.Burst = r, max(1, burst)
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

// take takes n tokens of a bucket, which may be nil. A negative number gives them back.
func (ls *limits) take(b *bucket, n int) {
	if b != nil {
		b.Take(time.Duration(ls.s.agenda.now), n)
	}
}

// planToken makes what waits for a token of a bucket try again when there is one.
func (ls *limits) planToken(b *bucket) { ls.planMore(b, 0) }

// planMore makes what waits for a token of a bucket try again when there are more than so many.
func (ls *limits) planMore(b *bucket, tokens int) {
	if b == nil || ls.tokensOf(b) > tokens {
		return
	}
	if at := ls.nextToken(b); at != never {
		ls.s.agenda.plan(&b.next, at)
	}
}

// SavedRate is the saved state of a rate.
type SavedRate struct {
	// Name is the setting, the channel or the channel and the host or site, and the rate with
	// the burst: another rate begins with all its tokens.
	Name   string
	PaidAt int64 // when all tokens are there again, in seconds since 1970, rounded up
}

const (
	// minSavedPeriod is the period of a rate from which its tokens are saved: those of shorter
	// ones are back soon after a restart anyway.
	minSavedPeriod = time.Hour
	// maxSavedName bounds the name of a rate that is saved, in bytes.
	maxSavedName = 2000
)

// ratesToSave returns the rates that lack tokens and have a long period, and those of an earlier
// process that nothing has used yet.
func (sa *saved) ratesToSave() (rates []SavedRate) {
	for _, b := range sa.s.limits.rates {
		isSlow := b.rate.Recipients == 0 || b.rate.Span >= minSavedPeriod
		if isSlow && b.Owed(time.Duration(sa.s.agenda.now)) && len(b.name) <= maxSavedName {
			rates = append(rates, SavedRate{b.name, int64(sa.s.agenda.dateAt(instant(b.PaidAt)).ceilSecond())})
		}
	}
	slices.SortFunc(rates, func(a, b SavedRate) int { return cmp.Compare(a.Name, b.Name) })
	return rates
}

// restoredRate restores the tokens of a rate. This comes before any mail.
func (sa *saved) restoredRate(saved SavedRate) {
	if paidAt := sa.s.agenda.restoredInstant(saved.PaidAt, cmp.Or(sa.s.rules.config.Defaults.Expiry, rule.LongestRetry)); paidAt != 0 {
		b := sa.s.limits.obtainBucket(saved.Name)
		b.PaidAt = time.Duration(paidAt)
		sa.s.limits.dropBucket(b)
	}
}
