package scheduler

import "slices"

// Loading: a message that is not loaded comes back into memory (Load, Loaded, NotLoaded).
//
//	demand  a session is free or starting, and no loaded mail can use it (loadFor), or all
//	        sessions of a ring are busy and one more thread is to take part in the turns
//	        (loadAhead). This needs no room: it is bounded by the sessions.
//	room    no limit is reached, and a thread has due stubs and fewer than quantum loaded
//	        vertices (loadIntoRoom)
//	writes  something must be written: an order, an expiry, a notice (loadUrgent)

// loads has what stays in memory of messages that are not loaded. It unloads messages and loads them again.
type loads struct {
	s *Scheduler

	unloaded unloaded
}

// load is the reading of one message.
type load struct {
	urgent bool          // something must be written
	stubs  []loadingStub // of the message
}

// loadingStub is a stub whose file is being read.
type loadingStub struct {
	ref stubRef
	at  instant // the end of its wait; 0: it was due, and counts in threadStubs.loading
}

// of returns what is kept for a stub, which must be of the message.
func (l *load) of(n stubRef) *loadingStub {
	return &l.stubs[slices.IndexFunc(l.stubs, func(x loadingStub) bool { return x.ref == n })]
}

const (
	// maxFilling bounds the messages that are read at a time because there is room, so that new
	// mail need not wait until many have been read; maxWrites those about which something is
	// to be written.
	maxFilling = 256
	maxWrites  = 64
)

// mayLoad reports whether files may be read now.
func (lo *loads) mayLoad() bool { return !lo.s.agents.stop.begun && !lo.s.writes.spoolDown }

// load asks for the file of a message to be read, given by its first stub.
func (lo *loads) load(first stubRef, urgent bool) {
	u := &lo.unloaded
	id := u.stubs.At(first).id
	l := &load{urgent: urgent}
	u.messages--
	if urgent {
		u.writes++
	}
	lo.s.agenda.do(Load{Message: id, Path: u.stubs.At(first).path()})
	u.recipients -= u.openOf(first)
	for _, n := range u.of(first) {
		t := lo.stubThread(u.stubs.At(n))
		at := lo.takeStub(t, n)
		lo.countStub(t, at, 1)
		l.stubs = append(l.stubs, loadingStub{n, at})
		lo.countLoading(t, at, 1)
		lo.s.threads.updateThread(t)
	}
	u.loading[id] = l
}

// endLoad ends the reading of a message.
func (lo *loads) endLoad(id MessageID, l *load) {
	u := &lo.unloaded
	delete(u.loading, id)
	if l.urgent {
		u.writes--
	}
	for _, x := range l.stubs {
		lo.countLoading(lo.stubThread(u.stubs.At(x.ref)), x.at, -1)
	}
}

// countLoading counts a stub that is being read (1), or no longer (-1).
func (lo *loads) countLoading(t *thread, at instant, n int) {
	if at != 0 {
		return
	}
	t.stubs.loading += n
	t.ring.loading += n
	if n < 0 {
		lo.s.rings.markDirty(t.ring) // it may use its session for others
	}
}

// loadFor has a message loaded for a session of the ring that no loaded mail can use, or starts
// an agent for it. It reports whether to go on.
func (lo *loads) loadFor(r *ring) bool {
	t := r.hungry.Head
	if t == nil {
		return false // what it wants is being read
	}
	if lo.s.limits.siteLink(r, t).Free() <= 0 {
		lo.s.limits.waitAtSite(t)
		return true
	}
	switch {
	case r.loading >= lo.s.limits.freeOf(r):
		return false
	case r.loading >= r.sessionsAtHand():
		lo.s.agents.startFor(r, t)
		return false
	}
	lo.loadFirst(r, t)
	return true
}

// sessionsAtHand is how many sessions the agents of the ring have free, or will offer.
func (r *ring) sessionsAtHand() int {
	n := r.expected
	for _, agents := range [...][]*agent{r.free, r.idle} {
		for _, a := range agents {
			n += a.freeSessions
		}
	}
	return n
}

// loadFirst loads the first message of a hungry thread. After it, the others have their turns.
func (lo *loads) loadFirst(r *ring, t *thread) {
	r.hungry.Remove(t)
	r.hungry.Append(t)
	lo.load(lo.firstDue(t), false)
}

