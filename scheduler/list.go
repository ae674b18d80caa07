package scheduler

// list is a doubly linked list whose links are in the items: an item is
// appended and taken out from anywhere in one step, and without an allocation.
// Items go by a handle, a pointer or a number, of which the zero value is none.
//
// An item is in at most one list for each links that it has.
type list[H comparable] struct {
	// of is where an item keeps its neighbours in this list.
	of         func(H) *links[H]
	head, tail H
	len        int
}

type links[H comparable] struct{ next, prev H }

func (l *list[H]) append(item H) { l.insert(item, l.tail) }

// insert puts an item behind another, in front of all if that is none.
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

// remove takes out an item, which must be in the list.
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

// next returns the item behind another, none at the end.
func (l *list[H]) next(item H) H { return l.of(item).next }

// hasOther reports whether an item other than this is in the list.
func (l *list[H]) hasOther(item H) bool {
	return l.len > 1 || l.len == 1 && l.head != item
}
