package scheduler

import "slices"

// Loaded: what happens when a message is in memory again, or its file could not be read.

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
	for _, x := range l.stubs {
		s := u.stubs.At(x.ref)
		u.recipients += int(s.open)
		t := dv.stubThread(s)
		at := max(x.wakeAt, dv.now.after(retryInterval))
		if x.state == blocked {
			at = never
		} else {
			dv.countStub(t, x.state, -1)
			dv.countStub(t, waiting, 1)
		}
		t.stubs.times.Put(at, x.ref)
		dv.planLook(x.ref)
		dv.updateThread(t)
	}
}

// stubsMissing drops a message that is not loaded and whose control file is gone, or was moved
// by the spool.
func (dv *delivery) stubsMissing(l *load, id MessageID, moved bool) {
	u := &dv.unloaded
	first := u.find(id)
	dv.logMissing(id, u.stubs.At(first).path(), moved)
	delete(dv.savedOrders, id)
	dv.counts.Messages--
	dv.counts.MessagesOut++
	for _, n := range u.of(first) {
		s := u.stubs.At(n)
		dv.stubThread(s).channel.dropped += uint64(s.open)
		dv.counts.RecipientsOut += uint64(s.open)
	}
	for _, t := range dv.dropStubs(l, id) {
		dv.updateThread(t)
	}
}

// dropStubs drops the stubs of a message, which has been read, and returns their threads.
func (dv *delivery) dropStubs(l *load, id MessageID) (threads []*thread) {
	u := &dv.unloaded
	u.byID.Remove(l.stubs[0].ref)
	for _, x := range l.stubs {
		threads = append(threads, dv.stubThread(u.stubs.At(x.ref)))
		dv.dropStub(x.ref, x.state)
	}
	delete(u.plans, id)
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
	if u.stubs.At(l.stubs[0].ref).modifiedAt != dateOf(in.ModifiedAt) {
		dv.stubsMissing(l, in.ID, false) // the number belongs to another message now
		dv.arrive(in)
		return
	}
	plan := u.plans[in.ID]
	m := dv.newMessage(in)
	if !l.urgent {
		m.flags |= demanded
	}
	for _, x := range l.stubs {
		s := u.stubs.At(x.ref)
		gone := int(s.open)
		if v := dv.vertexIn(m, s.thread); v != nil {
			dv.restoreFromStub(v, s, x.wakeAt)
			gone -= int(v.open)
		}
		dv.countChanged(dv.stubThread(s).channel, -gone)
	}
	dv.eachVertex(m, func(v *vertex) {
		if !slices.ContainsFunc(l.stubs, func(x loadingStub) bool { return u.stubs.At(x.ref).thread == v.thread }) {
			dv.countChanged(dv.threadOf(v).channel, int(v.open)) // somebody has made recipients open again
		}
	})
	nextRun := dv.nextRunOf(m, l)
	threads := dv.dropStubs(l, in.ID)
	dv.byID.Add(m.ref)
	dv.counts.Recipients += int(m.open)
	dv.eachVertex(m, func(v *vertex) { dv.enterQueueAgain(v, nextRun[v]) })
	for _, w := range dv.walks {
		dv.eachVertex(m, w.vertexLoaded)
	}
	for _, t := range threads {
		dv.updateThread(t)
	}
	dv.resumeMessage(m, plan)
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
	v.fedAt, v.retry = s.fedAt, s.retry
	v.destinationFailed, v.inRetryStep = s.flags&stubDestinationFailed != 0, s.flags&stubInRetryStep != 0
	if at > dv.now {
		dv.setState(v, waiting, at)
	}
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
	for _, x := range l.stubs {
		s := dv.unloaded.stubs.At(x.ref)
		t := dv.stubThread(s)
		if v := dv.vertexIn(m, s.thread); v != nil && t.params.QueueOnly && x.state == due && s.flags&stubNextRun != 0 {
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
	t := dv.threadOf(v)
	dv.enterQueue(v)
	if v.state != due {
		return
	}
	if v.fedAt != 0 {
		t.setSessionCap(false)
	}
	if nextRun {
		dv.fair.Remove(v.ref)
	}
}

// resumeMessage does what had to wait until the file was read.
func (dv *delivery) resumeMessage(m *message, plan stubPlan) {
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
	dv.restoreOrders(m)
	for _, v := range dv.openVertices(m) {
		if v.state == due {
			dv.overfeedThread(dv.threadOf(v))
		}
	}
}
