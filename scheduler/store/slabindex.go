package store

import "math/rand/v2"

// SlabIndex finds the items of a slab by a key, like a map from keys to numbers. It
// takes about 15 bytes for each item, and a search touches one or two cache lines:
// an entry has a part of the hash beside the number, so that only items with the
// same part are looked at.
//
// Entries are in segments (extendible hashing). A segment that becomes too full is
// divided in two, so that no addition moves more than one segment.
//
// The hash depends on a number drawn at random, so that nobody can choose keys with
// the same hash. The order of the entries is therefore not reproducible, and nothing
// may depend on it.
type SlabIndex[N ~uint32] struct {
	key func(N) uint64 // of an item
	// The first bits of a hash, depth of them, select a segment.
	segments []*indexSegment
	fills    []segmentFill // of the segments
	depth    uint
	seed     uint64
	n        int
}

// indexSegment is a hash table with linear probing. It takes 3 KiB, a size in which the
// runtime allocates memory without loss.
type indexSegment struct {
	entries [segmentSize]indexEntry
}

const (
	segmentSize = 384
	segmentMax  = segmentSize * 3 / 4 // entries
)

// segmentFill is what must be known about a segment to add and remove entries. It is
// not in the segment, where it would be in a cache line of its own.
type segmentFill struct {
	n     uint16 // entries; valid for the first of the places that a segment has
	depth uint16 // the entries have as many first bits of their hashes in common
}

// indexEntry is a hash and, in the lower half, the number of an item; 0: empty.
type indexEntry uint64

func (e indexEntry) hash() uint32 { return uint32(e >> 32) }

func NewSlabIndex[N ~uint32](key func(N) uint64) SlabIndex[N] {
	return SlabIndex[N]{key: key, segments: []*indexSegment{new(indexSegment)}, fills: make([]segmentFill, 1), seed: rand.Uint64() | 1}
}

func (x *SlabIndex[N]) hash(key uint64) uint32 { return uint32((key ^ key>>32) * x.seed >> 32) }

func (x *SlabIndex[N]) place(hash uint32) int { return int(uint64(hash) << x.depth >> 32) }

func (x *SlabIndex[N]) segment(hash uint32) *indexSegment { return x.segments[x.place(hash)] }

// places returns the first place of the segment of a hash, and how many it has.
func (x *SlabIndex[N]) places(hash uint32) (first, n int) {
	i := x.place(hash)
	n = 1 << (x.depth - uint(x.fills[i].depth))
	return i &^ (n - 1), n
}

// Find returns the number of the item with the key, or 0.
func (x *SlabIndex[N]) Find(key uint64) N {
	hash := x.hash(key)
	s := x.segment(hash)
	for i := firstEntry(hash); s.entries[i] != 0; i = nextEntry(i) {
		if e := s.entries[i]; e.hash() == hash && x.key(N(e)) == key {
			return N(e)
		}
	}
	return 0
}

// Add adds an item whose key no other item in the index has.
func (x *SlabIndex[N]) Add(n N) {
	hash := x.hash(x.key(n))
	first, _ := x.places(hash)
	for x.fills[first].n == segmentMax {
		x.divide(hash)
		first, _ = x.places(hash)
	}
	x.segments[first].add(indexEntry(hash)<<32 | indexEntry(n))
	x.fills[first].n++
	x.n++
}

// Remove removes an item, which must be in the index.
func (x *SlabIndex[N]) Remove(n N) {
	hash := x.hash(x.key(n))
	first, _ := x.places(hash)
	s := x.segments[first]
	i := firstEntry(hash)
	for s.entries[i] != indexEntry(hash)<<32|indexEntry(n) {
		i = nextEntry(i)
	}
	s.remove(i)
	x.fills[first].n--
	x.n--
}

// Len is how many items are in the index.
func (x *SlabIndex[N]) Len() int { return x.n }

// Each yields the items of the index, in no particular order.
func (x *SlabIndex[N]) Each(yield func(N) bool) {
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

// divide divides the segment of a hash in two.
func (x *SlabIndex[N]) divide(hash uint32) {
	if _, n := x.places(hash); n == 1 {
		x.double()
	}
	first, n := x.places(hash)
	full, depth := x.segments[first], x.fills[first].depth
	halves := [2]*indexSegment{new(indexSegment), new(indexSegment)}
	fills := [2]segmentFill{{depth: depth + 1}, {depth: depth + 1}}
	for _, e := range full.entries {
		if e != 0 {
			half := e.hash() >> (31 - depth) & 1
			halves[half].add(e)
			fills[half].n++
		}
	}
	for i := range n {
		half := i / (n / 2)
		x.segments[first+i], x.fills[first+i] = halves[half], fills[half]
	}
}

// double gives each segment twice as many places.
func (x *SlabIndex[N]) double() {
	segments, fills := make([]*indexSegment, 0, 2*len(x.segments)), make([]segmentFill, 0, 2*len(x.segments))
	for i, s := range x.segments {
		segments, fills = append(segments, s, s), append(fills, x.fills[i], x.fills[i])
	}
	x.segments, x.fills = segments, fills
	x.depth++
}

func (s *indexSegment) add(e indexEntry) {
	i := firstEntry(e.hash())
	for s.entries[i] != 0 {
		i = nextEntry(i)
	}
	s.entries[i] = e
}

// remove empties the place i. An entry after it that would not be found any more
// moves there, and leaves its own place empty.
func (s *indexSegment) remove(i int) {
	for next := nextEntry(i); s.entries[next] != 0; next = nextEntry(next) {
		if first := firstEntry(s.entries[next].hash()); distance(first, next) >= distance(i, next) {
			s.entries[i] = s.entries[next]
			i = next
		}
	}
	s.entries[i] = 0
}

// firstEntry is where a search for the hash begins. It does not depend on the first
// bits, which are the same in a whole segment, and not on the last ones, which differ
// least.
func firstEntry(hash uint32) int { return int(hash >> 4 & 0xfff * segmentSize >> 12) }

func nextEntry(i int) int {
	if i++; i < segmentSize {
		return i
	}
	return 0
}

// distance is how many places after i the place j is.
func distance(i, j int) int {
	if j >= i {
		return j - i
	}
	return j - i + segmentSize
}
