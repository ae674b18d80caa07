package limit

import (
	"cmp"
	"slices"

	"zsched/scheduler/store"
)

// Queue has those who wait at a limit, in lines.
type Queue[W any] struct {
	lines []*line[W]
	n     int
}

// Key names a line. Those in one line are refused or admitted alike, so nothing looks at the
// others while the first is refused. There are few lines.
type Key struct {
	Most  int // of their links
	Group any // what else they have in common
}

// line has those with one key, in the order in which they began to wait.
type line[W any] struct {
	key     Key
	queue   *Queue[W]
	waiting store.Heap[Turn, *Place[W]]
}

// Place is the place of one waiter, which waits at one limit at a time, or at none.
type Place[W any] struct {
	Who W
	// since says when the waiter began to wait, by Turns; 0: it has what it waited for. It
	// keeps this when it is woken, so that it comes before those that have not waited as long
	// if it has to wait again, there or elsewhere.
	since Turn
	line  *line[W] // nil: it does not wait
	index int32    // in line.waiting
}

// Turn is a place in the order of all who have begun to wait.
type Turn int64

// Turns counts those who have begun to wait.
type Turns struct{ last Turn }

// Len is how many wait.
func (q *Queue[W]) Len() int { return q.n }

// Waits reports whether the waiter waits at any limit.
func (p *Place[W]) Waits() bool { return p.line != nil }

// WaitsIn reports whether it waits in this queue.
func (p *Place[W]) WaitsIn(q *Queue[W]) bool { return p.line != nil && p.line.queue == q }

// Join makes a waiter wait, unless it waits in that line already.
func (q *Queue[W]) Join(p *Place[W], key Key, turns *Turns) {
	if p.WaitsIn(q) && p.line.key == key {
		return
	}
	p.Leave()
	if p.since == 0 {
		turns.last++
		p.since = turns.last
	}
	i := slices.IndexFunc(q.lines, func(l *line[W]) bool { return l.key == key })
	if i < 0 {
		i = len(q.lines)
		l := &line[W]{key: key, queue: q}
		l.waiting.Index = func(p *Place[W]) *int32 { return &p.index }
		q.lines = append(q.lines, l)
	}
	p.line = q.lines[i]
	p.line.waiting.Put(p.since, p)
	q.n++
}

// Leave ends the wait. The waiter keeps its turn.
func (p *Place[W]) Leave() {
	l := p.line
	if l == nil {
		return
	}
	l.waiting.Remove(p)
	p.line = nil
	l.queue.n--
	if l.waiting.Len() == 0 {
		i := slices.Index(l.queue.lines, l)
		l.queue.lines = slices.Delete(l.queue.lines, i, i+1)
	}
}

// Served ends the wait and the turn: the waiter has what it waited for, or no longer wants it.
func (p *Place[W]) Served() {
	p.Leave()
	p.since = 0
}

// Wake ends the wait of as many as there is room for and calls wake for each, those first
// that have waited longest. free says how many more of a line, which the given waiter leads,
// may begin now. wake reports whether the waiter can use its place; if not, the next one gets
// it. Both may make others wait or leave.
func (q *Queue[W]) Wake(free func(W) int, wake func(W) bool) {
	if q.n == 0 {
		return
	}
	lines := q.lines
	if len(lines) > 1 {
		lines = slices.Clone(lines)
		slices.SortFunc(lines, func(a, b *line[W]) int { return cmp.Compare(a.waiting.Next(), b.waiting.Next()) })
	}
	for i := range lines {
		l := lines[i]
		if l.waiting.Len() == 0 {
			continue // what was woken has emptied the line
		}
		for n := free(l.waiting.First().Who); n > 0 && l.waiting.Len() > 0; {
			who := l.waiting.First().Who
			l.waiting.First().Leave()
			if wake(who) {
				n--
			}
		}
	}
}

// Clear ends all waits. The waiters keep their turns.
func (q *Queue[W]) Clear() {
	for len(q.lines) > 0 {
		q.lines[0].waiting.First().Leave()
	}
}

// Each calls f for the first of each line. It must not change the queue.
func (q *Queue[W]) Each(f func(first W)) {
	for _, l := range q.lines {
		f(l.waiting.First().Who)
	}
}
