package store

import (
	"testing"

	"pgregory.net/rapid"
)

// ref is the number of an item.
type ref uint32

// TestSlab: a number belongs to one item until it is released, an item does not
// move, and a new one is zero.
func TestSlab(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Slab[ref, int]
		allocated := make(map[ref]*int)
		for i := range rapid.IntRange(0, 500).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "alloc") > 0 {
				n, item := s.Alloc()
				if n == 0 || allocated[n] != nil || *item != 0 {
					t.Fatalf("number %d has %d in it, which is allocated: %v", n, *item, allocated[n] != nil)
				}
				allocated[n], *item = item, i
				continue
			}
			for n := ref(1); n <= s.Last; n++ {
				if allocated[n] != nil {
					s.Release(n)
					delete(allocated, n)
					break
				}
			}
		}
		if s.Used() != len(allocated) {
			t.Fatalf("%d are allocated, not %d", s.Used(), len(allocated))
		}
		for n, item := range allocated {
			if s.At(n) != item {
				t.Fatalf("%d has moved", n)
			}
		}
	})
}

// TestPool: a value stays as long as it has a user.
func TestPool(t *testing.T) {
	var p Pool[ref, string]
	n := p.Add("alice")
	p.Retain(n)
	p.Release(n)
	if *p.At(n) != "alice" || p.Users(n) != 1 {
		t.Errorf("%q with %d users", *p.At(n), p.Users(n))
	}
	p.Release(n)
	p.Release(0)
	if p.items.Used() != 0 {
		t.Error("the value stays")
	}
}
