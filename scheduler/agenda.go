package scheduler

import "zsched/scheduler/store"

// The agenda: the current time, the actions of this Step, and what is planned
// for later.

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

// take returns a value until the next Step. The caller sets all of it.
func (r *recycled[T]) take() *T {
	if r.used == len(r.values) {
		r.values = append(r.values, new(T))
	}
	r.used++
	return r.values[r.used-1]
}

func (ag *agenda) next() instant {
	return min(ag.timers.Next(), ag.shares.Next())
}
