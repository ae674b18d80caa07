package scheduler

import (
	"time"

	"zsched/scheduler/limit"
)

// Making room: mail that cannot be fed does not keep other mail out of the memory
// that active-limit and recipient-limit allow.
//
// Mail whose threads may be fed can still wait for long: no agent can be started for it, or
// all its sessions are at work and slow. It may be in memory because its message also has
// recipients at other destinations. So room is made when it is needed: when the limits
// keep out a record that has a claim to be read, and that a session could deliver now
// (roomNeed). Then a search goes round the messages in memory. It puts back on record those
// that no agent works on, if all threads, or rings, of their due vertices have at least
// their part in memory without them.
//
// The part is ring-reserve at first. After each round that finds nothing, it is halved,
// down to 0. With a part of 0, any message may go that can be given to no agent now. While
// the part is halved, only records that a session could deliver are read (nextOfRing).
// While nothing needs room, the part doubles again.
//
// A search that finds nothing rests: for a second, and longer each time while nothing
// happens. It asks as rarely who needs room.

// roomSearch is the state of the search.
type roomSearch struct {
	keptOut bool // records wait to be read, and the limits do not allow it
	need    roomNeed
	halved  uint          // how often the part has been halved
	hand    messageRef    // the last message that was looked at
	left    int           // numbers of messages still to be looked at in this round
	newest  int64         // sequence of the last message loaded before the round; 0: no round
	found   bool          // the round has made room
	resting bool          // the search rests until lookAt
	lookAt  instant       // when to search, or to ask who needs room, again
	rest    time.Duration // the length of the last rest; 0: something has happened since
	// rings counts the rings of memory.wanting that have not been asked yet whether they need
	// room, and asked the threads of the first of them that have been asked.
	rings, asked int
	opensAt      instant // when the first gate opens for a thread that was asked
}

// roomNeed is whose record the limits keep out.
type roomNeed uint8

const (
	nobodyNeeds roomNeed = iota
	largeNeeds           // more than half is used: of a thread that has its reserve in memory
	threadNeeds          // no room: of a thread with less than its reserve
	ringNeeds            // not even a reserve: of a ring with less than its reserve, or urgent
)

const (
	// searchSlice bounds the messages that are looked at, and askSlice the rings and
	// threads that are asked, in one Step.
	searchSlice, askSlice  = 256, 256
	firstRest, longestRest = time.Second, time.Minute
)

// part is how many recipients of a thread, or of a ring, the search leaves in memory.
func (q *queue) part() int { return max(1, q.config.RingReserve) >> q.memory.room.halved }

// isSmall reports whether a thread or ring with n recipients in memory has a claim to
// more.
func (q *queue) isSmall(n int) bool { return n < max(1, q.config.RingReserve) }

// readRecords starts the reading of the records whose turn it is, and searches for room
// for others. It is called at the end of each Step, when all mail that can be fed has been
// fed.
func (dv *delivery) readRecords() {
	mem := &dv.memory
	rs := &mem.room
	if mem.urgent.len == 0 && mem.wanting.len == 0 || !dv.mayLoad() {
		*rs = roomSearch{}
		return
	}
	dv.wakeSearch()
	for visits := searchSlice; ; {
		dv.loadRecords()
		if len(dv.dirty) > 0 {
			dv.dispatchDirty()
			continue
		}
		if !rs.keptOut {
			return
		}
		if rs.need = dv.roomNeed(); rs.need == nobodyNeeds {
			rs.newest, rs.left = 0, 0
			if rs.lookAt <= dv.now && rs.rings == 0 {
				rs.lookLater(dv.now)
			}
			return
		}
		if rs.resting || !dv.searchRoom(&visits) {
			return
		}
	}
}

// wakeSearch prepares the search for a Step. At the time of the look, the search goes on, or
// the part doubles; after any other event, the look comes soon.
func (dv *delivery) wakeSearch() {
	rs := &dv.memory.room
	if rs.lookAt > dv.now {
		rs.rest, rs.rings, rs.asked = 0, 0, 0
		rs.lookAt = min(rs.lookAt, dv.now.after(firstRest))
		return
	}
	rs.resting = false
	if rs.halved > 0 && rs.need == nobodyNeeds && rs.rings == 0 {
		rs.halved--
		rs.rest = 0
		dv.memory.changed = true
	}
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
			rs.rest = 0
		}
		if dv.part() == 0 {
			rs.newest, rs.left, rs.resting = 0, 0, true
			rs.lookLater(dv.now)
			return false
		}
	}
	rs.left, rs.newest, rs.found = int(dv.messages.last), dv.loaded, false
	return rs.left > 0
}

