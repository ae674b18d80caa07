package scheduler

// Invariants of what is on record.

// checkRecords: a message is in memory or on record, each record is found where
// its state says, and everything is counted. It returns the messages on record.
func (s *Scheduler) checkRecords(c *Counts) int {
	messages, loading, recipients, urgent := 0, 0, 0, 0
	seen := make(map[MessageID]bool)
	for _, t := range s.threads {
		for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
			if !ref.isRecord() {
				continue
			}
			rec := s.records.items.at(ref.record())
			c.States.add(rec.state, 1)
			c.Vertices++
			open := s.recordOpen(rec)
			c.Recipients += open
			assert(open > 0, "a record of %d has no open recipient", rec.id)
			s.checkRecord(ref.record(), rec)
			if rec.flags&recordUrgent != 0 {
				urgent++
			}
			if rec.flags&recordLoading == 0 {
				recipients += open
			}
			if seen[rec.id] {
				continue
			}
			seen[rec.id] = true
			messages++
			if rec.flags&recordLoading != 0 {
				loading++
			}
			assert(s.byID.find(uint64(rec.id)) == 0, "message %d is in memory and on record", rec.id)
			s.checkChain(ref.record())
		}
	}
	mem := &s.memory
	assert(messages-loading == mem.messages && loading == mem.loading && recipients == mem.recipients, "on record: %d messages, kept %d; %d loading, kept %d; %d recipients, kept %d",
		messages-loading, mem.messages, loading, mem.loading, recipients, mem.recipients)
	assert(int(s.records.byID.n) == messages, "%d messages on record, %d known by number", messages, s.records.byID.n)
	assert(urgent == mem.urgent.len, "%d records are urgent, %d in the list", urgent, mem.urgent.len)
	wanting := 0
	for r := s.ringOrder.head; r != nil; r = s.ringOrder.next(r) {
		s.checkWants(r)
		if r.wanted {
			wanting++
		}
	}
	assert(wanting == mem.wanting.len, "%d rings want to read, %d in the list", wanting, mem.wanting.len)
	assert(len(mem.candidates) == 0, "messages are left that may be put on record")
	return messages
}

// checkChain: all records of a message are in the chain of the first one.
func (s *Scheduler) checkChain(n recordRef) {
	rec := s.records.items.at(n)
	first := s.records.find(rec.id)
	assert(first != 0, "message %d is on record and not found", rec.id)
	in, loading := false, s.records.items.at(first).flags&recordLoading
	s.records.each(first, func(other recordRef, of *record) {
		in = in || other == n
		assert(of.id == rec.id && of.flags&recordLoading == loading, "the records of %d disagree", rec.id)
	})
	assert(in, "a record of %d is in no chain", rec.id)
	if rec.logHash != 0 {
		found := false
		for n := s.records.byLog.chain(mix(uint64(rec.logHash))); n != 0; n = s.records.items.at(n).byLog {
			found = found || n == first
		}
		assert(found, "message %d is not found by its log identity", rec.id)
	}
}

// checkRecord: a record waits for a time, for its turn, or for its file.
func (s *Scheduler) checkRecord(n recordRef, rec *record) {
	t := s.recordThread(rec)
	assert(s.threads[t.key] == t, "a record of %d in a thread that is gone", rec.id)
	queued, urgent, loading := rec.flags&recordQueued != 0, rec.flags&recordUrgent != 0, rec.flags&recordLoading != 0
	assert(!(queued && urgent) && !(loading && (queued || urgent)), "a record of %d is in several places", rec.id)
	if rec.lookAt != 0 {
		found := false
		for m := s.memory.calendar.seconds[rec.lookAt].list.head; m != 0; m = s.records.items.at(m).looks.next {
			found = found || m == n
		}
		assert(found, "a record of %d is not in the calendar", rec.id)
	}
	switch {
	case loading:
		assert(rec.lookAt == 0, "a record of %d is being read and in the calendar", rec.id)
		return
	case urgent:
		return
	case rec.flags&recordReadAtLook != 0:
		assert(rec.lookAt != 0, "the file of %d is never read", rec.id)
		return
	}
	switch rec.state {
	case due:
		assert(queued, "a due record of %d is in no queue", rec.id)
	case waiting:
		assert(rec.lookAt != 0 && rec.lookAt <= rec.wakeAt, "a record of %d waits without an end", rec.id)
	case blocked, poisoned:
	default:
		assert(false, "a record of %d in state %d", rec.id, rec.state)
	}
	assert(queued == (rec.state == due), "a record of %d in state %d is queued: %v", rec.id, rec.state, queued)
	if s.recordMayExpire(rec, t) {
		assert(rec.lookAt != 0, "a record of %d never expires", rec.id)
	}
}

// checkWants: the threads with records to read are known to their ring.
func (s *Scheduler) checkWants(r *ring) {
	wanting, recipients := [2]int{}, 0
	for t := r.members.head; t != nil; t = r.members.next(t) {
		recipients += t.recipientsInMemory()
		if t.records == nil {
			continue
		}
		for kind := range wanting {
			wants := t.mayFeed() && t.records.due[t.active][kind].len > 0
			assert(wants == t.records.wanted[kind], "thread %v wants to read: %v", t, t.records.wanted[kind])
			if wants {
				wanting[kind]++
			}
		}
	}
	for kind, n := range wanting {
		assert(n == r.wanting[kind].len, "ring %q: %d threads want to read, %d in the list", r.key, n, r.wanting[kind].len)
	}
	assert(recipients == r.recipients, "ring %q: %d recipients in memory, kept %d", r.key, recipients, r.recipients)
	assert(r.wanted == (wanting[0]+wanting[1] > 0), "ring %q wants to read: %v", r.key, r.wanted)
}

// dueRecords counts the due records of a thread.
func (s *Scheduler) dueRecords(t *thread) int {
	n, count, loading, recipients := 0, 0, 0, 0
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		if !ref.isRecord() {
			continue
		}
		rec := s.records.items.at(ref.record())
		count++
		if rec.flags&recordLoading != 0 {
			loading++
		} else {
			recipients += s.recordOpen(rec)
		}
		if rec.state == due {
			n++
		}
	}
	x := t.records
	assert(count == x.count && loading == x.loading && recipients == x.recipients, "thread %v: %d records, kept %d; %d loading, kept %d; %d recipients, kept %d",
		t.key, count, x.count, loading, x.loading, recipients, x.recipients)
	return n
}

// checkRecordMemory counts what the records use of the shared slabs.
func (s *Scheduler) checkRecordMemory() (more, diagnostics int) {
	records := 0
	for _, t := range s.threads {
		for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
			if !ref.isRecord() {
				continue
			}
			rec := s.records.items.at(ref.record())
			records++
			if rec.more != 0 {
				more++
			}
			for i := range s.recordLen(rec) {
				if s.recordedRecipient(rec, i).diagnostic != 0 {
					diagnostics++
				}
			}
		}
	}
	assert(records == s.records.items.used(), "%d records, %d allocated", records, s.records.items.used())
	for id := range s.records.extras {
		assert(s.records.find(id) != 0, "message %d has extras and is not on record", id)
	}
	return more, diagnostics
}

// eachRecipient calls f for each recipient of a thread.
func (s *Scheduler) eachRecipient(t *thread, f func(*recipient)) {
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		if ref.isRecord() {
			rec := s.records.items.at(ref.record())
			for i := range s.recordLen(rec) {
				f(s.recordedRecipient(rec, i))
			}
			continue
		}
		v := s.vertices.at(ref)
		for i := range v.len() {
			f(s.recipient(v, i))
		}
	}
}
