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

// pop waits for an item, and calls idle before it waits. It returns false once the queue
// is closed, even if items are left.
func (q *workQueue[T]) pop(idle func()) (T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		idle()
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

func (q *workQueue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Broadcast()
}

// work is a worker that runs functions from a queue, while the postoffice is ours.
func (s *Spool) work(queue *workQueue[func()]) {
	for {
		do, ok := queue.pop(s.queue.flush)
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

// keptLimit bounds the results that wait for a worker to be idle.
const keptLimit = 16

// add queues results and wakes the receiver.
func (q *resultQueue) add(results ...Result) {
	q.mu.Lock()
	q.results = append(q.results, results...)
	q.mu.Unlock()
	wake(q.ready)
}

// keep queues the result of a worker that calls flush before it waits: waking the receiver
// costs a good part of the time of an unlink.
func (q *resultQueue) keep(result Result) {
	q.mu.Lock()
	q.results = append(q.results, result)
	full := len(q.results) >= keptLimit
	q.mu.Unlock()
	if full {
		wake(q.ready)
	}
}

// flush wakes the receiver if there are results.
func (q *resultQueue) flush() {
	q.mu.Lock()
	some := len(q.results) > 0
	q.mu.Unlock()
	if some {
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
