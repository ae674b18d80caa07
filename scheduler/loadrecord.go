package scheduler

import (
	"cmp"
	"slices"
)

// Reading again: a message on record comes back into memory (Load, Loaded,
// NotLoaded).

// load asks for the file of a message on record to be read.
func (dv *delivery) load(n recordRef) {
	rec := dv.records.items.at(n)
	dv.memory.loading++
	dv.memory.messages--
	dv.records.each(dv.records.find(rec.id), func(n recordRef, rec *record) {
		dv.dequeueRecord(n)
		dv.setLook(n, never)
		rec.flags |= recordLoading
		t := dv.recordThread(rec)
		t.records.loading++
		dv.countOnRecord(t, -dv.recordOpen(rec))
		dv.updateThread(t)
	})
	dv.do(Load{Message: rec.id, Path: dv.recordPath(rec)})
}

// recordPath returns the name of the control file below transport/.
func (ml *mail) recordPath(rec *record) string {
	if x := ml.records.extras[rec.id]; x != nil && x.path != "" {
		return x.path
	}
	return pathOf(rec.id, rec.levels())
}

// endLoading counts the records of a message as no longer being read.
func (dv *delivery) endLoading(first recordRef) {
	dv.memory.loading--
	dv.memory.changed = true
	dv.records.each(first, func(_ recordRef, rec *record) {
		rec.flags &^= recordLoading
		dv.recordThread(rec).records.loading--
	})
}

// notLoaded handles a file that could not be read: its message stays on record
// and is read later, or it is dropped with its file.
func (dv *delivery) notLoaded(e NotLoaded) {
	first := dv.records.find(e.Message)
	if first == 0 || dv.records.items.at(first).flags&recordLoading == 0 {
		return
	}
	dv.endLoading(first)
	if e.Missing {
		dv.recordMissing(first, e.Moved)
		return
	}
	dv.do(Note{Severity: Warning, Message: e.Message, Text: "cannot be read again now: " + e.Reason})
	dv.memory.messages++
	dv.records.each(first, func(n recordRef, rec *record) {
		dv.countOnRecord(dv.recordThread(rec), dv.recordOpen(rec))
		rec.flags |= recordReadAtLook
		dv.setLook(n, dv.now.after(retryInterval))
	})
}

// recordMissing drops a message on record whose control file is gone, or was moved by
// the spool.
func (dv *delivery) recordMissing(first recordRef, moved bool) {
	rec := dv.records.items.at(first)
	dv.noteMissing(rec.id, dv.recordPath(rec), moved)
	dv.counts.Messages--
	dv.counts.MessagesOut++
	for _, w := range dv.walks {
		w.messageLeaves(rec.id)
	}
	var threads []*thread
	dv.records.each(first, func(n recordRef, rec *record) {
		threads = append(threads, dv.recordThread(rec))
		dv.dropRecord(n)
	})
	dv.records.remove(first)
	for _, t := range threads {
		dv.updateThread(t)
	}
}

// dropRecord unlinks a record that is not being read, and counts its open
// recipients as dropped. The record of its message is freed later.
func (dv *delivery) dropRecord(n recordRef) {
	rec := dv.records.items.at(n)
	t := dv.recordThread(rec)
	for _, w := range dv.walks {
		w.vertexLeaves(n.inThread())
	}
	for i := range dv.recordLen(rec) {
		if r := dv.recordedRecipient(rec, i); r.state != done {
			t.recipients--
			t.memberOf.recipients--
			dv.counts.Recipients--
			dv.counts.RecipientsOut++
			dv.countOut(t, r)
		}
	}
	dv.counts.Vertices--
	dv.unlinkRecord(n)
	if t.nextUpdate == n.inThread() {
		t.nextUpdate = rec.links.next
	}
	t.vertices.remove(n.inThread())
	t.memberOf.vertices--
	t.modTimes.remove(rec.modifiedAt.second())
	if t.updates != 0 {
		dv.planResume(t)
	}
}

// unlinkRecord takes a record out of everything but the list of its thread.
func (dv *delivery) unlinkRecord(n recordRef) {
	rec := dv.records.items.at(n)
	dv.setLook(n, never)
	dv.dequeueRecord(n)
	dv.countRecordState(rec, -1)
	for i := range dv.recordLen(rec) {
		dv.clearDiagnostic(dv.recordedRecipient(rec, i))
	}
	if rec.more != 0 {
		dv.moreRecipients.release(rec.more)
		rec.more = 0
	}
	dv.recordThread(rec).records.count--
}

