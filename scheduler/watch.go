package scheduler

import (
	"math"

	"zsched/scheduler/store"
)

// watch has the times at which vertices must be looked at, because they may have
// expired. Nearly all of them are fed long before. So setting a time is cheap and a
// vertex that is fed need not be taken out: while an agent has it, its time means
// nothing. In exchange, the earliest time is known only roughly, and a search for the
// vertices of one second looks at all times of a block.
type watch struct {
	times store.Column[vertexRef, second] // 0: none
	// earliest has for each block of times one that is not after any of them. first is
	// the same for all blocks. Both are noLook if there is none.
	earliest []second
	first    second
}

// blockBits says that a block has 256 times.
const blockBits = 8

const noLook second = math.MaxUint32 // later than every time

// set plans a look at a vertex, or none if at is noDate.
func (w *watch) set(n vertexRef, at date) {
	if at == noDate {
		w.times.Set(n, 0)
		return
	}
	s := at.ceilSecond()
	w.times.Set(n, s)
	block := int(n >> blockBits)
	for block >= len(w.earliest) {
		w.earliest = append(w.earliest, noLook)
	}
	if s < w.earliest[block] {
		w.earliest[block] = s
		w.first = min(w.first, s)
	}
}

// at returns when a vertex is to be looked at, or noDate.
func (w *watch) at(n vertexRef) date {
	if !w.times.Has(n) || w.times.At(n) == 0 {
		return noDate
	}
	return w.times.At(n).date()
}

// next returns a time before which take finds nothing, or noDate.
func (w *watch) next() date {
	if w.first == noLook {
		return noDate
	}
	return w.first.date()
}

// take forgets the times that have come, and returns their vertices; some of these may
// not expire any more. It stops after the block in which it has found enough.
func (w *watch) take(now date, enough int) []vertexRef {
	var found []vertexRef
	w.first = noLook
	for block, earliest := range w.earliest {
		if earliest.date() <= now && len(found) < enough {
			found = w.takeBlock(block, now, found)
		}
		w.first = min(w.first, w.earliest[block])
	}
	return found
}

// takeBlock does the same with one block.
func (w *watch) takeBlock(block int, now date, found []vertexRef) []vertexRef {
	w.earliest[block] = noLook
	for n := vertexRef(block << blockBits); n < vertexRef((block+1)<<blockBits); n++ {
		switch s := w.times.At(n); {
		case s == 0:
		case s.date() <= now:
			w.times.Set(n, 0)
			found = append(found, n)
		default:
			w.earliest[block] = min(w.earliest[block], s)
		}
	}
	return found
}
