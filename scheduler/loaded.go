package scheduler

// Loaded: what happens when a message is in memory again, or its file could not be read.

// notLoaded handles a file that could not be read: its message is loaded later, or it is dropped
// with its file.
func (lo *loads) notLoaded(e NotLoaded) {
	u := &lo.unloaded
	l := u.loading[e.Message]
	if l == nil {
		return
	}
	lo.endLoad(e.Message, l)
	if e.Missing {
		lo.stubsMissing(l, e.Message, e.Moved)
		return
	}
	lo.s.agenda.do(Note{Severity: Warning, Message: e.Message, Text: "cannot be loaded now: " + e.Reason})
	u.messages++
	u.recipients += u.openOf(l.stubs[0].ref)
	for _, x := range l.stubs {
		t := lo.stubThread(u.stubs.At(x.ref))
		lo.countStub(t, x.at, -1)
		lo.putStub(t, x.ref, max(x.at, lo.s.agenda.now.after(retryInterval)))
		u.looks.set(x.ref, lo.s.agenda.date.after(retryInterval))
		lo.s.threads.updateThread(t)
	}
}

// stubsMissing drops a message that is not loaded and whose control file is gone, or was moved
// by the spool.
func (lo *loads) stubsMissing(l *load, id MessageID, moved bool) {
	u := &lo.unloaded
	lo.s.lines.logMissing(id, u.stubs.At(l.stubs[0].ref).path(), moved)
	delete(lo.s.orders.savedOrders, id)
	lo.s.mail.counts.Messages--
	lo.s.mail.counts.MessagesOut++
	for _, x := range l.stubs {
		s := u.stubs.At(x.ref)
		lo.countChanged(lo.stubThread(s).channel, -int(s.open))
	}
	for _, t := range lo.dropStubs(l) {
		lo.s.threads.updateThread(t)
	}
}

// dropStubs drops the stubs of a message that was read, and returns their threads.
func (lo *loads) dropStubs(l *load) (threads []*thread) {
	lo.unloaded.byID.Remove(l.stubs[0].ref)
	for _, x := range l.stubs {
		threads = append(threads, lo.stubThread(lo.unloaded.stubs.At(x.ref)))
		lo.dropStub(x.ref, x.at)
	}
	return threads
}

// loadedAgain brings a message back into memory, as its control file is now. What only the
// scheduler knows (attempts, retries) comes from the stubs.
func (lo *loads) loadedAgain(in *Message) {
	u := &lo.unloaded
	l := u.loading[in.ID]
	if l == nil { // not asked for
		return
	}
	lo.endLoad(in.ID, l)
	if u.stubs.At(l.stubs[0].ref).modifiedAt != dateOf(in.ModifiedAt) {
		lo.stubsMissing(l, in.ID, false) // the number belongs to another message now
		lo.s.arrivals.arrive(in)
		return
	}
	m := lo.s.arrivals.newMessage(in)
	if !l.urgent {
		m.flags |= demanded
	}
	nextRun := lo.restoreFromStubs(m, l)
	threads := lo.dropStubs(l)
	lo.s.mail.byID.Add(m.ref)
	lo.s.mail.counts.Recipients += int(m.open)
	lo.s.mail.eachVertex(m, func(v *vertex) { lo.enterQueueAgain(v, nextRun[v]) })
	for _, w := range lo.s.mail.walks {
		lo.s.mail.eachVertex(m, w.vertexLoaded)
	}
	for _, t := range threads {
		lo.s.threads.updateThread(t)
	}
	lo.resumeMessage(m)
	if l.urgent && m.open > 0 {
		lo.considerUnloading(m)
	}
}

// restoreFromStubs gives the vertices of a message, which are not in the queue yet, what their
// stubs have kept. It returns those that wait for the next run of their queueonly threads.
func (lo *loads) restoreFromStubs(m *message, l *load) (nextRun map[*vertex]bool) {
	stubs := make(map[threadRef]loadingStub, len(l.stubs))
	for _, x := range l.stubs {
		s := lo.unloaded.stubs.At(x.ref)
		stubs[s.thread] = x
		lo.countChanged(lo.stubThread(s).channel, -int(s.open))
	}
	nextRun = make(map[*vertex]bool)
	lo.s.mail.eachVertex(m, func(v *vertex) {
		t := lo.s.mail.threadOf(v)
		lo.countChanged(t.channel, int(lo.s.mail.openOf(v)))
		x, known := stubs[v.thread]
		if !known { // somebody has made recipients open again
			return
		}
		lo.restoreFromStub(v, lo.unloaded.stubs.At(x.ref))
		switch {
		case x.at == never:
			nextRun[v] = t.params.QueueOnly
		case x.at > lo.s.agenda.now:
			lo.s.threads.setState(v, waiting, x.at)
		}
	})
	return nextRun
}

// countChanged counts recipients that are in a file, and were not when the message was loaded
// before; a negative number means that they are there no longer.
func (lo *loads) countChanged(c *channel, n int) {
	if n >= 0 {
		c.counts.In += uint64(n)
		lo.s.mail.counts.RecipientsIn += uint64(n)
		return
	}
	lo.s.mail.counts.RecipientsOut += uint64(-n)
}

func (lo *loads) restoreFromStub(v *vertex, s *stub) {
	v.history = s.history
	for i := range lo.s.mail.lenOf(v) {
		r := lo.s.mail.recipient(v, i)
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
func (lo *loads) enterQueueAgain(v *vertex, nextRun bool) {
	lo.s.arrivals.enterQueue(v)
	if v.state != due {
		return
	}
	t := lo.s.mail.threadOf(v)
	if v.fedAt != 0 {
		t.setSessionCap(false)
	}
	if nextRun {
		lo.s.threads.fair.Remove(v.ref)
	}
}

// resumeMessage does what had to wait until the file was read.
func (lo *loads) resumeMessage(m *message) {
	if m.open == 0 {
		delete(lo.s.orders.savedOrders, m.id)
		lo.s.writes.finish(m, 0, 0)
		return
	}
	if lo.s.rules.config.ReportInterval > 0 {
		lo.s.notices.planNotice(m, lo.s.agenda.now) // the time of its notice is not kept
	}
	for _, v := range lo.s.mail.openVertices(m) {
		if v.state != 0 {
			lo.s.notices.expire(v)
		}
	}
	lo.s.orders.restoreOrders(m)
	for _, v := range lo.s.mail.openVertices(m) {
		if v.state == due {
			lo.s.rings.overfeedThread(lo.s.mail.threadOf(v))
		}
	}
}