// loadedAgain brings a message on record back into memory, as its control file
// is now. What only the scheduler knows (attempts, retries, the last reports)
// comes from the records.
func (dv *delivery) loadedAgain(in *Message) {
	first := dv.records.find(in.ID)
	switch {
	case first == 0:
		dv.arrive(in)
		return
	case dv.records.items.at(first).flags&recordLoading == 0: // not asked for
		return
	}
	dv.endLoading(first)
	if dv.records.items.at(first).modifiedAt != dateOf(in.ModifiedAt) {
		dv.recordMissing(first, false) // the number belongs to another message now
		dv.arrive(in)
		return
	}
	x := dv.records.extras[in.ID]
	if x == nil {
		x = new(recordExtras)
	}
	m := dv.newMessage(in)
	dv.byID.add(m.ref)
	for _, w := range dv.walks {
		w.record = 0
	}
	m.recipients, m.failed = max(m.recipients, x.recipients), x.failed
	var threads []*thread
	dv.records.each(first, func(n recordRef, rec *record) {
		threads = append(threads, dv.recordThread(rec))
		if v := dv.vertexIn(m, rec.thread); v != nil {
			dv.restoreVertex(v, n)
		} else {
			dv.dropRecord(n)
		}
	})
	dv.records.remove(first)
	dv.eachVertex(m, func(v *vertex) {
		if v.state == 0 { // somebody has made its recipients open again
			dv.counts.Recipients += int(v.open)
			dv.counts.RecipientsIn += uint64(v.open)
			dv.enterQueue(v)
		}
	})
	for _, t := range threads {
		dv.updateThread(t)
	}
	dv.resumeMessage(m, x)
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

// restoreVertex puts a vertex that was just made into the place and the state of
// its record.
func (dv *delivery) restoreVertex(v *vertex, n recordRef) {
	rec := dv.records.items.at(n)
	t := dv.threadOf(v)
	dv.restoreRecipients(v, rec)
	v.fedAt, v.retry = rec.fedAt, rec.retry
	v.crashes = uint8(rec.flags & recordCrashes / recordCrash)
	v.destinationFailed = rec.flags&recordDestinationFailed != 0
	v.inRetryStep = rec.flags&recordInRetryStep != 0
	t.vertices.remove(v.ref)
	t.memberOf.vertices--
	t.modTimes.remove(rec.modifiedAt.second())
	dv.replaceInThread(t, n.inThread(), v.ref)
	state, nextRun := rec.state, (rec.flags&recordNextRun != 0) != (t.active == 1)
	dv.unlinkRecord(n)
	switch {
	case dv.feedable(v) == 0:
		dv.setState(v, blocked, 0)
		dv.planWake(v)
	case state == waiting:
		dv.setState(v, waiting, rec.wakeAt.instant())
		dv.planWake(v)
	case state == poisoned:
		dv.setState(v, poisoned, 0)
		dv.planWake(v)
	default:
		t.setSessionCap(rec.fedAt == 0)
		dv.setState(v, due, 0)
		v.suspensionsWhenDue = rec.suspensionsWhenDue
		dv.enqueueVertex(t, v, nextRun)
		dv.planWake(v)
	}
}

// restoreRecipients copies to the recipients of a vertex what the record has
// about them. Recipients that are done in the file, but were not before, count as
// dropped, and those that are open again count as new.
func (dv *delivery) restoreRecipients(v *vertex, rec *record) {
	t := dv.threadOf(v)
	kept, gone := 0, 0
	for i := range dv.recordLen(rec) {
		old := dv.recordedRecipient(rec, i)
		if old.state == done {
			continue
		}
		at := dv.findRecipient(v, int64(old.offset))
		if at < 0 {
			dv.countOut(t, old)
			gone++
			continue
		}
		r := dv.recipient(v, at)
		r.attempts, r.flags = old.attempts, r.flags|old.flags&(mustAttempt|triedBefore)
		if old.diagnostic != 0 {
			r.diagnostic = dv.diagnostics.retain(old.diagnostic)
		}
		kept++
	}
	again := v.len() - kept
	dv.counts.Recipients += again - gone
	dv.counts.RecipientsIn += uint64(again)
	dv.counts.RecipientsOut += uint64(gone)
	t.channel.in -= uint64(kept)
	t.recipients -= kept + gone
	t.memberOf.recipients -= kept + gone
}

// resumeMessage does what had to wait until the file was read.
func (dv *delivery) resumeMessage(m *message, x *recordExtras) {
	if m.open == 0 {
		dv.finish(m, 0, 0)
		return
	}
	if x.noticeAt != 0 {
		dv.planNotice(m, x.noticeAt)
	} else {
		dv.planInterimNotice(m)
	}
	for _, v := range dv.openVertices(m) {
		dv.expire(v)
	}
	for _, by := range x.obsoletedBy {
		dv.obsoleteBy(m, by)
	}
	// Orders on parts come first: after the others, the message may be on its way out.
	slices.SortStableFunc(x.orders, func(a, b *recordedOrder) int {
		return cmp.Compare(min(len(b.order.Only), 1), min(len(a.order.Only), 1))
	})
	for _, o := range x.orders {
		if m.flags&(removing|moving) == 0 {
			dv.order(&o.order, m, dv.stillOrdered(m, o))
		}
	}
	dv.eachVertex(m, func(v *vertex) {
		if v.state == due {
			dv.overfeedThread(dv.threadOf(v))
		}
	})
}
