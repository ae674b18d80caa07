// Package store keeps millions of items so that the garbage collector need not look at them, and
// so that no single addition or removal takes long. Items have numbers, which are used in place
// of pointers.
//
//	Slab       items in pages, by number
//	Column     one value for each item of a slab, apart from it
//	Pool       values that several users share
//	SlabIndex  finds the items of a slab by a key
//	List       a doubly linked list whose links are in the items
//	Heap       a priority queue that knows where each item is
//
// Nothing here is safe for several goroutines.
package store

// Slabs, columns and pools.

// Slab keeps items of one type in pages and gives each a number. Items of which
// there may be millions are kept in slabs and refer to each other by number. The
// garbage collector does not scan items without pointers, so a queue of a
// million items costs it nothing. Items do not move: a pointer to an item is
// valid until the item is released. Pages are kept for later items.
type Slab[N ~uint32, T any] struct {
	pages []*[slabPage]T
	Last  N   // the greatest number so far; the first is 1
	freed []N // released numbers, for reuse
}

// A page has 2048 items. If the size of an item is a multiple of 4 bytes, a page
// is then a multiple of 8 KiB, in which the runtime allocates large objects, and
// nothing is lost to rounding.
const (
	slabBits = 11
	slabPage = 1 << slabBits
)

// At returns the item with a number, which must be allocated.
func (s *Slab[N, T]) At(n N) *T { return &s.pages[n>>slabBits][n&(slabPage-1)] }

// Get is the same, but returns nil for number 0.
func (s *Slab[N, T]) Get(n N) *T {
	if n == 0 {
		return nil
	}
	return s.At(n)
}

// Alloc returns the number of a new item, which has its zero value.
func (s *Slab[N, T]) Alloc() (N, *T) {
	if last := len(s.freed) - 1; last >= 0 {
		n := s.freed[last]
		s.freed = s.freed[:last]
		return n, s.At(n)
	}
	s.Last++
	if int(s.Last>>slabBits) == len(s.pages) {
		s.pages = append(s.pages, new([slabPage]T))
	}
	return s.Last, s.At(s.Last)
}

// Release frees a number.
func (s *Slab[N, T]) Release(n N) {
	var zero T
	*s.At(n) = zero
	s.freed = append(s.freed, n)
}

// Used is how many items are allocated.
func (s *Slab[N, T]) Used() int { return int(s.Last) - len(s.freed) }

// Column has a value for each item of a slab, apart from the item: a search through all
// values reads less memory. An item without a value has the zero value.
type Column[N ~uint32, T any] struct{ pages []*[slabPage]T }

func (c *Column[N, T]) At(n N) T { return c.pages[n>>slabBits][n&(slabPage-1)] }

func (c *Column[N, T]) Set(n N, value T) {
	for int(n>>slabBits) >= len(c.pages) {
		c.pages = append(c.pages, new([slabPage]T))
	}
	c.pages[n>>slabBits][n&(slabPage-1)] = value
}

// All yields all values, those of free numbers included.
func (c *Column[N, T]) All(yield func(N, T) bool) {
	for i, page := range c.pages {
		for j, value := range page {
			if !yield(N(i<<slabBits|j), value) {
				return
			}
		}
	}
}

// Pool is a slab of values that several users share. A value is freed when its
// last user releases it.
type Pool[N ~uint32, T any] struct{ items Slab[N, pooled[T]] }

type pooled[T any] struct {
	value T
	refs  int32 // users
}

// At returns the value with a number, which must have a user.
func (p *Pool[N, T]) At(n N) *T { return &p.items.At(n).value }

// Get is the same, but returns nil for number 0.
func (p *Pool[N, T]) Get(n N) *T {
	if n == 0 {
		return nil
	}
	return p.At(n)
}

// Add adds a value with one user.
func (p *Pool[N, T]) Add(value T) N {
	n, item := p.items.Alloc()
	*item = pooled[T]{value, 1}
	return n
}

// Users is how many users a value has.
func (p *Pool[N, T]) Users(n N) int32 { return p.items.At(n).refs }

// Used is how many values there are.
func (p *Pool[N, T]) Used() int { return p.items.Used() }

// Retain adds a user.
func (p *Pool[N, T]) Retain(n N) N {
	p.items.At(n).refs++
	return n
}

// Release removes a user. Number 0 is allowed and does nothing.
func (p *Pool[N, T]) Release(n N) {
	if n == 0 {
		return
	}
	item := p.items.At(n)
	if item.refs--; item.refs == 0 {
		p.items.Release(n)
	}
}
