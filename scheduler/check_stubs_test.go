package scheduler

// Invariants of mail that is not loaded.

// checkStubs: a message is loaded or not, each stub is found where its state says, and everything
// is counted. It returns how many messages are not loaded.
func (s *Scheduler) checkStubs(c *Counts) int {
	u := &s.loads.unloaded
	messages, recipients, stubs, filling := 0, 0, 0, 0
	for first := range u.byID.Each {
		id := u.stubs.At(first).id
		messages++
		assert(s.mail.byID.Find(uint64(id)) == 0, "message %d is loaded and not loaded", id)
		l := u.loading[id]
		for i, n := range u.of(first) {
			one := u.stubs.At(n)
			stubs++
			c.Vertices++
			c.Recipients += int(one.open)
			assert(one.id == id && one.open > 0 && n != 0, "a stub of %d with %d open belongs to %d", id, one.open, one.id)
			state, _ := s.loads.stateOf(n)
			c.States[state.word()]++
			assert(l == nil || one.index == 0, "a stub of %d waits while it is being read", id)
			if l == nil {
				recipients += int(one.open)
			} else {
				assert(l.stubs[i].ref == n, "another stub of %d is being read", id)
			}
			s.checkStub(n, one)
		}
	}
	assert(messages-len(u.loading) == u.messages && recipients == u.recipients, "not loaded: %d messages, kept %d; %d recipients, kept %d",
		messages-len(u.loading), u.messages, recipients, u.recipients)
	assert(stubs == u.stubs.Used(), "%d stubs, %d allocated", stubs, u.stubs.Used())
	writes := 0
	for _, l := range u.loading {
		if l.urgent {
			writes++
		}
	}
	assert(writes == u.writes && writes <= maxWrites, "%d loads to write something, kept %d", writes, u.writes)
	for _, t := range s.threads.byKey {
		s.checkThreadStubs(t)
		if t.stubs != nil && t.stubs.filling {
			filling++
		}
	}
	assert(filling == u.filling.Len, "%d threads want to fill, %d in the list", filling, u.filling.Len)
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		s.checkHungry(r)
	}
	assert(len(u.candidates) == 0, "messages are left that may be unloaded")
	return messages
}

// checkStub: a stub waits for a time, and is looked at when something must be written.
func (s *Scheduler) checkStub(n stubRef, one *stub) {
	t := s.loads.stubThread(one)
	assert(s.threads.byKey[t.key] == t, "a stub of %d in a thread that is gone", one.id)
	if s.loads.unloaded.loading[one.id] != nil || s.loads.unloaded.isUrgent[one.id] {
		return
	}
	primary, _ := s.agenda.expiryOf(t.params, one.modifiedAt)
	expires := primary != noDate && !t.held && t.updates&releaseHeld == 0 && one.flags&stubMustAttempt == 0
	assert(!expires || s.loads.unloaded.looks.at(n) != noDate, "a stub of %d never expires", one.id)
}

// checkThreadStubs: the lists and counts of a thread.
func (s *Scheduler) checkThreadStubs(t *thread) {
	x := t.stubs
	if x == nil {
		return
	}
	all, queued, being := 0, 0, 0
	for n := x.all.Head; n != 0; n = x.all.Next(n) {
		all++
		one := s.loads.unloaded.stubs.At(n)
		assert(one.thread == t.ref, "a stub of another thread in %v", t)
		switch {
		case s.loads.unloaded.loading[one.id] != nil:
			being++
		case one.flags&stubDue == 0:
			assert(one.index != 0, "a stub of %d is nowhere", one.id)
			queued++
		}
	}
	loading := 0
	for _, l := range s.loads.unloaded.loading {
		for _, one := range l.stubs {
			if s.loads.unloaded.stubs.At(one.ref).thread == t.ref && one.at == 0 {
				loading++
			}
		}
	}
	assert(all == x.all.Len && queued == x.times.Len() && loading == x.loading, "thread %v: %d stubs, kept %d; %d wait, kept %d; %d being read, kept %d",
		t, all, x.all.Len, queued, x.times.Len(), loading, x.loading)
	assert(x.due.Len()+queued+being == all, "thread %v: of %d stubs, %d are due and %d wait", t, all, x.due.Len(), queued)
	if next := x.times.Next(); next != never {
		assert(x.wake.isPlanned(), "the stubs of thread %v never wake", t)
	}
	free := max(0, t.freeSlots())
	hungry := t.mayFeed() && t.dueStubs() > 0 && !t.waitsAtSite() && free > t.fair.Pickable()+x.loading
	assert(x.hungry == hungry, "thread %v is hungry: %v", t, x.hungry)
}

// checkHungry: a ring knows its threads that could use a session, and what is being read.
func (s *Scheduler) checkHungry(r *ring) {
	hungry, loading := 0, 0
	for t := r.members.Head; t != nil; t = r.members.Next(t) {
		if t.stubs == nil {
			continue
		}
		loading += t.stubs.loading
		if t.stubs.hungry {
			hungry++
		}
	}
	assert(hungry == r.hungry.Len && loading == r.loading, "ring %q: %d threads are hungry, %d in the list; %d being read, kept %d", r.key, hungry, r.hungry.Len, loading, r.loading)
	if s.rings.halted() || r.hungry.Len == 0 || r.place.Waits() {
		return
	}
	room := min(r.sessionsAtHand()-r.expected, s.limits.freeOf(r))
	loaded := 0 // wants of loaded mail
	for t := r.members.Head; t != nil; t = r.members.Next(t) {
		loaded += min(t.wants, t.fair.Pickable())
	}
	assert(loaded > 0 || room <= r.loading, "ring %q has %d sessions for mail that is not loaded, %d being read", r.key, room, r.loading)
}

// checkLoading: what is to be loaded waits for a reason.
func (s *Scheduler) checkLoading() {
	u := &s.loads.unloaded
	if !s.loads.mayLoad() {
		return
	}
	assert(len(u.urgent) == 0 || u.writes >= maxWrites, "%d messages wait to be loaded and may be", len(u.urgent))
	if u.filling.Len > 0 && len(u.loading) < maxFilling && !s.rings.halted() {
		first := s.loads.firstDue(u.filling.Head)
		open := 0
		for _, n := range u.of(first) {
			open += int(u.stubs.At(n).open)
		}
		assert(!s.loads.hasRoom(open), "thread %v may load mail and does not", u.filling.Head)
	}
}
