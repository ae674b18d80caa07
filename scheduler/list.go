package scheduler

// list is a doubly linked list whose links are in the items: an item is
// appended and taken out from anywhere in one step, and without an allocation.
//
// An item is in at most one list for each links that it has.
type list[T any] struct {
	// of is where an item keeps its neighbours in this list.
	of         func(*T) *links[T]
	head, tail *T
	len        int
}

type links[T any] struct{ next, prev *T }

func (l *list[T]) append(item *T) { l.insert(item, l.tail) }

// insert puts an item behind another, in front of all if that is nil.
func (l *list[T]) insert(item, before *T) {
	own := l.of(item)
	own.prev, own.next = before, l.head
	if before != nil {
		own.next = l.of(before).next
		l.of(before).next = item
	} else {
		l.head = item
	}
	if own.next != nil {
		l.of(own.next).prev = item
	} else {
		l.tail = item
	}
	l.len++
}

// remove takes out an item, which must be in the list.
func (l *list[T]) remove(item *T) {
	own := l.of(item)
	if own.prev == nil {
		l.head = own.next
	} else {
		l.of(own.prev).next = own.next
	}
	if own.next == nil {
		l.tail = own.prev
	} else {
		l.of(own.next).prev = own.prev
	}
	*own = links[T]{}
	l.len--
}

// next returns the item behind another, nil at the end.
func (l *list[T]) next(item *T) *T { return l.of(item).next }

// hasOther reports whether an item other than this is in the list.
func (l *list[T]) hasOther(item *T) bool {
	return l.len > 1 || l.len == 1 && l.head != item
}
