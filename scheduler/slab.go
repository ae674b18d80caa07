package scheduler

// slab holds items of one type in pages, under numbers. What waits by the
// million is kept this way and names its neighbours by number: where an item
// has no pointers the collector never looks into it, and a queue of a million
// messages costs it nothing. Items do not move, so a pointer to one is good
// until it is given back. Pages are kept for the next ones.
type slab[N ~uint32, T any] struct {
	pages []*[slabPage]T
	last  N   // the greatest number so far; the first is 1
	freed []N // given back
}

const (
	slabBits = 6
	slabPage = 1 << slabBits
)

// at returns the item of a number that was taken and not given back.
func (s *slab[N, T]) at(n N) *T { return &s.pages[n>>slabBits][n&(slabPage-1)] }

// get is the same, and nil for number 0.
func (s *slab[N, T]) get(n N) *T {
	if n == 0 {
		return nil
	}
	return s.at(n)
}

// take gives out a number, of an item that is zero.
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

// give takes a number back.
func (s *slab[N, T]) release(n N) {
	var zero T
	*s.at(n) = zero
	s.freed = append(s.freed, n)
}

// pool is a slab of values that several users share. A value goes when its
// last user leaves it.
type pool[N ~uint32, T any] struct{ items slab[N, pooled[T]] }

type pooled[T any] struct {
	value T
	refs  int32
}

// at returns the value of a number, which must have a user.
func (p *pool[N, T]) at(n N) *T { return &p.items.at(n).value }

// get is the same, and nil for number 0.
func (p *pool[N, T]) get(n N) *T {
	if n == 0 {
		return nil
	}
	return p.at(n)
}

// add puts a value in, with one user.
func (p *pool[N, T]) add(value T) N {
	n, item := p.items.alloc()
	*item = pooled[T]{value, 1}
	return n
}

// join adds a user.
func (p *pool[N, T]) retain(n N) N {
	p.items.at(n).refs++
	return n
}

// leave takes a user away; of number 0 there is none.
func (p *pool[N, T]) release(n N) {
	if n == 0 {
		return
	}
	item := p.items.at(n)
	if item.refs--; item.refs == 0 {
		p.items.release(n)
	}
}
