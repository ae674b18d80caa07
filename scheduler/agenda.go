package scheduler

import (
	"cmp"
	"slices"

	"zsched/scheduler/store"
)

// The agenda: the current time, the actions of this Step, and what is planned
// for later. Also a multiset of times.

// agenda has the current time, the actions of this Step, and heaps of everything that is planned,
// ordered by time.
type agenda struct {
	clock
	startedAt instant                            // of the first Step
	out       []Action                           // of the current Step
	timers    store.Heap[instant, *timer]        // what is planned
	shares    store.Heap[instant, *clusterShare] // ends of allowances
	work      int                                // that wakeTimers has done

	// Where the actions of every turn are kept.
	feeds    recycled[Feed]
	outcomes recycled[Outcome]
}

// beginStep forgets the actions of the Step before.
func (ag *agenda) beginStep() {
	ag.out = ag.out[:0]
	ag.feeds.used, ag.outcomes.used = 0, 0
}

// do appends an action to those of this Step.
func (ag *agenda) do(a Action) { ag.out = append(ag.out, a) }

// recycled keeps values of which each Step has some, so that none is allocated.
type recycled[T any] struct {
	values []*T
	used   int // in this Step
}

// put returns where a value is until the next Step.
func (r *recycled[T]) put(value T) *T {
	if r.used == len(r.values) {
		r.values = append(r.values, new(T))
	}
	kept := r.values[r.used]
	r.used++
	*kept = value
	return kept
}

func (ag *agenda) next() instant {
	return min(ag.timers.Next(), ag.shares.Next())
}

// timeMultiset is a multiset of times with a resolution of one second. The
// earliest is found in constant time. The multiset takes eight bytes for each
// distinct second, which is little even for the many messages of a busy thread.
type timeMultiset struct {
	// counts are in order of time.
	// Invariant: the first one, if there is one, has n above 0.
	counts []timeCount
	empty  int // how many of counts have n = 0
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

// remove removes one occurrence of a time, which must be in the multiset. A count
// that becomes 0 stays until it is the first one, or until more than half of all
// counts are 0. So most removals from the middle of a long slice do not move the
// rest of it.
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

// find looks at the end first, because most times are added there.
func (m *timeMultiset) find(at second) (int, bool) {
	if last := len(m.counts) - 1; last < 0 || m.counts[last].at < at {
		return last + 1, false
	}
	return slices.BinarySearchFunc(m.counts, at, func(c timeCount, at second) int { return cmp.Compare(c.at, at) })
}

// earliest returns the earliest time; 0: the set is empty.
func (m *timeMultiset) earliest() second {
	if len(m.counts) == 0 {
		return 0
	}
	return m.counts[0].at
}
