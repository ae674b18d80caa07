package limit

// Rates: the tokens of a bucket (rate, burst).

import (
	"math"
	"time"
)

// Rate is a number of recipients in a span of time.
type Rate struct {
	Recipients int // 0: no limit
	Span       time.Duration
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
// sums up everything that was taken. The zero value has no limit. Times are by a clock that
// nobody can set, and above 0.
type Bucket struct {
	Per   time.Duration // how long one token takes; 0: no limit
	Burst int           // the most tokens that the bucket holds; at least 1
	// PaidAt is when all tokens will be available again (the theoretical arrival time
	// of I.371).
	PaidAt time.Duration
}

// longest keeps products of large numbers within a time.Duration.
const longest = 366 * 24 * time.Hour

// SetPer changes how long one token takes. The number of tokens that are missing stays the same.
func (b *Bucket) SetPer(now, per time.Duration) {
	if per == b.Per {
		return
	}
	if owed := b.PaidAt - now; owed > 0 && b.Per > 0 {
		wait := min(float64(owed)/float64(b.Per)*float64(per), float64(longest))
		b.PaidAt = after(now, time.Duration(math.Ceil(wait)))
	}
	b.Per = per
}

// Tokens returns how many tokens there are now; math.MaxInt without a limit.
func (b *Bucket) Tokens(now time.Duration) int {
	if b.Per == 0 {
		return math.MaxInt
	}
	free := times(b.Per, b.Burst) - max(0, b.PaidAt-now)
	return max(0, int(free/b.Per))
}

// NextAt returns when there is one token more than now; Never: there are as many as there can be.
func (b *Bucket) NextAt(now time.Duration) time.Duration {
	tokens := b.Tokens(now)
	if b.Per == 0 || tokens >= b.Burst {
		return Never
	}
	wait := b.PaidAt - now - times(b.Per, b.Burst-1-tokens)
	return after(now, max(wait, 1))
}

// Owed reports whether tokens are missing, so that the bucket must be kept.
func (b *Bucket) Owed(now time.Duration) bool { return b.PaidAt > now }

// Take takes n tokens, even if there are fewer.
func (b *Bucket) Take(now time.Duration, n int) {
	if b.Per > 0 {
		b.PaidAt = after(max(b.PaidAt, now), times(b.Per, n))
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
