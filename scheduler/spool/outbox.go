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

// grab takes everything out.
func (o *outbox) grab() (results []Result, taken []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	results, taken = o.results, o.taken
	o.results, o.taken = nil, nil
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
			results, ids := s.outbox.grab()
			s.intake.answer(ids)
			taken = append(taken, ids...)
			if batch == nil {
				batch = results
			} else {
				batch = append(batch, results...)
			}
		case out <- batch:
			if again := s.intake.release(taken); len(again) > 0 {
				s.takes.push(again)
			}
			batch, taken = nil, taken[:0]
		}
	}
}
