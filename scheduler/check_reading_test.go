package scheduler

import "fmt"

// Invariants of the reading of records.

// checkReading: no mail that is due stays on record if the limits allow it to be read. If
// they do not, and a session could deliver it, and a message in memory makes room, then
// the scheduler looks for that one within a second.
func (s *Scheduler) checkReading() {
	mem := &s.memory
	if !s.mayLoad() || mem.loading >= maxLoading {
		return
	}
	id, why := s.unread()
	assert(id == 0, "message %d may be read and is not: %s; %s", id, why, s.describeRoom())
	if s.halted() || !mem.room.keptOut {
		return
	}
	for r := s.ringOrder.head; r != nil; r = s.ringOrder.next(r) {
		if t := s.needy(r); t != nil {
			id := s.removable()
			next, planned := s.Next()
			assert(id == 0 || planned && s.instantAt(dateOf(next)) <= s.now.after(firstRest), "thread %v waits for room, message %d makes some, and it is %v to the next look: %s",
				t.key, id, next.Sub(s.date.time()), s.describeRoom())
		}
	}
}

func (s *Scheduler) describeRoom() string {
	m, r := s.inMemory()
	return fmt.Sprintf("%d messages and %d recipients in memory, limits %d and %d, reserve %d, %d rings, %+v",
		m, r, s.config.ActiveLimit, s.config.RecipientLimit, s.config.RingReserve, s.ringOrder.len, s.memory.room)
}

// unread returns a message that the limits allow to be read now, and why.
func (s *Scheduler) unread() (MessageID, string) {
	mem := &s.memory
	idOf := func(n recordRef) MessageID { return s.records.items.at(n).id }
	within, room, over := s.belowBound(0, 0), s.hasRoom(0, 0), s.overHalf(0, 0)
	if mem.urgent.len > 0 && (within || s.urgentFits()) {
		return idOf(mem.urgent.head), "urgent"
	}
	if !within {
		return 0, ""
	}
	for r := mem.wanting.head; r != nil; r = mem.wanting.next(r) {
		small := s.config.RingReserve > 0 && s.isSmall(r.recipients)
		for kind := range r.wanting {
			for t := r.wanting[kind].head; t != nil; t = r.wanting[kind].next(t) {
				mayUse := room && (!over || s.config.RingReserve > 0 && s.isSmall(t.recipientsInMemory())) || !room && small
				b := s.blocksOf(t)
				if mayUse && (mem.room.halved == 0 || r.wants == 0 && !b.ofRing()) {
					return idOf(t.records.due[t.active][kind].head), fmt.Sprintf("thread %v", t.key)
				}
			}
		}
	}
	return 0, ""
}

// needy returns a thread of the ring that the limits keep from reading records that a
// session could deliver now.
func (s *Scheduler) needy(r *ring) *thread {
	if r.wants > 0 || s.hasRoom(0, 0) && !s.overHalf(0, 0) {
		return nil
	}
	for kind := range r.wanting {
		for t := r.wanting[kind].head; t != nil; t = r.wanting[kind].next(t) {
			if t.records.loading == 0 && s.blocksOf(t) == (blocks{}) {
				return t
			}
		}
	}
	return nil
}

// removable returns a message that can be put on record and cannot be fed now.
func (s *Scheduler) removable() MessageID {
	for ref := range s.byID.each {
		m := s.messages.at(ref)
		if m.flags&untagged == 0 && s.isIdleBut(m, func(_ *vertex, t *thread) bool { return s.blocksOf(t) != blocks{} }) {
			return m.id
		}
	}
	return 0
}
