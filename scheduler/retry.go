package scheduler

import (
	"math/rand/v2"
	"time"
)

// shortestRetry is the least time between two attempts, retries=0 included.
const shortestRetry = time.Second

// retryStep returns how long to wait after a failed attempt and the index of
// the step after it (scheduler.cf(5), retries): Interval times the number at
// index; past the end of the list, on from a random place in it. The wait is
// spread by Jitter percent either way. age is the message's, for backoff=age.
func retryStep(p *Params, index uint8, age time.Duration, r *rand.Rand) (time.Duration, uint8) {
	var wait time.Duration
	switch {
	case p.Backoff == BackoffAge:
		wait = min(max(age, p.MinBackoff), p.MaxBackoff)
	case len(p.Retries) == 0:
		wait = p.Interval
	default:
		if int(index) >= len(p.Retries) {
			index = uint8(r.IntN(len(p.Retries)))
		}
		wait = times(p.Interval, p.Retries[index])
		index++
	}
	return max(spread(wait, p.Jitter, r), shortestRetry), index
}

// longestRetry keeps a product of large numbers within what a time can hold.
const longestRetry = 366 * 24 * time.Hour

func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > longestRetry/time.Duration(n) {
		return longestRetry
	}
	return d * time.Duration(n)
}

// spread moves d by up to percent either way.
func spread(d time.Duration, percent int, r *rand.Rand) time.Duration {
	width := d / 100 * time.Duration(percent)
	if width <= 0 {
		return d
	}
	return d - width + time.Duration(r.Int64N(2*int64(width)+1))
}
