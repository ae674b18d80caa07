package queue

// Goroutines that wait for the same kind of work have it done together, for example a sync of the disk: while one batch is worked on, the next one collects. The
// goroutine that came first does the work for all of its batch, so no goroutine of its own
// is needed.
//
//	Do(a) ──► works on a ────────────┐
//	   Do(b) ──► waits, then works on b and c ──┐
//	      Do(c) ──► waits ──────────────────────┴► returns

import "sync"

// Group collects items and works on them in batches. Its fields are set before the first
// Do.
type Group[T any] struct {
	// Work works on a batch, in the order in which the items came. It runs once at a
	// time.
	Work func(batch []T)
	// Gather, if not nil, is called before a batch is closed, to wait for items that
	// are about to come.
	Gather func()
	// Max is the maximum number of items of a batch; 0: no limit.
	Max int

	mu      sync.Mutex
	busy    bool        // somebody works on a batch, or is about to
	waiting []*entry[T] // for the next one
}

// entry is an item whose goroutine waits.
type entry[T any] struct {
	item T
	// turn receives true when the goroutine has to work on the next batch, and false
	// when the item has been worked on.
	turn chan bool
}

// Do returns when Work has worked on the item.
func (g *Group[T]) Do(item T) {
	e := &entry[T]{item, make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	first := !g.busy
	g.busy = true
	g.mu.Unlock()
	if first || <-e.turn {
		g.lead()
	}
}

// Waiting returns how many items wait for the next batch.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// lead works on the items that wait, the first of which is that of this goroutine. If more
// have come meanwhile, the goroutine of the first of them leads the next batch.
func (g *Group[T]) lead() {
	if g.Gather != nil {
		g.Gather()
	}
	g.mu.Lock()
	n := len(g.waiting)
	if g.Max > 0 {
		n = min(n, g.Max)
	}
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	items := make([]T, n)
	for i, e := range batch {
		items[i] = e.item
	}
	g.Work(items)
	for _, e := range batch[1:] {
		e.turn <- false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = len(g.waiting) > 0; g.busy {
		g.waiting[0].turn <- true
	} else {
		g.waiting = nil
	}
}
