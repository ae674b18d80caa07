package scheduler

import "time"

// Making room: mail that cannot be fed does not keep other mail out of the memory
// that active-limit and recipient-limit allow.
//
// A message may be fed according to its threads and still wait for ever: no agent of
// one can be started, or its sessions are all at work and slow. If it also has
// recipients at other destinations, it came into memory as mail for those. So the room
// is made when it is needed: while the limit keeps out a record that has a claim to
// be read, and that a session could deliver now (roomNeed), a search goes round the messages in memory, and puts back on
// record those that no agent works on and whose due vertices are all of threads, or
// rings, that have at least their part in memory without them.
//
// The part is ring-reserve. If a whole round finds nothing, it is halved, and so on to
// 0. Then any message may go that can be given to no agent now. While nothing
// needs room, it doubles again.

// roomSearch is the state of the search.
type roomSearch struct {
	keptOut   bool // records wait to be read, and the limits do not allow it
	need      roomNeed
	halved    uint          // how often the part has been halved
	hand      messageRef    // the last message that was looked at
	left      int           // numbers of messages still to be looked at in this round
	newest    int64         // sequence of the last message loaded before the round; 0: no round
	found     bool          // the round has made room
	restUntil instant       // the search rests
	rest      time.Duration // the last one; 0: the search has found something since
	lookAt    instant       // when to look again who needs room; 0: not planned
}

// roomNeed is whose record the limits keep out.
type roomNeed uint8

const (
	nobodyNeeds roomNeed = iota
	threadNeeds          // no room: of a thread with less than its part
	ringNeeds            // not even a reserve: of a ring with less than its part, or urgent
)

const (
	// searchSlice bounds the messages that are looked at in one Step.
	searchSlice = 256
	// needRings and needThreads bound the rings, and the threads of each, that are asked
	// in one Step.
	needRings, needThreads = 32, 8
	// Without events, roomNeed looks again after a second at first, and then ever later.
	firstRest, longestRest = time.Second, time.Minute
)

// part is how many recipients of a thread, or of a ring, have a claim to memory.
func (q *queue) part() int { return max(1, q.config.RingReserve) >> q.memory.room.halved }

// isSmall reports whether a thread or ring with n recipients in memory has a claim to
// more.
func (q *queue) isSmall(n int) bool { return n < max(1, q.part()) }

// makeRoom continues the search, and reads what may then be read. It is called at the
// end of each Step, when all mail that can be fed has been fed. It reports whether it
// has put messages on record, or may have read some.
func (dv *delivery) makeRoom() (made bool) {
	rs := &dv.memory.room
	visits := searchSlice
	for rs.keptOut {
		if rs.need = dv.roomNeed(); rs.need == nobodyNeeds {
			if dv.restorePart() {
				dv.memory.changed, made = true, true
				dv.loadRecords()
			}
			return made
		}
		if rs.restUntil > dv.now || !dv.searchRoom(&visits) {
			return made
		}
		made = true
		dv.loadRecords()
	}
	return made
}

// searchRoom looks for a message that makes room, and puts it on record. It reports
// whether it has found one. visits is how many messages it may still look at.
func (dv *delivery) searchRoom(visits *int) bool {
	rs := &dv.memory.room
	for ; *visits > 0; *visits-- {
		if rs.left == 0 && !dv.beginRound() {
			return false
		}
		rs.left--
		if rs.hand++; rs.hand > dv.messages.last {
			rs.hand = 1
		}
		m := dv.messages.at(rs.hand)
		if m.ref == 0 || m.sequence > rs.newest || !dv.makesRoom(m) {
			continue
		}
		if m.flags&untagged != 0 {
			dv.readTags(m)
			continue
		}
		dv.makeRecords(m)
		rs.found, rs.rest = true, 0
		return true
	}
	rs.lookAt = dv.now // go on in the next Step
	return false
}

// beginRound begins another round. If the one before has found nothing, the part is
// halved; the search rests before the part is 0, and while it is. It reports whether to
// look further now.
func (dv *delivery) beginRound() bool {
	rs := &dv.memory.room
	if fruitless := rs.newest != 0 && !rs.found; fruitless {
		if dv.part() > 0 {
			rs.halved++
		}
		if dv.part() == 0 {
			dv.restSearch()
			return false
		}
		if rs.need = dv.roomNeed(); rs.need == nobodyNeeds {
			dv.restSearch()
			return false
		}
	}
	rs.left, rs.newest, rs.found = int(dv.messages.last), dv.loaded, false
	return rs.left > 0
}

