package store

import "math"

// Heap is a priority queue of items, the one with the smallest key first.
// Entries contain the key, so that sifting does not touch the items. Each item
// knows its index, so that it can be removed from anywhere. Entries are in pages
// and not in one slice, so that growing to a million entries never copies them
// all at once. The first entry is in the heap itself: most heaps have no other, and
// looking at the first touches no page.
//
// An item can be in one heap for each index that it has.
type Heap[K ~int64, T comparable] struct {
	// Index returns where an item keeps its position plus one; 0: not in the
	// heap.
	Index func(T) *int32
	root  entry[K, T]
	pages []page[K, T] // of the entries after root
	n     int
}

type entry[K ~int64, T comparable] struct {
	key  K
	item T
}

// page has the keys of its entries apart from their items, so that neither is padded to the
// size of the other.
type page[K ~int64, T any] struct {
	keys  []K
	items []T
}

const (
	pageBits = 10
	pageSize = 1 << pageBits
	fanout   = 4
)

func (h *Heap[K, T]) at(i int) entry[K, T] {
	if i == 0 {
		return h.root
	}
	i--
	p, i := &h.pages[i>>pageBits], i&(pageSize-1)
	return entry[K, T]{p.keys[i], p.items[i]}
}

// key returns the key of the entry at i.
func (h *Heap[K, T]) key(i int) K {
	if i == 0 {
		return h.root.key
	}
	i--
	return h.pages[i>>pageBits].keys[i&(pageSize-1)]
}

// set puts an entry at i. Its item does not know it yet.
func (h *Heap[K, T]) set(i int, e entry[K, T]) {
	if i == 0 {
		h.root = e
		return
	}
	i--
	p, i := &h.pages[i>>pageBits], i&(pageSize-1)
	p.keys[i], p.items[i] = e.key, e.item
}

// place puts an entry at i, and tells its item.
func (h *Heap[K, T]) place(i int, e entry[K, T]) {
	h.set(i, e)
	*h.Index(e.item) = int32(i) + 1
}

func (h *Heap[K, T]) Len() int { return h.n }

// Next returns the smallest key, or the greatest of all if the heap is empty.
func (h *Heap[K, T]) Next() K {
	if h.n == 0 {
		return K(math.MaxInt64)
	}
	return h.root.key
}

// First returns the item with the smallest key. The heap must not be empty.
func (h *Heap[K, T]) First() T { return h.root.item }

// Contains reports whether the item is in this heap, and not in another that uses the same index.
func (h *Heap[K, T]) Contains(item T) bool {
	i := int(*h.Index(item))
	return i != 0 && i <= h.n && h.at(i-1).item == item
}

// KeyOf returns the key of an item, which must be in the heap.
func (h *Heap[K, T]) KeyOf(item T) K { return h.key(int(*h.Index(item)) - 1) }

// Each calls f for each item, in no particular order.
func (h *Heap[K, T]) Each(f func(key K, item T)) {
	for i := range h.n {
		e := h.at(i)
		f(e.key, e.item)
	}
}

// Put adds an item with a key, or changes the key of an item in the heap.
func (h *Heap[K, T]) Put(key K, item T) {
	if position := *h.Index(item); position != 0 {
		i := int(position) - 1
		h.set(i, entry[K, T]{key, item})
		h.move(i)
		return
	}
	h.grow()
	i := h.n
	h.n++
	h.set(i, entry[K, T]{key, item})
	h.up(i)
}

// Pop removes the item with the smallest key. The heap must not be empty.
func (h *Heap[K, T]) Pop() T {
	item := h.First()
	h.Remove(item)
	return item
}

// Remove removes an item if it is in the heap.
func (h *Heap[K, T]) Remove(item T) {
	position := h.Index(item)
	if *position == 0 {
		return
	}
	i := int(*position) - 1
	*position = 0
	h.n--
	last := h.at(h.n)
	h.set(h.n, entry[K, T]{})
	if i != h.n {
		h.set(i, last)
		h.move(i)
	}
	h.shrink()
}

// grow makes room for one more entry. The first page grows as a slice does,
// because most heaps are small.
func (h *Heap[K, T]) grow() {
	if h.n == 0 {
		return
	}
	last := (h.n - 1) >> pageBits
	if last == len(h.pages) {
		size := pageSize
		if last == 0 {
			size = fanout
		}
		h.pages = append(h.pages, page[K, T]{make([]K, size), make([]T, size)})
		return
	}
	if p := &h.pages[last]; (h.n-1)&(pageSize-1) == len(p.keys) {
		size := min(2*len(p.keys), pageSize)
		larger := page[K, T]{make([]K, size), make([]T, size)}
		copy(larger.keys, p.keys)
		copy(larger.items, p.items)
		*p = larger
	}
}

// shrink frees a page when two are empty, so that a queue whose length varies
// around the edge of a page does not allocate each time.
func (h *Heap[K, T]) shrink() {
	if used := (max(0, h.n-1) + pageSize - 1) >> pageBits; len(h.pages) > used+1 {
		h.pages[len(h.pages)-1] = page[K, T]{}
		h.pages = h.pages[:len(h.pages)-1]
	}
}

// up moves the entry at i to its place among its ancestors.
func (h *Heap[K, T]) up(i int) {
	e := h.at(i)
	for i > 0 {
		parent := (i - 1) / fanout
		if h.key(parent) <= e.key {
			break
		}
		h.place(i, h.at(parent))
		i = parent
	}
	h.place(i, e)
}

// down moves the entry at i to its place among its descendants.
func (h *Heap[K, T]) down(i int) {
	e := h.at(i)
	for {
		child := i*fanout + 1
		if child >= h.n {
			break
		}
		// The children of an entry are side by side in one page.
		first := child - 1
		keys := h.pages[first>>pageBits].keys[first&(pageSize-1):]
		keys = keys[:min(fanout, h.n-child)]
		least := 0
		for c := 1; c < len(keys); c++ {
			if keys[c] < keys[least] {
				least = c
			}
		}
		if keys[least] >= e.key {
			break
		}
		h.place(i, h.at(child+least))
		i = child + least
	}
	h.place(i, e)
}

// move moves the entry at i to its place, after its key has changed.
func (h *Heap[K, T]) move(i int) {
	if i > 0 && h.key(i) < h.key((i-1)/fanout) {
		h.up(i)
		return
	}
	h.down(i)
}
