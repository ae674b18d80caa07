package scheduler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// seated is something a heap can hold.
type heapItem struct {
	name int
	seat int32
}

func newItemHeap() *heap[*heapItem] {
	return &heap[*heapItem]{index: func(s *heapItem) *int32 { return &s.seat }}
}

// slow is the heap's dumb twin: everything in a slice, looked through.
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

func TestHeapAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, twin := newItemHeap(), new(sliceHeap)
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
				twin.put(k, i)
			},
			"remove": func(t *rapid.T) {
				i := item.Draw(t, "item")
				h.remove(i)
				twin.remove(i)
			},
			"pop": func(t *rapid.T) {
				if len(twin.keys) == 0 {
					t.Skip("empty")
				}
				least := twin.next()
				popped := h.pop()
				if got := twin.keys[twin.find(popped)]; got != least {
					t.Fatalf("popped an item at %d, the first is at %d", got, least)
				}
				twin.remove(popped)
			},
			"": func(t *rapid.T) { sameHeap(t, h, twin, items) },
		})
	})
}

// sameHeap compares a heap with its twin.
func sameHeap(t *rapid.T, h *heap[*heapItem], twin *sliceHeap, items []*heapItem) {
	if h.len() != len(twin.items) || h.next() != twin.next() {
		t.Fatalf("heap has %d, next %d; twin has %d, next %d", h.len(), h.next(), len(twin.items), twin.next())
	}
	for _, item := range items {
		if h.contains(item) != (twin.find(item) >= 0) {
			t.Fatalf("item %d: in the heap %v", item.name, h.contains(item))
		}
	}
	seen := 0
	h.each(func(key instant, item *heapItem) {
		seen++
		if i := twin.find(item); i < 0 || twin.keys[i] != key {
			t.Fatalf("item %d is at %d", item.name, key)
		}
	})
	if seen != h.len() {
		t.Fatalf("each shows %d of %d", seen, h.len())
	}
}

// TestHeapKeepsItsPages fills a heap over the edges of its pages and empties
// it again.
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
