package scheduler

// Turns in which records are read again: which rings and threads want to read some, and
// whose record is the next.

// maxLoading bounds the control files that are being read again at a time, so
// that new mail need not wait until many of them have been read.
const maxLoading = 256

// ringRecords is the threads of a ring that want to read records.
type ringRecords struct {
	recipients int              // in memory, of the members
	wanting    [2]list[*thread] // with new mail, with deferred mail
	links      links[*ring]     // in memory.wanting
	wanted     bool             // is in memory.wanting
	kind       int              // which of wanting has the next turn
}

// mayLoad reports whether the files of records may be read now.
func (dv *delivery) mayLoad() bool { return !dv.stop.begun && !dv.spoolDown }

// loadRecords starts the reading of the records whose turn it is. While the room is
// scarce, that depends on the sessions (nextOfRing), which may have changed in any Step.
func (dv *delivery) loadRecords() {
	mem := &dv.memory
	if !mem.changed && mem.room.halved == 0 {
		return
	}
	mem.changed = false
	for mem.loading < maxLoading {
		n := dv.nextToLoad()
		if n == 0 {
			mem.room.keptOut = true
			return
		}
		dv.load(n)
	}
	mem.changed = true
	mem.room.keptOut = false
}

// nextToLoad returns the record whose turn it is, or 0 if none may be read.
func (dv *delivery) nextToLoad() recordRef {
	mem := &dv.memory
	if !dv.belowBound(0, 0) {
		if dv.urgentFits() {
			return mem.urgent.head
		}
		return 0
	}
	room := dv.hasRoom(0, 0)
	if mem.urgent.len > 0 && (!mem.urgentHadTurn || !room || mem.wanting.len == 0) {
		mem.urgentHadTurn = true
		return mem.urgent.head
	}
	mem.urgentHadTurn = false
	over := dv.overHalf(0, 0)
	for range mem.wanting.len {
		r := mem.wanting.head
		mem.wanting.remove(r)
		mem.wanting.append(r)
		switch {
		case room:
			if n := dv.nextOfRing(r, over); n != 0 {
				return n
			}
		case dv.config.RingReserve > 0 && dv.isSmall(r.recipients):
			if n := dv.nextOfRing(r, false); n != 0 {
				return n
			}
		}
	}
	return mem.urgent.head
}

// nextOfRing returns the next record of a ring, or 0. New and deferred records
// take turns, and so do threads. If onlySmall, it considers only threads with few
// recipients in memory, to which half of the room is left. If the room is scarce, it
// considers only rings with a session for them.
func (dv *delivery) nextOfRing(r *ring, onlySmall bool) recordRef {
	scarce := dv.memory.room.halved > 0
	if onlySmall && dv.config.RingReserve == 0 || scarce && r.wants > 0 {
		return 0
	}
	for range 2 {
		kind := r.kind
		r.kind = 1 - r.kind
		threads := &r.wanting[kind]
		for range threads.len {
			t := threads.head
			threads.remove(t)
			threads.append(t)
			if scarce {
				if b := dv.blocksOf(t); b.ofRing() {
					return 0
				}
			}
			if !onlySmall || dv.isSmall(t.recipientsInMemory()) {
				return t.records.due[t.active][kind].head
			}
		}
	}
	return 0
}

// updateWants notes whether the thread wants to read records.
func (q *queue) updateWants(t *thread) {
	x := t.records
	for kind := range x.due[0] {
		wants := t.mayFeed() && x.due[t.active][kind].len > 0
		if wants && !x.wanted[kind] {
			t.ring.wanting[kind].append(t)
			x.wanted[kind] = true
			q.memory.changed = true
		} else if !wants {
			q.dropWant(t, kind)
		}
	}
	if r := t.ring; r != nil {
		q.updateRingWants(r)
	}
}

// dropWant notes that the thread no longer wants to read records of this kind. It
// is also called before the thread leaves its ring.
func (q *queue) dropWant(t *thread, kind int) {
	if x := t.records; x.wanted[kind] {
		t.ring.wanting[kind].remove(t)
		x.wanted[kind] = false
		q.updateRingWants(t.ring)
	}
}

func (q *queue) updateRingWants(r *ring) {
	wants := r.wanting[newMail].len+r.wanting[deferredMail].len > 0
	if wants == r.wanted {
		return
	}
	r.wanted = wants
	if wants {
		q.memory.wanting.append(r)
	} else {
		q.memory.wanting.remove(r)
	}
}

func (r *ring) initRecords() {
	for kind := range r.wanting {
		r.wanting[kind].of = func(t *thread) *links[*thread] { return &t.records.wants[kind] }
	}
}
