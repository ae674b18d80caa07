package store

// The index of a slab: items by key.

import (
	"math/bits"
	"math/rand/v2"
)

// SlabIndex finds the items of a slab by a key, like a map from keys to numbers. It
// takes about 15 bytes for each item, and a search touches one or two cache lines:
// an entry has the hash beside the number, so that only items with the same hash are
// looked at.
//
// It is a table with linear probing. It becomes twice as large when it is too full: of
// ten million items, that takes a fraction of a second.
//
// The hash depends on a number drawn at random, so that nobody can choose keys with
// the same hash. The order of the entries is therefore not reproducible, and nothing
// may depend on it.
type SlabIndex[N ~uint32] struct {
	key     func(N) uint64 // of an item
	entries []indexEntry
	shift   uint // of a hash, to the place where a search for it begins
	seed    uint64
	n       int
}

// indexEntry is a hash and, in the lower half, the number of an item; 0: empty.
type indexEntry uint64

func (e indexEntry) hash() uint32 { return uint32(e >> 32) }

// firstBits is for the size of an empty table, 1 << firstBits.
const firstBits = 6

func NewSlabIndex[N ~uint32](key func(N) uint64) SlabIndex[N] {
	return SlabIndex[N]{key: key, entries: make([]indexEntry, 1<<firstBits), shift: 32 - firstBits, seed: rand.Uint64()}
}

// hash spreads keys that follow each other, as the numbers of files do.
func (x *SlabIndex[N]) hash(key uint64) uint32 {
	hi, lo := bits.Mul64(key^x.seed, 0x9e3779b97f4a7c15)
	return uint32(hi ^ lo)
}

// first is where a search for a hash begins.
func (x *SlabIndex[N]) first(hash uint32) int { return int(hash >> x.shift) }

func (x *SlabIndex[N]) next(i int) int { return (i + 1) & (len(x.entries) - 1) }

// Find returns the number of the item with the key, or 0.
func (x *SlabIndex[N]) Find(key uint64) N {
	hash := x.hash(key)
	for i := x.first(hash); x.entries[i] != 0; i = x.next(i) {
		if e := x.entries[i]; e.hash() == hash && x.key(N(e)) == key {
			return N(e)
		}
	}
	return 0
}

// Add adds an item whose key no other item in the index has.
func (x *SlabIndex[N]) Add(n N) {
	if x.n == len(x.entries)/4*3 {
		before := x.entries
		x.entries, x.shift = make([]indexEntry, 2*len(before)), x.shift-1
		for _, e := range before {
			if e != 0 {
				x.add(e)
			}
		}
	}
	x.add(x.entry(n))
	x.n++
}

func (x *SlabIndex[N]) entry(n N) indexEntry {
	return indexEntry(x.hash(x.key(n)))<<32 | indexEntry(n)
}

func (x *SlabIndex[N]) add(e indexEntry) {
	i := x.first(e.hash())
	for x.entries[i] != 0 {
		i = x.next(i)
	}
	x.entries[i] = e
}

// Remove removes an item, which must be in the index. An entry after it that would not be found
// any more moves to its place, and leaves its own place empty.
func (x *SlabIndex[N]) Remove(n N) {
	e := x.entry(n)
	i := x.first(e.hash())
	for x.entries[i] != e {
		i = x.next(i)
	}
	distance := func(from, to int) int { return (to - from) & (len(x.entries) - 1) }
	for next := x.next(i); x.entries[next] != 0; next = x.next(next) {
		if first := x.first(x.entries[next].hash()); distance(first, next) >= distance(i, next) {
			x.entries[i] = x.entries[next]
			i = next
		}
	}
	x.entries[i] = 0
	x.n--
}

// Len is how many items are in the index.
func (x *SlabIndex[N]) Len() int { return x.n }

// Each yields the items of the index, in no particular order.
func (x *SlabIndex[N]) Each(yield func(N) bool) {
	for _, e := range x.entries {
		if e != 0 && !yield(N(e)) {
			return
		}
	}
}
