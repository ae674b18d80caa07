package server

// The counted list: SHOW SENDERS, SHOW REASONS and SHOW SHAPE count the mail of the queue by a key,
// in one pass and in bounded memory.

import "slices"

// topList counts by a key. Up to limit keys are counted exactly. When there are more, the smaller
// half goes to the others, and counts from the beginning if it comes again: so the sums stay
// exact, and so do the largest unless their mail is spread very thinly.
type topList[K comparable, V any] struct {
	limit   int
	compare func(a, b *V) int // the largest first
	add     func(to, count *V)
	others  V
	hasMore bool // others counts something
	byKey   map[K]*V
	keys    []K // in the order in which they came
}

// of returns the count of a key; create makes it, with copies of the strings of the job.
func (l *topList[K, V]) of(key K, create func() (K, *V)) *V {
	if count := l.byKey[key]; count != nil {
		return count
	}
	if l.byKey == nil {
		l.byKey = make(map[K]*V)
	}
	if len(l.keys) == l.limit {
		l.forget()
	}
	key, count := create()
	l.byKey[key], l.keys = count, append(l.keys, key)
	return count
}

// sort sorts the keys. Equal ones stay in the order in which they came.
func (l *topList[K, V]) sort() {
	slices.SortStableFunc(l.keys, func(a, b K) int { return l.compare(l.byKey[a], l.byKey[b]) })
}

// forget adds the smaller half to the others.
func (l *topList[K, V]) forget() {
	l.sort()
	for _, key := range l.keys[l.limit/2:] {
		l.add(&l.others, l.byKey[key])
		delete(l.byKey, key)
	}
	l.keys, l.hasMore = l.keys[:l.limit/2], true
}

// lines returns the counts, the largest first, and the others last if there are any.
func (l *topList[K, V]) lines() (all []*V) {
	l.sort()
	for _, key := range l.keys {
		all = append(all, l.byKey[key])
	}
	if l.hasMore {
		all = append(all, &l.others)
	}
	return all
}
