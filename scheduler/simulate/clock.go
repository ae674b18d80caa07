package simulate

// The clock: virtual time.

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Clock is the virtual time of a simulation and what is planned in it. Several
// nodes and servers may share one.
type Clock struct {
	Rand *rand.Rand // for the servers and the loads

	now     time.Duration // since the beginning
	seed    uint64
	streams uint64 // random number generators made so far
	planned eventQueue
	last    uint64 // the last event.order that was assigned
}

// beginning is the time of the core at the beginning of a simulation.
var beginning = time.Unix(1_800_000_000, 0)

// NewClock returns a clock at the beginning. All random numbers come from the
// seed.
func NewClock(seed uint64) *Clock {
	c := &Clock{seed: seed}
	c.Rand = c.newRand()
	return c
}

// newRand returns a generator whose numbers do not depend on how often the
// others are used.
func (c *Clock) newRand() *rand.Rand {
	c.streams++
	return rand.New(rand.NewPCG(c.seed, c.streams))
}

// Now returns the time since the beginning.
func (c *Clock) Now() time.Duration { return c.now }

// After plans to call run after d. Functions that are planned for the same time
// are called in the order in which they were planned.
func (c *Clock) After(d time.Duration, run func()) {
	c.last++
	heap.Push(&c.planned, event{c.now + d, c.last, run})
}

// Every calls run at once and then again after each interval d.
func (c *Clock) Every(d time.Duration, run func()) {
	run()
	c.After(d, func() { c.Every(d, run) })
}

// Run calls the planned functions, in the order of time, until the condition
// holds.
func (c *Clock) Run(until func() bool) {
	for !until() {
		if len(c.planned) == 0 {
			panic("simulate: nothing is planned, and the simulation has not ended")
		}
		e := heap.Pop(&c.planned).(event)
		c.now = e.at
		e.run()
	}
}

// RunUntil calls the functions that are planned before t.
func (c *Clock) RunUntil(t time.Duration) {
	c.Run(func() bool { return len(c.planned) == 0 || c.planned[0].at >= t })
	c.now = t
}

// between returns a random duration from least to most.
func (c *Clock) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.Rand.Int64N(int64(most-least)+1))
}

// event is something that happens at a time.
type event struct {
	at    time.Duration
	order uint64 // among the events of the same time
	run   func()
}

// eventQueue is a heap of events, the next one first.
type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
