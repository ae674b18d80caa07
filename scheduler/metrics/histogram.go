package metrics

import "slices"

// histogram counts observations by size: scheduler_feed_seconds,
// scheduler_outcome_seconds and scheduler_loop_pause_seconds.
type histogram struct {
	bounds []float64 // upper, ascending; never changed
	counts []uint64  // for each bound, the observations up to it and above the bound before
	total  uint64    // observations above all bounds included
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds))}
}

func (h *histogram) observe(x float64) {
	h.total++
	h.sum += x
	for i, bound := range h.bounds {
		if x <= bound {
			h.counts[i]++
			return
		}
	}
}

func (h *histogram) copy() histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return c
}

// cumulative returns the number of observations up to each bound.
func (h *histogram) cumulative() map[float64]uint64 {
	buckets := make(map[float64]uint64, len(h.bounds))
	var n uint64
	for i, bound := range h.bounds {
		n += h.counts[i]
		buckets[bound] = n
	}
	return buckets
}
