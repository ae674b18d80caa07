package spool

import "sync"

// queue is work that waits for a worker: first in, first out, without bound.
// What bounds it is who asks: the receiver of Found and the core.
type queue[T any] struct {
	mu     sync.Mutex
	more   sync.Cond
	items  []T
	head   int // items before it are gone
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.more.L = &q.mu
	return q
}

func (q *queue[T]) push(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.more.Signal()
}

// pop waits for an item. It is false once the queue is closed, whatever is
// left in it.
func (q *queue[T]) pop() (T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.items) && !q.closed {
		q.more.Wait()
	}
	return q.take()
}

// poll is pop that does not wait: it is false also when there is no item.
func (q *queue[T]) poll() (T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.take()
}

// take takes the first item out, if there is one. The lock is held.
func (q *queue[T]) take() (T, bool) {
	var none T
	if q.closed || q.head == len(q.items) {
		return none, false
	}
	item := q.items[q.head]
	q.items[q.head] = none
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 1024 && q.head*2 >= len(q.items):
		// A queue that is never empty would otherwise only grow.
		left := copy(q.items, q.items[q.head:])
		clear(q.items[left:])
		q.items, q.head = q.items[:left], 0
	}
	return item, true
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Broadcast()
}
