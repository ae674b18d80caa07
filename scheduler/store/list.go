package store

// Lists, and slices of pointers.

// List is a doubly linked list whose links are in the items. Appending an item,
// or removing one from anywhere, takes constant time and no allocation. A
// handle, which is a pointer or a number, identifies an item; the zero handle
// means none.
//
// An item can be in one list for each Links value that it has.
type List[H comparable] struct {
	// Of returns the links of an item in this list.
	Of         func(H) *Links[H]
	Head, Tail H
	Len        int // items
}

// Links are the places of an item in a list.
type Links[H comparable] struct{ Next, prev H }

// Append puts an item at the end.
func (l *List[H]) Append(item H) {
	var none H
	*l.Of(item) = Links[H]{Next: none, prev: l.Tail}
	if l.Tail != none {
		l.Of(l.Tail).Next = item
	} else {
		l.Head = item
	}
	l.Tail = item
	l.Len++
}

// Remove removes an item, which must be in the list. The item keeps its Next, so that a cursor
// at it can go on.
func (l *List[H]) Remove(item H) {
	var none H
	own := l.Of(item)
	if own.prev == none {
		l.Head = own.Next
	} else {
		l.Of(own.prev).Next = own.Next
	}
	if own.Next == none {
		l.Tail = own.prev
	} else {
		l.Of(own.Next).prev = own.prev
	}
	own.prev = none
	l.Len--
}

// Next returns the item after another, or none at the end.
func (l *List[H]) Next(item H) H { return l.Of(item).Next }

// Delete removes the pointer at i from a slice, for less than slices.Delete takes: that clears what
// may be many.
func Delete[T any](s []*T, i int) []*T {
	last := len(s) - 1
	if i < last {
		copy(s[i:], s[i+1:])
	}
	s[last] = nil
	return s[:last]
}
