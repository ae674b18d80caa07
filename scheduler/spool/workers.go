package spool

// Queues between the receiver and the workers: of work, and of results.

import "sync"

// workQueue is an unbounded queue of work, first in, first out. The receiver of
// Found and the core bound it by how much they ask for.
type workQueue[T any] struct {
	mu     sync.Mutex
	more   sync.Cond
	items  []T
	head   int // items before it are gone
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
	for q.head == len(q.items) && !q.closed {
		q.more.Wait()
	}
	return q.next()
}

// poll is pop without waiting: it also returns false if there is no item.
func (q *workQueue[T]) poll() (T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next()
}

// next removes the first item, if there is one. The lock must be held.
func (q *workQueue[T]) next() (T, bool) {
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
// slow receiver gets few large batches. It holds no more than was asked for. It
// also counts the names that were passed to Load and those whose result the
// receiver has: the difference is the backlog of a sweep.
type resultQueue struct {
	mu       sync.Mutex
	results  []Result
	names    int           // that these results answer
	ready    chan struct{} // capacity 1: there are results
	asked    uint64        // names ever given to Load
	answered uint64        // names whose result the receiver has
	progress chan struct{} // capacity 1: answered has grown
}

func newResultQueue() *resultQueue {
	return &resultQueue{ready: make(chan struct{}, 1), progress: make(chan struct{}, 1)}
}

// add queues results, which answer this many names.
func (q *resultQueue) add(results []Result, names int) {
	q.mu.Lock()
	q.results = append(q.results, results...)
	q.names += names
	q.mu.Unlock()
	wake(q.ready)
}

// removeAll removes and returns everything.
func (q *resultQueue) removeAll() (results []Result, names int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	results, names = q.results, q.names
	q.results, q.names = nil, 0
	return results, names
}

func (q *resultQueue) ask(names int) {
	q.mu.Lock()
	q.asked += uint64(names)
	q.mu.Unlock()
}

func (q *resultQueue) answer(names int) {
	q.mu.Lock()
	q.answered += uint64(names)
	q.mu.Unlock()
	if names > 0 {
		wake(q.progress)
	}
}

// counts returns how many names were passed to Load, and for how many of them the
// receiver has the result.
func (q *resultQueue) counts() (asked, answered uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked, q.answered
}

// sendResults is the goroutine that gives results to the receiver.
func (s *Spool) sendResults() {
	var batch []Result
	names := 0
	for {
		var out chan []Result
		if len(batch) > 0 {
			out = s.results
		}
		select {
		case <-s.done:
			return
		case <-s.queue.ready:
			results, more := s.queue.removeAll()
			names += more
			if batch == nil {
				batch = results
			} else {
				batch = append(batch, results...)
			}
		case out <- batch:
			s.queue.answer(names)
			batch, names = nil, 0
		}
	}
}