// firstDue returns the first stub of the message of a thread that is loaded next.
func (lo *loads) firstDue(t *thread) stubRef {
	return lo.unloaded.find(lo.unloaded.stubs.At(t.stubs.due.First()).id)
}

// loadAhead has mail of one more thread loaded while all sessions of the ring are at work. Its
// loaded mail ends the stay of others when they have used their quantum.
func (lo *loads) loadAhead(r *ring) {
	if r.hungry.Len == 0 || r.sessions.Busy == 0 || lo.s.rings.halted() {
		return
	}
	if t := r.ahead; t != nil && t.ring == r && t.wants > 0 && t.stubs != nil && !t.stubs.hungry {
		return // it has not had its turn yet
	}
	r.ahead = r.hungry.Head
	lo.loadFirst(r, r.ahead)
}

// loadIntoRoom loads mail as far as the limits allow.
func (lo *loads) loadIntoRoom() {
	u := &lo.unloaded
	for u.filling.Len > 0 && len(u.loading) < maxFilling && !lo.s.rings.halted() {
		t := u.filling.Head
		first := lo.firstDue(t)
		if !lo.hasRoom(u.openOf(first)) {
			return
		}
		u.filling.Remove(t)
		u.filling.Append(t)
		lo.load(first, false)
	}
}

// loadSoon asks for a message to be loaded because something must be written.
func (lo *loads) loadSoon(id MessageID) {
	u := &lo.unloaded
	if !u.isUrgent[id] && u.loading[id] == nil {
		u.isUrgent[id] = true
		u.urgent = append(u.urgent, id)
	}
}

// loadAll asks for all messages to be loaded, because there is no limit any more.
func (lo *loads) loadAll() {
	for n := stubRef(1); n <= lo.unloaded.stubs.Last; n++ {
		if s := lo.unloaded.stubs.At(n); s.id != 0 {
			lo.loadSoon(s.id)
		}
	}
}

// loadUrgent starts the loads for which loadSoon has asked.
func (lo *loads) loadUrgent() {
	u := &lo.unloaded
	for len(u.urgent) > 0 && u.writes < maxWrites {
		id := u.urgent[0]
		u.urgent = u.urgent[1:]
		delete(u.isUrgent, id)
		if first := u.find(id); first != 0 && u.loading[id] == nil {
			lo.load(first, true)
		}
	}
}

// loadMail starts the loads that are not for a session. It is called at the end of each Step,
// when all mail that can be fed has been fed.
func (lo *loads) loadMail() {
	if !lo.mayLoad() {
		return
	}
	lo.lookAtStubs()
	lo.loadUrgent()
	lo.loadIntoRoom()
	lo.s.rings.dispatchDirty() // what is being read wants sessions
}

// updateStubs notes where a thread waits for its stubs to be loaded, and returns for how many
// more sessions there are some. free is how many more it could use.
func (lo *loads) updateStubs(t *thread, free int) int {
	x, dueNow := t.stubs, t.dueStubs()
	mayLoad := t.mayFeed() && dueNow > 0 && !t.waitsAtSite()
	if hungry := mayLoad && free > x.loading; hungry != x.hungry {
		x.hungry = hungry
		if hungry {
			t.ring.hungry.Append(t)
		} else {
			t.ring.hungry.Remove(t)
		}
	}
	ahead := t.params.Quantum
	if t.window.Dead {
		ahead = 1
	}
	if filling := mayLoad && t.fair.Len()+x.loading < ahead; filling != x.filling {
		x.filling = filling
		if filling {
			lo.unloaded.filling.Append(t)
		} else {
			lo.unloaded.filling.Remove(t)
		}
	}
	lo.s.agenda.plan(&x.wake, x.times.Next())
	return x.loading + dueNow
}

// leaveLists takes a thread that leaves its ring off the lists of those that want to load mail.
func (lo *loads) leaveLists(t *thread) {
	x := t.stubs
	if x == nil {
		return
	}
	t.ring.loading -= x.loading
	if x.hungry {
		x.hungry = false
		t.ring.hungry.Remove(t)
	}
	if x.filling {
		x.filling = false
		lo.unloaded.filling.Remove(t)
	}
}
