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

// load is the reading of one message.
type load struct {
	urgent bool          // something must be written
	stubs  []stubRef     // of the message
	states []vertexState // their states
	times  []instant     // the ends of their waits
	counts []bool        // which of them count in threadStubs.loading
}

const (
	// maxFilling bounds the messages that are read at a time because there is room, so that new
	// mail need not wait until many have been read; maxWrites those about which something is
	// to be written.
	maxFilling = 256
	maxWrites  = 64
)

// mayLoad reports whether files may be read now.
func (d *dispatch) mayLoad() bool { return !d.stop.begun && !d.spoolDown }

// load asks for the file of a message to be read, given by its first stub.
func (q *queue) load(first stubRef, urgent bool) {
	u := &q.unloaded
	id := u.stubs.at(first).id
	l := &load{urgent: urgent, stubs: u.of(first)}
	u.loading[id] = l
	u.messages--
	if urgent {
		u.writes++
	}
	q.do(Load{Message: id, Path: u.stubs.at(first).path()})
	for _, n := range l.stubs {
		s := u.stubs.at(n)
		t := q.stubThread(s)
		state, at := q.stateOf(s, t)
		counts := state == due && s.queueOf() == t.active
		l.states, l.times, l.counts = append(l.states, state), append(l.times, at), append(l.counts, counts)
		if counts {
			t.stubs.loading++
			t.memberOf.loading++
		}
		if state == due {
			t.stubs.queues[s.queueOf()].remove(n)
		}
		t.stubs.times.remove(n)
		u.recipients -= int(s.open)
		u.looks.set(n, noDate)
		q.updateThread(t)
	}
}

// endLoad ends the reading of a message.
func (q *queue) endLoad(id MessageID, l *load) {
	u := &q.unloaded
	delete(u.loading, id)
	if l.urgent {
		u.writes--
	}
	for i, n := range l.stubs {
		if t := q.stubThread(u.stubs.at(n)); l.counts[i] {
			t.stubs.loading--
			t.memberOf.loading--
			if t.ring != nil {
				q.markDirty(t.ring) // it may use its session for others
			}
		}
	}
}

