package spool

import "sync"

// outbox gathers what the workers have to say, so that none of them waits for
// the receiver and a slow receiver gets few large batches, not many small
// ones. It holds no more than was asked for.
type outbox struct {
	mu      sync.Mutex
	results []Result
	taken   []uint64      // whose taking is at its end with these results
	ready   chan struct{} // capacity 1: there is something
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

// add queues results; taken are the numbers whose taking they end.
func (o *outbox) add(results []Result, taken ...uint64) {
	o.mu.Lock()
	o.results = append(o.results, results...)
	o.taken = append(o.taken, taken...)
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// grab appends what is waiting to the two slices and forgets it.
func (o *outbox) grab(results []Result, taken []uint64) ([]Result, []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	results = append(results, o.results...)
	taken = append(taken, o.taken...)
	clear(o.results)
	o.results, o.taken = o.results[:0], o.taken[:0]
	return results, taken
}

// deliver is the goroutine between the outbox and the receiver. A number
// counts as being taken until the receiver has its result: only then can the
// receiver tell that it is known.
func (s *Spool) deliver() {
	var batch []Result
	var taken []uint64
	for {
		var out chan []Result
		if len(batch) > 0 {
			out = s.results
		}
		select {
		case <-s.done:
			return
		case <-s.outbox.ready:
			batch, taken = s.outbox.grab(batch, taken)
		case out <- batch:
			s.intake.release(taken)
			batch, taken = nil, taken[:0]
		}
	}
}
