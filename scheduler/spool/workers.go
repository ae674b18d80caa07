package spool

// Queues between the receiver and the workers: of work, and of results.

import "sync"

// workQueue is an unbounded queue of work, first in, first out. The receiver of
// Found and the core bound it by how much they ask for.
type workQueue[T any] struct {
	mu     sync.Mutex
	more   sync.Cond
	items  []T
	closed bool
}

func newWorkQueue[T any]() *workQueue[T] {
	q := &workQueue[T]{}
	q.more.L = &q.mu
	return q
}

func (q *workQueue[T]) push(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.more.Signal()
}

// pop waits for an item. It returns false once the queue is closed, even if items
// are left.
func (q *workQueue[T]) pop() (T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.more.Wait()
	}
	var item T
	if q.closed {
		return item, false
	}
	item, q.items[0] = q.items[0], item
	q.items = q.items[1:]
	return item, true
}

// isEmpty reports whether no item waits.
func (q *workQueue[T]) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

func (q *workQueue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Broadcast()
}

// work is a worker that runs functions from a queue, while the postoffice is ours.
func (s *Spool) work(queue *workQueue[func()]) {
	for {
		do, ok := queue.pop()
		if !ok || !s.standing.owned() {
			return
		}
		do()
	}
}

// resultQueue collects results, so that no worker waits for the receiver and a
// slow receiver gets few large batches. It holds no more than was asked for.
type resultQueue struct {
	mu      sync.Mutex
	results []Result
	ready   chan struct{} // capacity 1: there are results
}

// add queues results.
func (q *resultQueue) add(results ...Result) { q.addTogether(1, results...) }

// togetherLimit bounds the results that wait for more.
const togetherLimit = 16

// addTogether queues results, and wakes the receiver when this many are there: waking it costs
// a good part of the time of an unlink.
func (q *resultQueue) addTogether(atLeast int, results ...Result) {
	q.mu.Lock()
	q.results = append(q.results, results...)
	enough := len(q.results) >= atLeast
	q.mu.Unlock()
	if enough {
		wake(q.ready)
	}
}

// removeAll removes and returns everything.
func (q *resultQueue) removeAll() (results []Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	results, q.results = q.results, nil
	return results
}

// sendResults is the goroutine that gives results to the receiver.
func (s *Spool) sendResults() {
	var batch []Result
	for {
		var out chan []Result
		if len(batch) > 0 {
			out = s.results
		}
		select {
		case <-s.done:
			return
		case <-s.queue.ready:
			batch = append(batch, s.queue.removeAll()...)
		case out <- batch:
			batch = nil
		}
	}
}

// wake sends to a channel of capacity 1, unless it is full already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
