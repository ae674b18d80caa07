package scheduler

import (
	"slices"
	"time"
)

// The calendar of mail on record: when each record must be looked at, because its
// wait is over, it expires, or a notice about it is due.

// calendar has the records by the second in which they must be looked at. A
// record takes only its two links, which is less than in a heap.
type calendar struct {
	seconds map[second]*lookSecond
	heap    heap[*lookSecond]
	of      func(recordRef) *links[recordRef]
}

// lookSecond is the records of one second.
type lookSecond struct {
	at    second
	list  list[recordRef]
	index int32 // in the heap of calendar
}

func (c *calendar) init(of func(recordRef) *links[recordRef]) {
	c.seconds, c.of = make(map[second]*lookSecond), of
	c.heap.index = func(s *lookSecond) *int32 { return &s.index }
}

func (c *calendar) next() instant { return c.heap.next() }

func (c *calendar) add(n recordRef, at second) {
	s := c.seconds[at]
	if s == nil {
		s = &lookSecond{at: at}
		s.list.of = c.of
		c.seconds[at] = s
		c.heap.put(at.instant(), s)
	}
	s.list.append(n)
}

func (c *calendar) remove(n recordRef, at second) {
	s := c.seconds[at]
	s.list.remove(n)
	if s.list.len == 0 {
		delete(c.seconds, at)
		c.heap.remove(s)
	}
}

// first returns the first record of the earliest second. There must be one.
func (c *calendar) first() recordRef { return c.heap.first().list.head }

// planLook puts a record into the calendar at the time of its next event, as
// planWake does with a vertex.
func (q *queue) planLook(n recordRef) {
	rec := q.records.items.at(n)
	t := q.recordThread(rec)
	look := q.nextWriting(rec, q.now)
	if primary, secondary := q.expiryOf(t.params, rec.modifiedAt); q.recordMayExpire(rec, t) {
		switch {
		case q.date < primary:
			look = min(look, q.instantAt(primary))
		case q.recordOverdue(rec):
			look = q.now
		default:
			look = min(look, q.now.after(max(t.params.Interval, time.Minute)))
			if secondary > q.date {
				look = min(look, q.instantAt(secondary))
			}
		}
	}
	if rec.state == waiting {
		look = min(look, rec.wakeAt.instant())
	}
	if rec.flags&recordReadAtLook != 0 {
		look = q.now
	}
	q.setLook(n, look)
}

// setLook puts a record into the calendar, or takes it out (never).
func (q *queue) setLook(n recordRef, look instant) {
	rec := q.records.items.at(n)
	if rec.lookAt != 0 {
		q.memory.calendar.remove(n, rec.lookAt)
		rec.lookAt = 0
	}
	if look != never && rec.flags&recordLoading == 0 {
		rec.lookAt = look.ceilSecond()
		q.memory.calendar.add(n, rec.lookAt)
	}
}

// lookAtRecord is called at the record's time in the calendar, as wakeVertex is
// for a vertex.
func (q *queue) lookAtRecord(n recordRef) {
	rec := q.records.items.at(n)
	planned := rec.lookAt.instant()
	q.setLook(n, never)
	switch {
	case rec.flags&recordReadAtLook != 0, q.recordOverdue(rec), q.nextWriting(rec, planned.after(-time.Second)) <= q.now:
		q.readSoon(n)
	case rec.state == waiting && rec.wakeAt.instant() <= q.now:
		q.makeRecordDue(n)
	default:
		q.planLook(n)
	}
}

// nextWriting returns when something must be written about a record, after the
// given time: a notice, or an outcome at a deadline.
func (q *queue) nextWriting(rec *record, after instant) instant {
	next := never
	consider := func(at instant) {
		if at > after {
			next = min(next, at)
		}
	}
	if x := q.records.extras[rec.id]; x != nil {
		consider(x.noticeAt)
		consider(x.deadlineAt)
	}
	if times := q.recordThread(rec).params.ReportTimes; len(times) > 0 && q.recordWantsDelays(rec) {
		for _, age := range times {
			consider(q.instantAt(rec.modifiedAt.after(age)))
		}
	}
	return next
}

// recordWantsDelays reports whether the sender wants to be told of delays.
func (q *queue) recordWantsDelays(rec *record) bool {
	if rec.flags&recordNullSender != 0 {
		return false
	}
	for i := range q.recordLen(rec) {
		if r := q.recordedRecipient(rec, i); r.isOpen() && r.flags&notifyDelay != 0 {
			return true
		}
	}
	return false
}

// recordMayExpire reports whether a recipient of a record can expire.
func (q *queue) recordMayExpire(rec *record, t *thread) bool {
	if t.held || t.updates&releaseHeld != 0 || t.params.Expiry == 0 {
		return false
	}
	for i := range q.recordLen(rec) {
		if q.recordedRecipient(rec, i).mayExpire() {
			return true
		}
	}
	return false
}

// recordOverdue reports whether a recipient of a record has expired, as overdue
// does for a vertex.
func (q *queue) recordOverdue(rec *record) bool {
	t := q.recordThread(rec)
	primary, secondary := q.expiryOf(t.params, rec.modifiedAt)
	if q.date < primary || !q.recordMayExpire(rec, t) {
		return false
	}
	outlasted := q.recordOutlastedSuspension(rec)
	for i := range q.recordLen(rec) {
		r := q.recordedRecipient(rec, i)
		if r.mayExpire() && (q.date >= secondary || r.tried() || outlasted) {
			return true
		}
	}
	return false
}

// replanRecord plans the notices of delay about a record after the reporttimes of
// its thread have changed. If one of them has passed, the file must be read: it
// says which notices were sent.
func (q *queue) replanRecord(n recordRef) {
	rec := q.records.items.at(n)
	if rec.flags&(recordUrgent|recordLoading) != 0 {
		return
	}
	if q.recordWantsDelays(rec) && slices.ContainsFunc(q.recordThread(rec).params.ReportTimes, func(age time.Duration) bool {
		return rec.modifiedAt.after(age) <= q.date
	}) {
		rec.flags |= recordReadAtLook
	}
	q.planLook(n)
}
