package rule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Retry steps: how long a recipient or a destination waits after a failure (retries, backoff,
// jitter).

// Bounds of a wait.
const (
	// ShortestRetry also applies to retries=0.
	ShortestRetry = time.Second
	// LongestRetry keeps products of large numbers within a time.Duration.
	LongestRetry = 366 * 24 * time.Hour
)

// RetryStep returns how long to wait after a failed attempt, and the index for
// the next failure (scheduler.cf(5), retries). The wait is Interval times the
// number at index; after the end of the list, it continues from a random place
// in the list. Jitter percent are added or subtracted. age is the age of the
// message, for backoff=age, and 0 for a destination.
func RetryStep(p *Params, index uint8, age time.Duration, r *rand.Rand) (time.Duration, uint8) {
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
	return max(spread(wait, p.Jitter, r), ShortestRetry), index
}

func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > LongestRetry/time.Duration(n) {
		return LongestRetry
	}
	return d * time.Duration(n)
}

// spread moves d by up to percent in either direction.
func spread(d time.Duration, percent int, r *rand.Rand) time.Duration {
	width := d / 100 * time.Duration(percent)
	if width <= 0 {
		return d
	}
	return d - width + time.Duration(r.Int64N(2*int64(width)+1))
}

// LongestStep returns the longest wait after a step of retries.
func (p *Params) LongestStep() time.Duration {
	longest := p.Interval
	if p.Backoff == BackoffAge {
		longest = p.MaxBackoff
	} else if len(p.Retries) > 0 {
		longest = times(p.Interval, slices.Max(p.Retries))
	}
	return max(longest+longest/100*time.Duration(p.Jitter), ShortestRetry)
}
