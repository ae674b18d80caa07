package store

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestSlabIndex compares the index with a map.
func TestSlabIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]uint64{1, 64, 1 << 20, 1 << 33}).Draw(t, "distance between keys")
		span := rapid.SampledFrom([]int{10, 500, 5000}).Draw(t, "keys")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := []uint64{0}
		x := NewSlabIndex(func(n ref) uint64 { return keys[n] })
		have := make(map[uint64]ref)
		for range 3 * span {
			key := uint64(r.IntN(span)) * step
			n, found := have[key]
			if got := x.Find(key); got != n {
				t.Fatalf("key %d is found as %d, not %d", key, got, n)
			}
			if found {
				x.Remove(n)
				delete(have, key)
				continue
			}
			keys = append(keys, key)
			n = ref(len(keys) - 1)
			x.Add(n)
			have[key] = n
		}
		if x.n != len(have) {
			t.Fatalf("%d items, not %d", x.n, len(have))
		}
		for key, n := range have {
			if got := x.Find(key); got != n {
				t.Fatalf("key %d is found as %d, not %d", key, got, n)
			}
		}
		listed := 0
		for n := range x.Each {
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
	x := NewSlabIndex(func(n ref) uint64 { return keys[n] })
	for i := ref(1); i <= n; i++ {
		keys[i] = uint64(i)
		x.Add(i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		i := x.Find(keys[1+r.IntN(n)])
		x.Remove(i)
		keys[i] += n
		x.Add(i)
	}
}
