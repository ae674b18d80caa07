package scheduler

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
	u.recipients += u.openOf(l.stubs[0].ref)
	for _, x := range l.stubs {
		t := dv.stubThread(u.stubs.At(x.ref))
		dv.countStub(t, x.at, -1)
		dv.putStub(t, x.ref, max(x.at, dv.now.after(retryInterval)))
		u.looks.set(x.ref, dv.date.after(retryInterval))
		dv.updateThread(t)
	}
}

// stubsMissing drops a message that is not loaded and whose control file is gone, or was moved
// by the spool.
func (dv *delivery) stubsMissing(l *load, id MessageID, moved bool) {
	u := &dv.unloaded
	dv.logMissing(id, u.stubs.At(l.stubs[0].ref).path(), moved)
	delete(dv.savedOrders, id)
	dv.counts.Messages--
	dv.counts.MessagesOut++
	for _, x := range l.stubs {
		s := u.stubs.At(x.ref)
		dv.countChanged(dv.stubThread(s).channel, -int(s.open))
	}
	for _, t := range dv.dropStubs(l) {
		dv.updateThread(t)
	}
}

// dropStubs drops the stubs of a message that was read, and returns their threads.
func (dv *delivery) dropStubs(l *load) (threads []*thread) {
	dv.unloaded.byID.Remove(l.stubs[0].ref)
	for _, x := range l.stubs {
		threads = append(threads, dv.stubThread(dv.unloaded.stubs.At(x.ref)))
		dv.dropStub(x.ref, x.at)
	}
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
	m := dv.newMessage(in)
	if !l.urgent {
		m.flags |= demanded
	}
	nextRun := dv.restoreFromStubs(m, l)
	threads := dv.dropStubs(l)
	dv.byID.Add(m.ref)
	dv.counts.Recipients += int(m.open)
	dv.eachVertex(m, func(v *vertex) { dv.enterQueueAgain(v, nextRun[v]) })
	for _, w := range dv.walks {
		dv.eachVertex(m, w.vertexLoaded)
	}
	for _, t := range threads {
		dv.updateThread(t)
	}
	dv.resumeMessage(m)
	if l.urgent && m.open > 0 {
		dv.considerUnloading(m)
	}
}

// restoreFromStubs gives the vertices of a message, which are not in the queue yet, what their
// stubs have kept. It returns those that wait for the next run of their queueonly threads.
func (dv *delivery) restoreFromStubs(m *message, l *load) (nextRun map[*vertex]bool) {
	stubs := make(map[threadRef]loadingStub, len(l.stubs))
	for _, x := range l.stubs {
		s := dv.unloaded.stubs.At(x.ref)
		stubs[s.thread] = x
		dv.countChanged(dv.stubThread(s).channel, -int(s.open))
	}
	nextRun = make(map[*vertex]bool)
	dv.eachVertex(m, func(v *vertex) {
		t := dv.threadOf(v)
		dv.countChanged(t.channel, int(dv.openOf(v)))
		x, known := stubs[v.thread]
		if !known { // somebody has made recipients open again
			return
		}
		dv.restoreFromStub(v, dv.unloaded.stubs.At(x.ref))
		switch {
		case x.at == never:
			nextRun[v] = t.params.QueueOnly
		case x.at > dv.now:
			dv.setState(v, waiting, x.at)
		}
	})
	return nextRun
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

func (dv *delivery) restoreFromStub(v *vertex, s *stub) {
	v.fedAt, v.retry = s.fedAt, s.retry
	v.destinationFailed, v.inRetryStep = s.flags&stubDestinationFailed != 0, s.flags&stubInRetryStep != 0
	for i := range dv.lenOf(v) {
		r := dv.recipient(v, i)
		r.attempts = max(r.attempts, uint16(s.attempts))
		r.flags &^= triedBefore
		if s.flags&stubTried == 0 && s.attempts > 0 {
			r.flags |= triedBefore
		}
		if s.flags&stubMustAttempt != 0 {
			r.flags |= mustAttempt
		}
	}
}

// enterQueueAgain puts a vertex that was loaded again into the queue.
func (dv *delivery) enterQueueAgain(v *vertex, nextRun bool) {
	dv.enterQueue(v)
	if v.state != due {
		return
	}
	t := dv.threadOf(v)
	if v.fedAt != 0 {
		t.setSessionCap(false)
	}
	if nextRun {
		dv.fair.Remove(v.ref)
	}
}

// resumeMessage does what had to wait until the file was read.
func (dv *delivery) resumeMessage(m *message) {
	if m.open == 0 {
		delete(dv.savedOrders, m.id)
		dv.finish(m, 0, 0)
		return
	}
	if dv.config.ReportInterval > 0 {
		dv.planNotice(m, dv.now) // the time of its notice is not kept
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