// loadFor has a message loaded for a session of the ring that no loaded mail can use, or starts
// an agent for it. It reports whether to go on.
func (d *dispatch) loadFor(r *ring) bool {
	t := r.hungry.head
	if t == nil {
		return false // what it wants is being read
	}
	if d.siteLink(t).Free() <= 0 {
		d.waitAtSite(t)
		return true
	}
	links := d.ringLinks(r)
	switch {
	case r.loading >= min(links[0].Free(), links[1].Free()):
		return false
	case r.loading >= r.sessionsAtHand():
		d.startFor(r, t)
		return false
	}
	d.loadFirst(r, t)
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
func (d *dispatch) loadFirst(r *ring, t *thread) {
	r.hungry.remove(t)
	r.hungry.append(t)
	d.load(d.firstDue(t), false)
}

// firstDue returns the first stub of the message of a thread that is loaded next.
func (q *queue) firstDue(t *thread) stubRef {
	return q.unloaded.find(q.unloaded.stubs.at(t.stubs.queues[t.active].head).id)
}

// loadAhead has mail of one more thread loaded while all sessions of the ring are at work. Its
// loaded mail ends the stay of others when they have used their quantum.
func (d *dispatch) loadAhead(r *ring) {
	if r.hungry.len == 0 || r.sessions.Busy == 0 || d.halted() {
		return
	}
	if t := r.ahead; t != nil && t.ring == r && t.wants > 0 && t.stubs != nil && !t.stubs.hungry {
		return // it has not had its turn yet
	}
	r.ahead = r.hungry.head
	d.loadFirst(r, r.ahead)
}

// loadIntoRoom loads mail as far as the limits allow.
func (d *dispatch) loadIntoRoom() {
	u := &d.unloaded
	for u.filling.len > 0 && len(u.loading) < maxFilling && !d.halted() {
		t := u.filling.head
		first := d.firstDue(t)
		open := 0
		for _, n := range u.of(first) {
			open += int(u.stubs.at(n).open)
		}
		if !d.hasRoom(open) {
			return
		}
		u.filling.remove(t)
		u.filling.append(t)
		d.load(first, false)
	}
}

// loadSoon asks for a message to be loaded because something must be written.
func (q *queue) loadSoon(id MessageID) {
	u := &q.unloaded
	if !u.isUrgent[id] && u.loading[id] == nil {
		u.isUrgent[id] = true
		u.urgent = append(u.urgent, id)
	}
}

// loadAll asks for all messages to be loaded, because there is no limit any more.
func (q *queue) loadAll() {
	for n := stubRef(1); n <= q.unloaded.stubs.last; n++ {
		if s := q.unloaded.stubs.at(n); s.id != 0 {
			q.loadSoon(s.id)
		}
	}
}

// loadUrgent starts the loads for which loadSoon has asked.
func (dv *delivery) loadUrgent() {
	u := &dv.unloaded
	for len(u.urgent) > 0 && u.writes < maxWrites {
		id := u.urgent[0]
		u.urgent = u.urgent[1:]
		delete(u.isUrgent, id)
		if first := u.find(id); first != 0 && u.loading[id] == nil {
			dv.load(first, true)
		}
	}
}

// loadMail starts the loads that are not for a session. It is called at the end of each Step,
// when all mail that can be fed has been fed.
func (dv *delivery) loadMail() {
	if !dv.mayLoad() {
		return
	}
	dv.lookAtStubs()
	dv.loadUrgent()
	dv.loadIntoRoom()
	dv.dispatchDirty() // what is being read wants sessions
}

// notLoaded handles a file that could not be read: its message is loaded later, or it is dropped
// with its file.
func (dv *delivery) notLoaded(e NotLoaded) {
	u := &dv.unloaded
	l := u.loading[e.Message]
	if l == nil {
		return
	}
	dv.endLoad(e.Message, l)
	if e.Missing {
		dv.stubsMissing(l, e.Message, e.Moved)
		return
	}
	dv.do(Note{Severity: Warning, Message: e.Message, Text: "cannot be loaded now: " + e.Reason})
	u.messages++
	if l.urgent {
		p := u.plans[e.Message]
		p.loadAt = dv.date.after(retryInterval)
		u.plans[e.Message] = p
	}
	for i, n := range l.stubs {
		s := u.stubs.at(n)
		u.recipients += int(s.open)
		t := dv.stubThread(s)
		at := max(l.times[i], dv.now.after(retryInterval))
		if l.states[i] == blocked {
			at = never
		} else {
			dv.countStub(t, l.states[i], -1)
			dv.countStub(t, waiting, 1)
		}
		t.stubs.times.put(at, n)
		dv.planLook(n)
		dv.updateThread(t)
	}
}

// stubsMissing drops a message that is not loaded and whose control file is gone, or was moved
// by the spool.
func (dv *delivery) stubsMissing(l *load, id MessageID, moved bool) {
	u := &dv.unloaded
	first := u.find(id)
	dv.noteMissing(id, u.stubs.at(first).path(), moved)
	delete(dv.savedOrders, id)
	dv.counts.Messages--
	dv.counts.MessagesOut++
	for _, n := range u.of(first) {
		s := u.stubs.at(n)
		dv.stubThread(s).channel.dropped += uint64(s.open)
		dv.counts.RecipientsOut += uint64(s.open)
	}
	for _, w := range dv.walks {
		w.messageLeaves(id)
	}
	for _, t := range dv.dropStubs(l, id) {
		dv.updateThread(t)
	}
}

// dropStubs drops the stubs of a message, which has been read, and returns their threads.
func (dv *delivery) dropStubs(l *load, id MessageID) (threads []*thread) {
	u := &dv.unloaded
	u.byID.remove(l.stubs[0])
	for i, n := range l.stubs {
		threads = append(threads, dv.stubThread(u.stubs.at(n)))
		dv.dropStub(n, l.states[i])
	}
	delete(u.plans, id)
	delete(u.obsoleted, id)
	return threads
}

// loadedAgain brings a message back into memory, as its control file is now. What only the
// scheduler knows (attempts, retries) comes from the stubs.
func (dv *delivery) loadedAgain(in *Message) {
	u := &dv.unloaded
	l := u.loading[in.ID]
	if l == nil { // not asked for
		return
	}
	dv.endLoad(in.ID, l)
	if u.stubs.at(l.stubs[0]).modifiedAt != dateOf(in.ModifiedAt) {
		dv.stubsMissing(l, in.ID, false) // the number belongs to another message now
		dv.arrive(in)
		return
	}
	plan, by := u.plans[in.ID], u.obsoleted[in.ID]
	m := dv.newMessage(in)
	if !l.urgent {
		m.flags |= demanded
	}
	for i, n := range l.stubs {
		s := u.stubs.at(n)
		gone := int(s.open)
		if v := dv.vertexIn(m, s.thread); v != nil {
			dv.restoreFromStub(v, s, l.times[i])
			if l.states[i] == waiting && l.times[i] <= dv.now {
				v.suspensionsWhenDue = dv.stubThread(s).waits()
			}
			gone -= int(v.open)
		}
		dv.countChanged(dv.stubThread(s).channel, -gone)
	}
	dv.eachVertex(m, func(v *vertex) {
		if !slices.ContainsFunc(l.stubs, func(n stubRef) bool { return u.stubs.at(n).thread == v.thread }) {
			dv.countChanged(dv.threadOf(v).channel, int(v.open)) // somebody has made recipients open again
		}
	})
	nextRun := dv.nextRunOf(m, l)
	threads := dv.dropStubs(l, in.ID)
	dv.byID.add(m.ref)
	dv.counts.Recipients += int(m.open)
	dv.eachVertex(m, func(v *vertex) { dv.enterQueueAgain(v, nextRun[v]) })
	for _, w := range dv.walks {
		dv.eachVertex(m, func(v *vertex) { w.vertexLoaded(dv.threadOf(v), v.ref) })
	}
	for _, t := range threads {
		dv.updateThread(t)
	}
	dv.resumeMessage(m, plan, by)
	if l.urgent && m.open > 0 {
		dv.considerUnloading(m)
	}
}

// countChanged counts recipients that are in a file, and were not when the message was loaded
// before; a negative number means that they are there no longer.
func (dv *delivery) countChanged(c *channel, n int) {
	if n >= 0 {
		c.in += uint64(n)
		dv.counts.RecipientsIn += uint64(n)
		return
	}
	c.dropped += uint64(-n)
	dv.counts.RecipientsOut += uint64(-n)
}

// vertexIn returns the vertex of a message in a thread, or nil.
func (ml *mail) vertexIn(m *message, t threadRef) (found *vertex) {
	ml.eachVertex(m, func(v *vertex) {
		if v.thread == t {
			found = v
		}
	})
	return found
}

// restoreFromStub gives a vertex, which is not in the queue yet, what its stub has kept.
func (dv *delivery) restoreFromStub(v *vertex, s *stub, at instant) {
	v.fedAt, v.retry, v.suspensionsWhenDue, v.wakeAt = s.fedAt, s.retry, s.waits, at
	v.destinationFailed, v.inRetryStep = s.flags&stubDestinationFailed != 0, s.flags&stubInRetryStep != 0
	for i := range v.len() {
		r := dv.recipient(v, i)
		r.attempts = max(r.attempts, uint16(s.attempts))
		if s.flags&stubTried == 0 && s.attempts > 0 {
			r.flags |= triedBefore
		} else {
			r.flags &^= triedBefore
		}
		if s.flags&stubMustAttempt != 0 {
			r.flags |= mustAttempt
		}
	}
}

// nextRunOf returns which vertices of a message that was loaded again wait for the next run of
// their queueonly threads.
func (dv *delivery) nextRunOf(m *message, l *load) map[*vertex]bool {
	var next map[*vertex]bool
	for i, n := range l.stubs {
		s := dv.unloaded.stubs.at(n)
		t := dv.stubThread(s)
		if v := dv.vertexIn(m, s.thread); v != nil && t.running && l.states[i] == due && s.queueOf() != t.active {
			if next == nil {
				next = make(map[*vertex]bool)
			}
			next[v] = true
		}
	}
	return next
}

// enterQueueAgain puts a vertex that was loaded again into the queue. What was due before, is so
// since then.
func (dv *delivery) enterQueueAgain(v *vertex, nextRun bool) {
	t, waits := dv.threadOf(v), v.suspensionsWhenDue
	dv.enterQueue(v)
	if v.state != due {
		return
	}
	v.suspensionsWhenDue = waits
	if v.fedAt != 0 {
		t.setSessionCap(false)
	}
	if nextRun {
		dv.dequeueVertex(v)
		dv.enqueueVertex(t, v, true)
	}
}

// resumeMessage does what had to wait until the file was read.
func (dv *delivery) resumeMessage(m *message, plan stubPlan, obsoletedBy []obsoletion) {
	if m.open == 0 {
		delete(dv.savedOrders, m.id)
		dv.finish(m, 0, 0)
		return
	}
	if plan.noticeAt != 0 {
		dv.planNotice(m, plan.noticeAt)
	} else {
		dv.planInterimNotice(m)
	}
	for _, v := range dv.openVertices(m) {
		if v.state != 0 {
			dv.expire(v)
		}
	}
	for _, by := range obsoletedBy {
		if dv.logHashes.at(m.ref) == hashLogID(by.logID) && m.flags&(obsoleted|removing) == 0 && m.owner == by.owner && dv.errorTo(m) == by.errorTo {
			dv.dropObsolete(m, by.by)
		}
	}
	dv.restoreOrders(m)
	for _, v := range dv.openVertices(m) {
		if v.state == due {
			dv.overfeedThread(dv.threadOf(v))
		}
	}
}
