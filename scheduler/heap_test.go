package scheduler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// heapItem is an item of a heap.
type heapItem struct {
	name  int
	index int32
}

func newItemHeap() *heap[*heapItem] {
	return &heap[*heapItem]{index: func(s *heapItem) *int32 { return &s.index }}
}

// sliceHeap is the reference for heap: all items are in a slice that is
// searched.
type sliceHeap struct {
	keys  []instant
	items []*heapItem
}

func (s *sliceHeap) find(item *heapItem) int { return slices.Index(s.items, item) }

func (s *sliceHeap) put(key instant, item *heapItem) {
	if i := s.find(item); i >= 0 {
		s.keys[i] = key
		return
	}
	s.keys, s.items = append(s.keys, key), append(s.items, item)
}

func (s *sliceHeap) remove(item *heapItem) {
	if i := s.find(item); i >= 0 {
		s.keys, s.items = slices.Delete(s.keys, i, i+1), slices.Delete(s.items, i, i+1)
	}
}

func (s *sliceHeap) next() instant {
	if len(s.keys) == 0 {
		return never
	}
	return slices.Min(s.keys)
}

// TestHeapAgainstSlice compares a heap with a sliceHeap.
func TestHeapAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, reference := newItemHeap(), new(sliceHeap)
		items := make([]*heapItem, 40)
		for i := range items {
			items[i] = &heapItem{name: i}
		}
		item := rapid.Map(rapid.IntRange(0, len(items)-1), func(i int) *heapItem { return items[i] })
		key := rapid.Map(rapid.IntRange(-5, 20), func(n int) instant { return instant(n) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, i := key.Draw(t, "key"), item.Draw(t, "item")
				h.put(k, i)
				reference.put(k, i)
			},
			"remove": func(t *rapid.T) {
				i := item.Draw(t, "item")
				h.remove(i)
				reference.remove(i)
			},
			"pop": func(t *rapid.T) {
				if len(reference.keys) == 0 {
					t.Skip("empty")
				}
				least := reference.next()
				popped := h.pop()
				if got := reference.keys[reference.find(popped)]; got != least {
					t.Fatalf("popped an item at %d, the first is at %d", got, least)
				}
				reference.remove(popped)
			},
			"": func(t *rapid.T) { sameHeap(t, h, reference, items) },
		})
	})
}

// sameHeap compares a heap with its reference.
func sameHeap(t *rapid.T, h *heap[*heapItem], reference *sliceHeap, items []*heapItem) {
	if h.len() != len(reference.items) || h.next() != reference.next() {
		t.Fatalf("heap has %d, next %d; reference has %d, next %d", h.len(), h.next(), len(reference.items), reference.next())
	}
	for _, item := range items {
		if h.contains(item) != (reference.find(item) >= 0) {
			t.Fatalf("item %d: in the heap %v", item.name, h.contains(item))
		}
	}
	seen := 0
	h.each(func(key instant, item *heapItem) {
		seen++
		if i := reference.find(item); i < 0 || reference.keys[i] != key {
			t.Fatalf("item %d is at %d", item.name, key)
		}
	})
	if seen != h.len() {
		t.Fatalf("each shows %d of %d", seen, h.len())
	}
}

// TestHeapKeepsItsPages fills a heap across several pages and empties it again.
func TestHeapKeepsItsPages(t *testing.T) {
	h := newItemHeap()
	const n = 3*pageSize + 7
	items := make([]heapItem, n)
	for i := range items {
		h.put(instant(i*7919%n), &items[i])
	}
	for want := range instant(n) {
		if h.next() != want {
			t.Fatalf("next is %d, want %d", h.next(), want)
		}
		h.pop()
	}
	if h.len() != 0 || h.next() != never {
		t.Errorf("%d are left", h.len())
	}
}
