package cluster

import "container/heap"

// queue holds items by the time at which something must be done about them, the
// earliest first.
type queue []*timed

// timed is a place in a queue.
type timed struct {
	at    boot
	index int // in the queue, from 1; 0: it is not there
	item  any
}

func (q *queue) Len() int           { return len(*q) }
func (q *queue) Less(i, j int) bool { return (*q)[i].at < (*q)[j].at }
func (q *queue) Swap(i, j int) {
	(*q)[i], (*q)[j] = (*q)[j], (*q)[i]
	(*q)[i].index, (*q)[j].index = i+1, j+1
}

// Push is for package heap.
func (q *queue) Push(x any) {
	t := x.(*timed)
	*q = append(*q, t)
	t.index = len(*q)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = 0
	return t
}

// put plans t for a time; never takes it out of the queue.
func (q *queue) put(t *timed, at boot) {
	t.at = at
	switch {
	case at == never && t.index > 0:
		heap.Remove(q, t.index-1)
	case at == never:
	case t.index > 0:
		heap.Fix(q, t.index-1)
	default:
		heap.Push(q, t)
	}
}

// next returns the earliest time, or never.
func (q *queue) next() boot {
	if len(*q) == 0 {
		return never
	}
	return (*q)[0].at
}

// pop takes out the earliest item.
func (q *queue) pop() any { return heap.Pop(q).(*timed).item }
