package limit

import (
	"math"
	"time"
)

// Rate is a number of recipients in a span of time.
type Rate struct {
	Recipients int // 0: no limit
	Span       time.Duration
	// From is when it begins to apply; zero for the first rate of a table, which
	// applies from the beginning.
	From time.Time
}

// Per returns the time that one recipient takes, rounded up to nanoseconds; 0: no
// limit.
func (r Rate) Per() time.Duration {
	if r.Recipients <= 0 {
		return 0
	}
	return (r.Span + time.Duration(r.Recipients) - 1) / time.Duration(r.Recipients)
}

// Bucket counts the tokens of one rate. Something may begin if there is at least one
// token, and each recipient takes one, so that the next one may have to wait for several.
//
// It follows the generic cell rate algorithm (ITU-T I.371): one point in time, PaidAt,
// sums up everything that was taken. The zero value has no limit.
type Bucket struct {
	Rates []Rate // by date
	Burst int    // the most tokens that the bucket holds; at least 1
	// PaidAt is when all tokens will be available again (the theoretical arrival time
	// of I.371).
	PaidAt time.Duration
	// per is how long one token takes now; 0: no limit. base is what it would be by
	// the table alone; least comes from Restrict.
	per, base, least time.Duration
	changeAt         int64 // date at which the next of the rates begins
}

// longest keeps products of large numbers within a time.Duration.
const longest = 366 * 24 * time.Hour

// SetRates gives the bucket another table. The tokens that are missing are still
// missing under the new rate.
func (b *Bucket) SetRates(now Clock, rates []Rate, burst int) {
	b.Rates, b.Burst, b.changeAt = rates, max(1, burst), 0
	b.advance(now)
}

// Inherit takes over what is missing in another bucket.
func (b *Bucket) Inherit(from *Bucket) { b.per, b.PaidAt = from.per, from.PaidAt }

// advance applies the rate of the table that is in force now.
func (b *Bucket) advance(now Clock) {
	if b.changeAt > now.Date {
		return
	}
	b.changeAt = math.MaxInt64
	current := 0
	for i, r := range b.Rates {
		if i > 0 && r.From.After(time.Unix(0, now.Date)) {
			b.changeAt = r.From.UnixNano()
			break
		}
		current = i
	}
	b.base = 0
	if current < len(b.Rates) {
		b.base = b.Rates[current].Per()
	}
	b.apply(now)
}

// Restrict makes each token take at least the given time.
func (b *Bucket) Restrict(now Clock, least time.Duration) {
	b.least = least
	b.apply(now)
}

// apply works out how long a token takes now. The number of tokens that are missing
// stays the same.
func (b *Bucket) apply(now Clock) {
	per := max(b.base, b.least)
	if per == b.per {
		return
	}
	if owed := b.PaidAt - now.Now; owed > 0 && b.per > 0 {
		wait := min(float64(owed)/float64(b.per)*float64(per), float64(longest))
		b.PaidAt = after(now.Now, time.Duration(math.Ceil(wait)))
	}
	b.per = per
}

// Tokens returns how many tokens there are now; math.MaxInt without a limit.
func (b *Bucket) Tokens(now Clock) int {
	b.advance(now)
	if b.per == 0 {
		return math.MaxInt
	}
	free := times(b.per, b.Burst) - max(0, b.PaidAt-now.Now)
	return max(0, int(free/b.per))
}

// NextAt returns when there is one token more than now. A change of the rate may
// come before that, and then the caller must ask again.
func (b *Bucket) NextAt(now Clock) time.Duration {
	tokens := b.Tokens(now)
	if b.per == 0 || tokens >= b.Burst {
		return Never
	}
	wait := b.PaidAt - now.Now - times(b.per, b.Burst-1-tokens)
	at := after(now.Now, max(wait, 1))
	if b.changeAt < math.MaxInt64 {
		at = min(at, max(1, after(now.Now, time.Duration(b.changeAt-now.Date))))
	}
	return at
}

// Owed reports whether tokens are missing, so that the bucket must be kept.
func (b *Bucket) Owed(now Clock) bool { return b.PaidAt > now.Now }

// Take takes n tokens, even if there are fewer. A negative number gives them back.
func (b *Bucket) Take(now Clock, n int) {
	b.advance(now)
	switch {
	case b.per == 0:
	case n < 0:
		b.PaidAt -= min(b.PaidAt, times(b.per, -n))
	default:
		b.PaidAt = after(max(b.PaidAt, now.Now), times(b.per, n))
	}
}

// after adds a time that is not negative. It returns Never if the sum is too large.
func after(t, d time.Duration) time.Duration {
	if d > 0 && t > Never-d {
		return Never
	}
	return t + d
}

// times multiplies; a product that is too large becomes the longest time.
func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > longest/time.Duration(n) {
		return longest
	}
	return d * time.Duration(n)
}
