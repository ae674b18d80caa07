package scheduler

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// each yields the items of the index, in no particular order.
func (x *slabIndex[N]) each(yield func(N) bool) {
	var before *indexSegment
	for _, s := range x.segments {
		if s == before {
			continue // a segment with several places is in neighbouring ones
		}
		before = s
		for _, e := range s.entries {
			if e != 0 && !yield(N(e)) {
				return
			}
		}
	}
}

// TestSlabIndex compares the index with a map.
func TestSlabIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]uint64{1, 64, 1 << 20, 1 << 33}).Draw(t, "distance between keys")
		span := rapid.SampledFrom([]int{10, 500, 5000}).Draw(t, "keys")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := []uint64{0}
		x := newSlabIndex(func(n messageRef) uint64 { return keys[n] })
		have := make(map[uint64]messageRef)
		for range 3 * span {
			key := uint64(r.IntN(span)) * step
			n, found := have[key]
			if got := x.find(key); got != n {
				t.Fatalf("key %d is found as %d, not %d", key, got, n)
			}
			if found {
				x.remove(n)
				delete(have, key)
				continue
			}
			keys = append(keys, key)
			n = messageRef(len(keys) - 1)
			x.add(n)
			have[key] = n
		}
		if x.n != len(have) {
			t.Fatalf("%d items, not %d", x.n, len(have))
		}
		for key, n := range have {
			if got := x.find(key); got != n {
				t.Fatalf("key %d is found as %d, not %d", key, got, n)
			}
		}
		listed := 0
		for n := range x.each {
			listed++
			if have[keys[n]] != n {
				t.Fatalf("item %d is listed and was removed", n)
			}
		}
		if listed != len(have) {
			t.Fatalf("%d items are listed, not %d", listed, len(have))
		}
	})
}

// BenchmarkSlabIndex finds, removes and adds items in turn.
func BenchmarkSlabIndex(b *testing.B) {
	const n = 100_000
	keys := make([]uint64, n+1)
	x := newSlabIndex(func(n messageRef) uint64 { return keys[n] })
	for i := messageRef(1); i <= n; i++ {
		keys[i] = uint64(i)
		x.add(i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		i := x.find(keys[1+r.IntN(n)])
		x.remove(i)
		keys[i] += n
		x.add(i)
	}
}
