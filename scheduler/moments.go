package scheduler

import (
	"math"
	"slices"
)

// moments is a bag of times, to the second, that knows the earliest. It costs
// as much as there are different seconds in it, which is little for the many
// messages of a busy thread.
type timeMultiset struct {
	// counts are in order of time.
	// Invariant: the first, if there is one, is not empty.
	counts []timeCount
	empty  int // how many of them have a count of 0
}

type timeCount struct {
	at second
	n  uint32
}

func (m *timeMultiset) add(at second) {
	i, found := m.find(at)
	switch {
	case !found:
		m.counts = slices.Insert(m.counts, i, timeCount{at, 1})
		return
	case m.counts[i].n == 0:
		m.empty--
	}
	m.counts[i].n++
}

// remove takes out one of that time, which must be there. Emptied counts stay
// until they are the first or half of all, so that taking out is quick.
func (m *timeMultiset) remove(at second) {
	i, _ := m.find(at)
	m.counts[i].n--
	if m.counts[i].n > 0 {
		return
	}
	m.empty++
	if m.empty > len(m.counts)/2 {
		m.counts = slices.DeleteFunc(m.counts, func(c timeCount) bool { return c.n == 0 })
		m.empty = 0
	}
	for len(m.counts) > 0 && m.counts[0].n == 0 {
		m.counts = m.counts[1:]
		m.empty--
	}
	if len(m.counts) == 0 {
		m.counts = nil
	}
}

// find looks at the end first, where most are added.
func (m *timeMultiset) find(at second) (int, bool) {
	if last := len(m.counts) - 1; last < 0 || m.counts[last].at < at {
		return last + 1, false
	} else if m.counts[last].at == at {
		return last, true
	}
	return slices.BinarySearchFunc(m.counts, at, func(c timeCount, at second) int { return int(int64(c.at) - int64(at)) })
}

// earliest returns the earliest of the times, never when there is none.
func (m *timeMultiset) earliest() instant {
	if len(m.counts) == 0 {
		return never
	}
	return m.counts[0].at.instant()
}

// rateMinutes is the span over which a rate forgets.
const rateMinutes = 5

// rate is how many things happen in a minute. What lies rateMinutes back
// counts a third of what happens now.
type rate struct {
	perMinute float64 // at
	at        instant
}

func (r *rate) count(now instant) {
	r.perMinute = r.now(now) + 1.0/rateMinutes
	r.at = now
}

func (r *rate) now(now instant) float64 {
	if r.at == now {
		return r.perMinute
	}
	return r.perMinute * math.Exp(-now.since(r.at).Minutes()/rateMinutes)
}
