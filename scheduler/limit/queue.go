package limit

import (
	"cmp"
	"slices"
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
	key         Key
	queue       *Queue[W]
	first, last *Place[W]
}

// Place is the place of one waiter, which waits at one limit at a time, or at none.
type Place[W any] struct {
	Who W
	// since says when the waiter began to wait, by Turns; 0: it has what it waited for. It
	// keeps this when it is woken, so that it comes before those that have not waited as long
	// if it has to wait again, there or elsewhere.
	since         uint64
	line          *line[W] // nil: it does not wait
	before, after *Place[W]
}

// Turns counts those who have begun to wait.
type Turns struct{ last uint64 }

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
		q.lines = append(q.lines, &line[W]{key: key, queue: q})
	}
	q.lines[i].insert(p)
	q.n++
}

// insert puts a waiter where it belongs: most often at the end, or, if it was woken, at the
// beginning.
func (l *line[W]) insert(p *Place[W]) {
	before := l.last
	if l.first != nil && l.first.since > p.since {
		before = nil
	}
	for before != nil && before.since > p.since {
		before = before.before
	}
	after := l.first
	if before != nil {
		after = before.after
		before.after = p
	} else {
		l.first = p
	}
	if after != nil {
		after.before = p
	} else {
		l.last = p
	}
	p.line, p.before, p.after = l, before, after
}

// Leave ends the wait. The waiter keeps its turn.
func (p *Place[W]) Leave() {
	l := p.line
	if l == nil {
		return
	}
	if p.before != nil {
		p.before.after = p.after
	} else {
		l.first = p.after
	}
	if p.after != nil {
		p.after.before = p.before
	} else {
		l.last = p.before
	}
	p.line, p.before, p.after = nil, nil, nil
	l.queue.n--
	if l.first == nil {
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
		slices.SortFunc(lines, func(a, b *line[W]) int { return cmp.Compare(a.first.since, b.first.since) })
	}
	for i := range lines {
		l := lines[i]
		if l.first == nil {
			continue // what was woken has emptied the line
		}
		for n := free(l.first.Who); n > 0 && l.first != nil; {
			who := l.first.Who
			l.first.Leave()
			if wake(who) {
				n--
			}
		}
	}
}

// Clear ends all waits. The waiters keep their turns.
func (q *Queue[W]) Clear() {
	for len(q.lines) > 0 {
		q.lines[0].first.Leave()
	}
}

// Each calls f for the first of each line. It must not change the queue.
func (q *Queue[W]) Each(f func(first W)) {
	for _, l := range q.lines {
		f(l.first.Who)
	}
}
