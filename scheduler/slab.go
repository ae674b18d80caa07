package scheduler

// Memory for a million messages: slab, column and pool, in which items have numbers,
// and list, whose links are in the items.

// slab keeps items of one type in pages and gives each a number. Items of which
// there may be millions are kept in slabs and refer to each other by number. The
// garbage collector does not scan items without pointers, so a queue of a
// million messages costs it nothing. Items do not move: a pointer to an item is
// valid until the item is released. Pages are kept for later items.
type slab[N ~uint32, T any] struct {
	pages []*[slabPage]T
	last  N   // the greatest number so far; the first is 1
	freed []N // released numbers, for reuse
}

// A page has 1024 items. If the size of an item is a multiple of 8 bytes, a page
// is then a multiple of 8 KiB, in which the runtime allocates large objects, and
// nothing is lost to rounding.
const (
	slabBits = 10
	slabPage = 1 << slabBits
)

// at returns the item with a number, which must be allocated.
func (s *slab[N, T]) at(n N) *T { return &s.pages[n>>slabBits][n&(slabPage-1)] }

// get is the same, but returns nil for number 0.
func (s *slab[N, T]) get(n N) *T {
	if n == 0 {
		return nil
	}
	return s.at(n)
}

// alloc returns the number of a new item, which has its zero value.
func (s *slab[N, T]) alloc() (N, *T) {
	if last := len(s.freed) - 1; last >= 0 {
		n := s.freed[last]
		s.freed = s.freed[:last]
		return n, s.at(n)
	}
	s.last++
	if int(s.last>>slabBits) == len(s.pages) {
		s.pages = append(s.pages, new([slabPage]T))
	}
	return s.last, s.at(s.last)
}

// release frees a number.
func (s *slab[N, T]) release(n N) {
	var zero T
	*s.at(n) = zero
	s.freed = append(s.freed, n)
}

// column has a value for each item of a slab, apart from the item: a search through all
// values reads less memory. An item without a value has the zero value.
type column[N ~uint32, T any] struct{ pages []*[slabPage]T }

func (c *column[N, T]) at(n N) T { return c.pages[n>>slabBits][n&(slabPage-1)] }

func (c *column[N, T]) set(n N, value T) {
	for int(n>>slabBits) >= len(c.pages) {
		c.pages = append(c.pages, new([slabPage]T))
	}
	c.pages[n>>slabBits][n&(slabPage-1)] = value
}

// has reports whether the column has a place for an item. It has one if a value was ever
// set for an item with that number or a greater one.
func (c *column[N, T]) has(n N) bool { return int(n>>slabBits) < len(c.pages) }

// all yields all values, those of free numbers included.
func (c *column[N, T]) all(yield func(N, T) bool) {
	for i, page := range c.pages {
		for j, value := range page {
			if !yield(N(i<<slabBits|j), value) {
				return
			}
		}
	}
}

// pool is a slab of values that several users share. A value is freed when its
// last user releases it.
type pool[N ~uint32, T any] struct{ items slab[N, pooled[T]] }

type pooled[T any] struct {
	value T
	refs  int32 // users
}

// at returns the value with a number, which must have a user.
func (p *pool[N, T]) at(n N) *T { return &p.items.at(n).value }

// get is the same, but returns nil for number 0.
func (p *pool[N, T]) get(n N) *T {
	if n == 0 {
		return nil
	}
	return p.at(n)
}

// add adds a value with one user.
func (p *pool[N, T]) add(value T) N {
	n, item := p.items.alloc()
	*item = pooled[T]{value, 1}
	return n
}

// users is how many users a value has.
func (p *pool[N, T]) users(n N) int32 { return p.items.at(n).refs }

// retain adds a user.
func (p *pool[N, T]) retain(n N) N {
	p.items.at(n).refs++
	return n
}

// release removes a user. Number 0 is allowed and does nothing.
func (p *pool[N, T]) release(n N) {
	if n == 0 {
		return
	}
	item := p.items.at(n)
	if item.refs--; item.refs == 0 {
		p.items.release(n)
	}
}

// list is a doubly linked list whose links are in the items. Appending an item,
// or removing one from anywhere, takes constant time and no allocation. A
// handle, which is a pointer or a number, identifies an item; the zero handle
// means none.
//
// An item can be in one list for each links value that it has.
type list[H comparable] struct {
	// of returns the links of an item in this list.
	of         func(H) *links[H]
	head, tail H
	len        int
}

type links[H comparable] struct{ next, prev H }

func (l *list[H]) append(item H) { l.insert(item, l.tail) }

// insert puts an item after the item before, or at the head if before is none.
func (l *list[H]) insert(item, before H) {
	var none H
	own := l.of(item)
	own.prev, own.next = before, l.head
	if before != none {
		own.next = l.of(before).next
		l.of(before).next = item
	} else {
		l.head = item
	}
	if own.next != none {
		l.of(own.next).prev = item
	} else {
		l.tail = item
	}
	l.len++
}

// remove removes an item, which must be in the list.
func (l *list[H]) remove(item H) {
	var none H
	own := l.of(item)
	if own.prev == none {
		l.head = own.next
	} else {
		l.of(own.prev).next = own.next
	}
	if own.next == none {
		l.tail = own.prev
	} else {
		l.of(own.next).prev = own.prev
	}
	*own = links[H]{}
	l.len--
}

// next returns the item after another, or none at the end.
func (l *list[H]) next(item H) H { return l.of(item).next }
