package store

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestLineAgainstSlice compares a line with a sliceHeap. The keys ascend by and large, so that
// items are in the row and in the heap of the line.
func TestLineAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, reference := &Line[number, *heapItem]{Index: func(s *heapItem) *int32 { return &s.index }}, new(sliceHeap)
		l.first = math.MaxUint32 - 10 // the count starts anew soon
		l.end = l.first
		items := make([]*heapItem, 40)
		for i := range items {
			items[i] = &heapItem{name: i}
		}
		item := rapid.Map(rapid.IntRange(0, len(items)-1), func(i int) *heapItem { return items[i] })
		above, latest := rapid.IntRange(-3, 12), number(0)
		remove := func(i *heapItem) {
			l.Remove(i)
			reference.remove(i)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, i := latest+number(above.Draw(t, "above")), item.Draw(t, "item")
				l.Put(k, i)
				reference.put(k, i)
				latest = max(latest, k)
			},
			"remove": func(t *rapid.T) { remove(item.Draw(t, "item")) },
			"remove first": func(*rapid.T) {
				if first, _ := l.First(); first != nil {
					remove(first)
				}
			},
			"": func(t *rapid.T) { sameLine(t, l, reference, items) },
		})
	})
}

// sameLine compares a line with its reference.
func sameLine(t *rapid.T, l *Line[number, *heapItem], reference *sliceHeap, items []*heapItem) {
	first, key := l.First()
	if key != reference.next() || first != nil && reference.keys[reference.find(first)] != key || first == nil && len(reference.items) > 0 {
		t.Fatalf("the first is %v at %d, in the reference %d", first, key, reference.next())
	}
	for _, item := range items {
		if (item.index != 0) != (reference.find(item) >= 0) {
			t.Fatalf("item %d: its index is %d", item.name, item.index)
		}
	}
	if len(l.row) > leastRow && int(l.end-l.first) < len(l.row)/8 {
		t.Fatalf("a row of %d for %d", len(l.row), l.end-l.first)
	}
}

// TestLineWithoutFirst: while the first item stays, the row of a line does not grow for those that
// come and go behind it.
func TestLineWithoutFirst(t *testing.T) {
	l := &Line[number, *heapItem]{Index: func(s *heapItem) *int32 { return &s.index }}
	l.Put(0, new(heapItem))
	var items [10]heapItem
	for n := range 1000 {
		item := &items[n%len(items)]
		l.Remove(item)
		l.Put(number(n), item)
	}
	if len(l.row) > 4*len(items) {
		t.Errorf("the row has %d entries", len(l.row))
	}
}
