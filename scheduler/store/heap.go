package store

// The heap: what comes next.

import "math"

// Heap is a priority queue of items, the one with the smallest key first.
// Entries contain the key, so that sifting does not touch the items. Each item
// knows its index, so that it can be removed from anywhere.
//
// An item can be in one heap for each index that it has.
type Heap[K ~int64, T comparable] struct {
	// Index returns where an item keeps its position plus one; 0: not in the
	// heap.
	Index func(T) *int32
	// The keys are apart from the items, so that neither is padded to the size of the other.
	keys  []K
	items []T
}

const fanout = 4

func (h *Heap[K, T]) Len() int { return len(h.keys) }

// Next returns the smallest key, or the greatest of all if the heap is empty.
func (h *Heap[K, T]) Next() K {
	if len(h.keys) == 0 {
		return K(math.MaxInt64)
	}
	return h.keys[0]
}

// First returns the item with the smallest key. The heap must not be empty.
func (h *Heap[K, T]) First() T { return h.items[0] }

// Contains reports whether the item is in this heap, and not in another that uses the same index.
func (h *Heap[K, T]) Contains(item T) bool {
	i := int(*h.Index(item))
	return i != 0 && i <= len(h.items) && h.items[i-1] == item
}

// KeyOf returns the key of an item, which must be in the heap.
func (h *Heap[K, T]) KeyOf(item T) K { return h.keys[*h.Index(item)-1] }

// Each calls f for each item, in no particular order.
func (h *Heap[K, T]) Each(f func(key K, item T)) {
	for i, item := range h.items {
		f(h.keys[i], item)
	}
}

// Put adds an item with a key, or changes the key of an item in the heap.
func (h *Heap[K, T]) Put(key K, item T) {
	position := h.Index(item)
	i := int(*position) - 1
	if i < 0 {
		i = len(h.keys)
		if i == cap(h.keys) {
			h.resize()
		}
		h.keys, h.items = append(h.keys, key), append(h.items, item)
	}
	h.keys[i] = key
	if len(h.keys) == 1 { // as in most heaps
		*position = 1
		return
	}
	h.move(i)
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
	i, last := int(*position)-1, len(h.keys)-1
	*position = 0
	h.keys[i], h.items[i] = h.keys[last], h.items[last]
	h.items[last] = *new(T)
	h.keys, h.items = h.keys[:last], h.items[:last]
	if i != last {
		h.move(i)
	}
	if last+leastRoom < cap(h.keys)/2 {
		h.resize()
	}
}

// leastRoom is for how many entries there is room after resize, at least.
const leastRoom = 4

// resize leaves room for an eighth more than there is: a queue has a million entries, and
// should not take the memory of two.
func (h *Heap[K, T]) resize() {
	room := len(h.keys) + len(h.keys)/8 + leastRoom
	h.keys = append(make([]K, 0, room), h.keys...)
	h.items = append(make([]T, 0, room), h.items...)
}

// move moves the entry at i to its place, after its key has changed.
func (h *Heap[K, T]) move(i int) {
	key, item := h.keys[i], h.items[i]
	for i > 0 {
		parent := (i - 1) / fanout
		if h.keys[parent] <= key {
			break
		}
		h.place(i, h.keys[parent], h.items[parent])
		i = parent
	}
	for i*fanout+1 < len(h.keys) {
		least := h.leastChild(i)
		if h.keys[least] >= key {
			break
		}
		h.place(i, h.keys[least], h.items[least])
		i = least
	}
	h.place(i, key, item)
}

// leastChild returns the child of the entry at i that has the smallest key. There must be one.
func (h *Heap[K, T]) leastChild(i int) int {
	least := i*fanout + 1
	for child := least + 1; child < min((i+1)*fanout+1, len(h.keys)); child++ {
		if h.keys[child] < h.keys[least] {
			least = child
		}
	}
	return least
}

// place puts an entry at i, and tells its item.
func (h *Heap[K, T]) place(i int, key K, item T) {
	h.keys[i], h.items[i] = key, item
	*h.Index(item) = int32(i) + 1
}
