package limit

// Queues: who waits at a limit, and whose turn it is.

import (
	"cmp"
	"slices"

	"zsched/scheduler/store"
)

// Queue has those who wait at a limit, in lines.
//
// A line has those who are bound alike. They are refused or admitted alike, so nothing looks at
// the others while the first is refused. There are few lines.
type Queue[K comparable] struct {
	lines []*line[K]
	n     int
}

// line has those with one key, in the order in which they began to wait.
type line[K comparable] struct {
	key     K
	queue   *Queue[K]
	turns   *Turns
	waiting store.Heap[Turn, *Place[K]]
}

// Place is the place of one waiter, which waits at one limit at a time, or at none.
type Place[K comparable] struct {
	// Try is called when the waiter is woken. It reports whether the waiter can use its place; if
	// not, the next one gets it.
	Try func() bool
	// since says when the waiter began to wait, by Turns; 0: it has what it waited for. It
	// keeps this when it is woken, so that it comes before those that have not waited as long
	// if it has to wait again, there or elsewhere.
	since Turn
	line  *line[K] // nil: it does not wait
	index int32    // in line.waiting
}

// Turn is a place in the order of all who have begun to wait.
type Turn int64

// Turns counts those who have begun to wait.
type Turns struct {
	last    Turn
	Waiting int // at all limits
}

// Len is how many wait.
func (q *Queue[K]) Len() int { return q.n }

// Waits reports whether the waiter waits at any limit.
func (p *Place[K]) Waits() bool { return p.line != nil }

// WaitsIn reports whether it waits in this queue.
func (p *Place[K]) WaitsIn(q *Queue[K]) bool { return p.line != nil && p.line.queue == q }

// Join makes a waiter wait, unless it waits in that line already.
func (q *Queue[K]) Join(p *Place[K], key K, turns *Turns) {
	if p.WaitsIn(q) && p.line.key == key {
		return
	}
	p.Leave()
	if p.since == 0 {
		turns.last++
		p.since = turns.last
	}
	i := slices.IndexFunc(q.lines, func(l *line[K]) bool { return l.key == key })
	if i < 0 {
		i = len(q.lines)
		l := &line[K]{key: key, queue: q, turns: turns}
		l.waiting.Index = func(p *Place[K]) *int32 { return &p.index }
		q.lines = append(q.lines, l)
	}
	p.line = q.lines[i]
	p.line.waiting.Put(p.since, p)
	q.n++
	turns.Waiting++
}

// Leave ends the wait. The waiter keeps its turn.
func (p *Place[K]) Leave() {
	l := p.line
	if l == nil {
		return
	}
	l.waiting.Remove(p)
	p.line = nil
	l.queue.n--
	l.turns.Waiting--
	if l.waiting.Len() == 0 {
		l.queue.lines = store.Delete(l.queue.lines, slices.Index(l.queue.lines, l))
	}
}

// Served ends the wait and the turn: the waiter has what it waited for, or no longer wants it.
func (p *Place[K]) Served() {
	p.Leave()
	p.since = 0
}

// Wake ends the wait of as many as there is room for, those first that have waited longest, and
// lets them try. free says how many more of those with a key may begin now. Both may make others
// wait or leave.
func (q *Queue[K]) Wake(free func(K) int) {
	if q.n == 0 {
		return
	}
	lines := q.lines
	if len(lines) > 1 {
		lines = slices.Clone(lines)
		slices.SortFunc(lines, func(a, b *line[K]) int { return cmp.Compare(a.waiting.Next(), b.waiting.Next()) })
	}
	for i := range lines {
		l := lines[i]
		for n := free(l.key); n > 0 && l.waiting.Len() > 0; {
			first := l.waiting.First()
			first.Leave()
			if first.Try() {
				n--
			}
		}
	}
}

// Clear ends all waits. The waiters keep their turns.
func (q *Queue[K]) Clear() {
	for len(q.lines) > 0 {
		q.lines[0].waiting.First().Leave()
	}
}