// restSearch ends the round and lets the search rest. Then what was kept out is tried
// again: a session may have become free since (nextOfRing).
func (dv *delivery) restSearch() {
	rs := &dv.memory.room
	rs.newest, rs.left = 0, 0
	dv.memory.changed = true
	rs.lookLater(dv.now)
	rs.restUntil = rs.lookAt
}

// lookLater plans when to look again who needs room.
func (rs *roomSearch) lookLater(now instant) {
	rs.rest = min(max(firstRest, 2*rs.rest), longestRest)
	rs.lookAt = now.after(rs.rest)
}

// restorePart doubles the part, from time to time, while nothing needs room. It reports
// whether to try again now to read what was kept out: a greater part allows more, and
// with a small one, a ring whose sessions were all taken could read nothing (nextOfRing).
func (dv *delivery) restorePart() (again bool) {
	rs := &dv.memory.room
	rs.newest, rs.left = 0, 0
	switch {
	case rs.lookAt > dv.now:
		return false
	case rs.halved > 0:
		rs.halved--
		rs.lookAt = dv.now.after(firstRest)
	default:
		rs.lookLater(dv.now)
	}
	return true
}

// roomNeed says whose record the limits keep out, although a session could deliver it
// now. It looks at a few of the rings and threads that want to read records. The lists
// rotate to the one found.
func (dv *delivery) roomNeed() roomNeed {
	mem := &dv.memory
	within := dv.belowBound(0, 0)
	switch {
	case !within && mem.urgent.len > 0 && mem.loading == 0:
		return ringNeeds
	case dv.halted() || dv.hasRoom(0, 0) && (dv.config.RingReserve > 0 || !dv.overHalf(0, 0)):
		return nobodyNeeds
	}
	for range min(mem.wanting.len, needRings) {
		r := mem.wanting.head
		small := !within && dv.isSmall(r.recipients)
		if dv.couldFeed(r, small) {
			if small {
				return ringNeeds
			}
			return threadNeeds
		}
		mem.wanting.remove(r)
		mem.wanting.append(r)
	}
	return nobodyNeeds
}

// couldFeed reports whether a session of the ring could deliver mail on record now: of a
// thread with less than its part in memory, or of any thread. If mail in memory waits
// for sessions of the ring, those that are starting are for that.
func (d *dispatch) couldFeed(r *ring, any bool) bool {
	if r.wants > 0 {
		return false
	}
	for kind := range r.wanting {
		threads := &r.wanting[kind]
		for range min(threads.len, needThreads) {
			t := threads.head
			b := d.blocksOf(t)
			if b.ofRing() {
				return false
			}
			if b.gate == WaitClusterRate || b.gate == WaitClusterSite || b.gate == WaitProbeRight {
				b.gate = NoWait // nothing asks the cluster while no mail is in memory
			}
			b.cluster = false
			if b == (blocks{}) && (any || d.isSmall(t.recipientsInMemory())) {
				return true
			}
			threads.remove(t)
			threads.append(t)
		}
	}
	return false
}

// makesRoom reports whether a message may be put on record for others: nobody works on
// it, and all destinations that could be given it have their part without it, or cannot
// be given it now.
func (d *dispatch) makesRoom(m *message) bool {
	part, need := d.part(), d.memory.room.need
	return need != nobodyNeeds && d.isIdleBut(m, func(v *vertex, t *thread) bool {
		if part == 0 {
			return d.blocksOf(t) != blocks{}
		}
		if need == ringNeeds {
			return t.ring.recipients-int(m.open) >= part
		}
		return t.recipientsInMemory()-int(v.open) >= part
	})
}

// urgentFits reports whether the next urgent record may be read although the reserves
// are used: the bound has room for the largest message.
func (q *queue) urgentFits() bool {
	mem := &q.memory
	if mem.urgent.len == 0 {
		return false
	}
	size := 0
	q.records.each(q.records.find(q.records.items.at(mem.urgent.head).id), func(_ recordRef, rec *record) { size += q.recordOpen(rec) })
	m, r := q.inMemory()
	reserves := q.ringOrder.len * q.config.RingReserve
	within := func(n, limit, most int) bool { return limit == 0 || n <= limit+reserves+most }
	return within(m+1, q.config.ActiveLimit, 1) && within(r+size, q.config.RecipientLimit, mem.largest)
}
