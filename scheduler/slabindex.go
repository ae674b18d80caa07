package scheduler

import "math/rand/v2"

// slabIndex finds the items of a slab by a key, like a map from keys to numbers. It
// takes about 18 bytes for each item, and a search touches one or two cache lines:
// an entry has a part of the hash beside the number, so that only items with the
// same part are looked at.
//
// Entries are in segments (extendible hashing). A segment that becomes too full is
// divided in two, so that no addition moves more than one segment.
//
// The hash depends on a number drawn at random, so that nobody can choose keys with
// the same hash. The order of the entries is therefore not reproducible, and nothing
// may depend on it.
type slabIndex[N ~uint32] struct {
	key func(N) uint64 // of an item
	// The first bits of a hash, depth of them, select a segment.
	segments []*indexSegment
	depth    uint
	seed     uint64
	n        int
}

// indexSegment is a hash table with linear probing.
type indexSegment struct {
	entries [segmentSize]indexEntry
	n       int32
	depth   int32 // the entries have as many first bits of their hashes in common
}

// A segment takes 2 KiB, a size in which the runtime allocates memory without loss.
const (
	segmentSize = 255
	segmentMax  = segmentSize * 5 / 8 // entries
)

// indexEntry is a hash and, in the lower half, the number of an item; 0: empty.
type indexEntry uint64

func (e indexEntry) hash() uint32 { return uint32(e >> 32) }

func newSlabIndex[N ~uint32](key func(N) uint64) slabIndex[N] {
	return slabIndex[N]{key: key, segments: []*indexSegment{new(indexSegment)}, seed: rand.Uint64() | 1}
}

func (x *slabIndex[N]) hash(key uint64) uint32 { return uint32((key ^ key>>32) * x.seed >> 32) }

func (x *slabIndex[N]) segment(hash uint32) *indexSegment {
	return x.segments[uint64(hash)<<x.depth>>32]
}

// find returns the number of the item with the key, or 0.
func (x *slabIndex[N]) find(key uint64) N {
	hash := x.hash(key)
	s := x.segment(hash)
	for i := firstEntry(hash); s.entries[i] != 0; i = nextEntry(i) {
		if e := s.entries[i]; e.hash() == hash && x.key(N(e)) == key {
			return N(e)
		}
	}
	return 0
}

// add adds an item whose key no other item in the index has.
func (x *slabIndex[N]) add(n N) {
	hash := x.hash(x.key(n))
	s := x.segment(hash)
	for s.n == segmentMax {
		x.divide(hash)
		s = x.segment(hash)
	}
	s.add(indexEntry(hash)<<32 | indexEntry(n))
	x.n++
}

// remove removes an item, which must be in the index.
func (x *slabIndex[N]) remove(n N) {
	hash := x.hash(x.key(n))
	s := x.segment(hash)
	i := firstEntry(hash)
	for s.entries[i] != indexEntry(hash)<<32|indexEntry(n) {
		i = nextEntry(i)
	}
	s.remove(i)
	x.n--
}

// divide divides the segment of a hash in two.
func (x *slabIndex[N]) divide(hash uint32) {
	full := x.segment(hash)
	if uint(full.depth) == x.depth {
		segments := make([]*indexSegment, 0, 2*len(x.segments))
		for _, s := range x.segments {
			segments = append(segments, s, s)
		}
		x.segments = segments
		x.depth++
	}
	lower, upper := &indexSegment{depth: full.depth + 1}, &indexSegment{depth: full.depth + 1}
	bit := uint32(1) << (31 - full.depth)
	for _, e := range full.entries {
		switch {
		case e == 0:
		case e.hash()&bit == 0:
			lower.add(e)
		default:
			upper.add(e)
		}
	}
	width := 1 << (x.depth - uint(full.depth))
	first := int(uint64(hash)<<x.depth>>32) &^ (width - 1)
	for i := range width {
		x.segments[first+i] = lower
		if i >= width/2 {
			x.segments[first+i] = upper
		}
	}
}

func (s *indexSegment) add(e indexEntry) {
	i := firstEntry(e.hash())
	for s.entries[i] != 0 {
		i = nextEntry(i)
	}
	s.entries[i] = e
	s.n++
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
	s.n--
}

// firstEntry is where a search for the hash begins. It depends on the last bits,
// because the first ones are the same in a whole segment.
func firstEntry(hash uint32) int { return int(hash & 0xffff * segmentSize >> 16) }

func nextEntry(i int) int {
	if i == segmentSize-1 {
		return 0
	}
	return i + 1
}

// distance is how many places after i the place j is.
func distance(i, j int) int {
	if j < i {
		return j - i + segmentSize
	}
	return j - i
}
