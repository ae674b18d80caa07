package store

import "math"

// Line is a priority queue, as a Heap is, for items of which most come in the order of their keys.
// Those are in a row: to put one behind the last, or to remove the first, touches no other
// item. In a Heap, it touches several, which are scattered in memory.
type Line[K ~int64, T comparable] struct {
	// Index returns where an item keeps its place: in the row, ^number; in late, as in a Heap; 0: in
	// neither. An item can be in one line for each index that it has.
	Index func(T) *int32
	// row is a ring of entries. Their number is a power of two. From row[first] to row[end-1], the
	// keys ascend. What was removed from between has left its key. Both count on and on.
	row        []lineEntry[K, T]
	first, end uint32
	items      int         // in row
	late       *Heap[K, T] // items that came after greater keys; nil: none ever did
}

// lineEntry has no item if that was removed.
type lineEntry[K ~int64, T comparable] struct {
	key  K
	item T
}

// leastRow is how many entries a row has, if it has any.
const leastRow = 4

func (l *Line[K, T]) at(n uint32) *lineEntry[K, T] { return &l.row[n&uint32(len(l.row)-1)] }

// First returns the item with the smallest key, and that. If the line is empty, it returns no item
// and the greatest of all keys.
func (l *Line[K, T]) First() (item T, key K) {
	key = K(math.MaxInt64)
	if l.items > 0 {
		e := l.at(l.first)
		item, key = e.item, e.key
	}
	if l.late != nil && l.late.Next() < key {
		return l.late.First(), l.late.Next()
	}
	return item, key
}

// Put adds an item with a key, or changes the key of an item in the line.
func (l *Line[K, T]) Put(key K, item T) {
	index := l.Index(item)
	if *index < 0 {
		if l.at(uint32(^*index)).key == key {
			return
		}
		l.Remove(item)
	}
	if *index > 0 || l.items > 0 && key < l.at(l.end-1).key {
		l.putLate(key, item)
		return
	}
	if int(l.end-l.first) == len(l.row) {
		l.makeRoom()
	}
	*l.at(l.end) = lineEntry[K, T]{key, item}
	*index = ^int32(l.end & math.MaxInt32)
	l.end++
	l.items++
}

func (l *Line[K, T]) putLate(key K, item T) {
	if l.late == nil {
		l.late = &Heap[K, T]{Index: l.Index}
	}
	l.late.Put(key, item)
}

// Remove removes an item if it is in the line.
func (l *Line[K, T]) Remove(item T) {
	index := l.Index(item)
	if *index > 0 {
		l.late.Remove(item)
	}
	if *index >= 0 {
		return
	}
	var none T
	l.at(uint32(^*index)).item = none
	*index = 0
	l.items--
	for l.first != l.end && l.at(l.first).item == none {
		l.first++
	}
	if int(l.end-l.first) < len(l.row)/8 && len(l.row) > leastRow {
		l.resize(len(l.row) / 2)
	}
}

// makeRoom makes room in a full row: a larger one, or the same if most of its entries have no items.
func (l *Line[K, T]) makeRoom() {
	if l.items > len(l.row)/2 || len(l.row) == 0 {
		l.resize(max(leastRow, 2*len(l.row)))
		return
	}
	var none T
	for ; l.first != l.end; l.first++ {
		if e := l.at(l.first); e.item != none {
			l.putLate(e.key, e.item)
		}
	}
	l.items = 0
}

func (l *Line[K, T]) resize(n int) {
	before := *l
	l.row = make([]lineEntry[K, T], n)
	for i := l.first; i != l.end; i++ {
		*l.at(i) = *before.at(i)
	}
}