// lookLater plans the next look.
func (rs *roomSearch) lookLater(now instant) {
	rs.rest = min(max(firstRest, 2*rs.rest), longestRest)
	rs.lookAt = min(now.after(rs.rest), max(rs.opensAt, now+1))
}

// roomNeed says whose record the limits keep out, although a session could deliver it
// now. It asks the rings and threads that want to read records in turn, a slice in each
// Step. The lists rotate to the one found.
func (dv *delivery) roomNeed() roomNeed {
	mem := &dv.memory
	rs := &mem.room
	within := dv.belowBound(0, 0)
	switch {
	case !within && mem.urgent.len > 0 && mem.loading == 0:
		return ringNeeds
	case dv.halted() || dv.hasRoom(0, 0) && !dv.overHalf(0, 0):
		return nobodyNeeds
	}
	if rs.rings == 0 {
		rs.rings, rs.asked, rs.opensAt = mem.wanting.len, 0, never
	}
	for visits := askSlice; rs.rings > 0 && mem.wanting.len > 0; rs.rings-- {
		r := mem.wanting.head
		if need := dv.needOf(r, &visits); need != nobodyNeeds {
			rs.rings = 0
			return need
		}
		if visits <= 0 {
			rs.lookAt = dv.now // go on in the next Step
			return nobodyNeeds
		}
		mem.wanting.remove(r)
		mem.wanting.append(r)
		rs.asked = 0
	}
	rs.rings = 0
	return nobodyNeeds
}

// needOf says whether a record of the ring needs room: it asks the ring's threads in turn. If
// mail in memory waits for sessions of the ring, its next sessions are for that mail, and no
// record needs room.
func (dv *delivery) needOf(r *ring, visits *int) roomNeed {
	rs := &dv.memory.room
	*visits--
	for r.wants == 0 && rs.asked < r.wanting[newMail].len+r.wanting[deferredMail].len {
		if *visits--; *visits <= 0 {
			return nobodyNeeds
		}
		threads := &r.wanting[newMail]
		if rs.asked >= threads.len {
			threads = &r.wanting[deferredMail]
		}
		t := threads.head
		b := dv.blocksOf(t)
		if b.ofRing() {
			return nobodyNeeds
		}
		if need := dv.needOfThread(t, b); need != nobodyNeeds {
			return need
		}
		threads.remove(t)
		threads.append(t)
		rs.asked++
	}
	return nobodyNeeds
}

// needOfThread says whether a record of the thread needs room, given what keeps its due
// mail from being fed.
func (dv *delivery) needOfThread(t *thread, b blocks) roomNeed {
	switch why, opens := dv.gate(t); why {
	case NoWait:
	case WaitClusterRate, WaitClusterSite: // nothing asks the cluster while no mail is in memory
		b.sessions[ofThread], b.sessions[ofSite] = limit.None, limit.None
	default:
		dv.memory.room.opensAt = min(dv.memory.room.opensAt, opens)
	}
	if b.sessions[ofThread] == limit.NoShare {
		b.sessions[ofThread] = limit.None
	}
	switch {
	case b != blocks{}:
		return nobodyNeeds
	case !dv.belowBound(0, 0) && dv.isSmall(t.ring.recipients):
		return ringNeeds
	case dv.isSmall(t.recipientsInMemory()):
		return threadNeeds
	}
	return largeNeeds
}

// makesRoom reports whether a message may be put on record for others: nobody works on
// it, and all destinations that could be given it have their part without it, or cannot
// be given it now.
func (d *dispatch) makesRoom(m *message) bool {
	part, need := d.part(), d.memory.room.need
	return need != nobodyNeeds && d.isIdleBut(m, func(v *vertex, t *thread) bool {
		switch {
		case part == 0:
			return d.blocksOf(t) != blocks{}
		case need == largeNeeds && d.blocksOf(t) == blocks{}:
			return false
		case need == ringNeeds:
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
	return q.belowBound(1, mem.largest-size+1)
}
