package store

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// number is the key of an item.
type number int64

// heapItem is an item of a heap.
type heapItem struct {
	name  int
	index int32
}

func newItemHeap() *Heap[number, *heapItem] {
	return &Heap[number, *heapItem]{Index: func(s *heapItem) *int32 { return &s.index }}
}

// sliceHeap is the reference for heap: all items are in a slice that is
// searched.
type sliceHeap struct {
	keys  []number
	items []*heapItem
}

func (s *sliceHeap) find(item *heapItem) int { return slices.Index(s.items, item) }

func (s *sliceHeap) put(key number, item *heapItem) {
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

func (s *sliceHeap) next() number {
	if len(s.keys) == 0 {
		return number(math.MaxInt64)
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
		key := rapid.Map(rapid.IntRange(-5, 20), func(n int) number { return number(n) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, i := key.Draw(t, "key"), item.Draw(t, "item")
				h.Put(k, i)
				reference.put(k, i)
			},
			"remove": func(t *rapid.T) {
				i := item.Draw(t, "item")
				h.Remove(i)
				reference.remove(i)
			},
			"pop": func(t *rapid.T) {
				if len(reference.keys) == 0 {
					t.Skip("empty")
				}
				least := reference.next()
				popped := h.Pop()
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
func sameHeap(t *rapid.T, h *Heap[number, *heapItem], reference *sliceHeap, items []*heapItem) {
	if h.Len() != len(reference.items) || h.Next() != reference.next() {
		t.Fatalf("heap has %d, next %d; reference has %d, next %d", h.Len(), h.Next(), len(reference.items), reference.next())
	}
	for _, item := range items {
		if h.Contains(item) != (reference.find(item) >= 0) {
			t.Fatalf("item %d: in the heap %v", item.name, h.Contains(item))
		}
	}
	seen := 0
	h.Each(func(key number, item *heapItem) {
		seen++
		if i := reference.find(item); i < 0 || reference.keys[i] != key {
			t.Fatalf("item %d is at %d", item.name, key)
		}
	})
	if seen != h.Len() {
		t.Fatalf("each shows %d of %d", seen, h.Len())
	}
}

// TestHeapGrowsAndShrinks fills a heap and empties it again.
func TestHeapGrowsAndShrinks(t *testing.T) {
	h := newItemHeap()
	const n = 3000
	items := make([]heapItem, n)
	for i := range items {
		h.Put(number(i*7919%n), &items[i])
	}
	for want := range number(n) {
		if h.Next() != want {
			t.Fatalf("next is %d, want %d", h.Next(), want)
		}
		h.Pop()
	}
	if h.Len() != 0 || h.Next() != number(math.MaxInt64) {
		t.Errorf("%d are left", h.Len())
	}
}
