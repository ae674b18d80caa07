package scheduler

import "math"

// The calendar: when each record must be looked at, because its wait is over, it
// expires, or a notice about it is due.

// calendar has the records by the second in which they must be looked at. A
// record takes only its two links, which is less than in a heap.
type calendar struct {
	days map[second]*day
	heap heap[*day]
	of   func(recordRef) *links[recordRef]
}

// day is the records of one second.
type day struct {
	at    second
	list  list[recordRef]
	index int32 // in calendar.heap
}

func (c *calendar) init(of func(recordRef) *links[recordRef]) {
	c.days, c.of = make(map[second]*day), of
	c.heap.index = func(d *day) *int32 { return &d.index }
}

func (c *calendar) next() instant { return c.heap.next() }

func (c *calendar) add(n recordRef, at second) {
	d := c.days[at]
	if d == nil {
		d = &day{at: at}
		d.list.of = c.of
		c.days[at] = d
		c.heap.put(at.instant(), d)
	}
	d.list.append(n)
}

func (c *calendar) remove(n recordRef, at second) {
	d := c.days[at]
	d.list.remove(n)
	if d.list.len == 0 {
		delete(c.days, at)
		c.heap.remove(d)
	}
}

// first returns the first record of the earliest second. There must be one.
func (c *calendar) first() recordRef { return c.heap.first().list.head }

// secondFrom is the first whole second that is not before the instant.
func (i instant) secondFrom() second {
	if i > instant(math.MaxUint32-1)*1e9 {
		return math.MaxUint32
	}
	return (i + 1e9 - 1).second()
}
