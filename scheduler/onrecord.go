package scheduler

import (
	"time"

	"zsched/ctlfile"
)

// On record: how a message is put on record, and what happens to it until its
// file is read again (loadrecord.go).

// canBeRecorded reports whether the message has open recipients and nobody works
// on its files.
func (q *queue) canBeRecorded(m *message) bool {
	return m.open > 0 && m.pendingWrites == 0 && m.flags&(removing|moving|holdOrdered) == 0
}

// isIdle reports whether nothing happens to a message for some time, so that it
// can be on record. A message with many recipients needs a longer time, because
// it is more work to read.
func (d *dispatch) isIdle(m *message) bool {
	if !d.canBeRecorded(m) {
		return false
	}
	wake := d.now.after(minIdle + idlePerRecipient*time.Duration(m.open))
	if p := d.noticePlans[m.ref]; p != nil && p.at < wake {
		return false
	}
	// The last vertices are the last to be fed, so checking one is usually enough.
	n := 0
	if d.isMulti(m) {
		n = len(d.extras.at(m.extras).vertices)
	}
	for ; n >= 0; n-- {
		if !d.isIdleVertex(d.nthVertex(m, n), wake) {
			return false
		}
	}
	return true
}

// isIdleVertex reports whether no agent has a vertex, or may be given it, before
// the time wake, and nothing is planned for it.
func (d *dispatch) isIdleVertex(v *vertex, wake instant) bool {
	_, locked := d.recalls[v.ref]
	_, kept := d.partWaits[v.ref]
	if locked || kept || len(d.parts[v.ref]) > 0 {
		return false
	}
	switch v.state {
	case 0:
		return true
	case due:
		if t := d.threadOf(v); t.mayFeed() && v.queue == t.active {
			return false
		}
	case waiting, blocked, poisoned:
	default:
		return false
	}
	if d.wakes.contains(v.ref) && d.wakes.keyOf(v.ref) < wake {
		return false
	}
	if p := d.delayPlans[v.ref]; p != nil && p.index != 0 && d.delays.keyOf(p) < wake {
		return false
	}
	// A report counts even if it comes after the end of its line.
	return v.ordered == 0 && (!v.unanswered || d.agents[v.agent] == nil)
}

// readTags asks for the tags of a message that would be put on record. An agent with
// marking=agent reports a recipient before it tags it, and may die in between. A
// record has only the recipients that are open, and when the file is read again, one
// that is not tagged would be delivered twice.
func (dv *delivery) readTags(m *message) {
	m.pendingWrites++
	op := dv.nextOp()
	dv.issue(op, pending{action: Read{Op: op, Message: m.id, Path: dv.path(m)}, message: m})
}

// tagsRead handles the answer: it writes the tags that are missing. If that is not
// possible for all of them now, the message stays in memory, and its file is read
// again after its next attempt.
func (dv *delivery) tagsRead(m *message, e *Reread) {
	if e.Missing {
		dv.fileMissing(m, e.Moved)
		return
	}
	if e.Owes {
		m.flags |= owesNotice
	}
	m.pendingWrites--
	marks, all := dv.missingTags(m, e.Recipients)
	if all {
		m.flags &^= untagged
	}
	dv.write(m, marks, nil)
	others := len(dv.memory.candidates)
	dv.advance(m)
	if !all {
		dv.memory.candidates = dv.memory.candidates[:others]
	}
}

// missingTags returns the tags of the recipients that are done and are open in the
// file. All is false if it leaves some out: a live agent has locked them and is about to
// tag them, or the agent has said that it has written a d line and has not.
func (ml *mail) missingTags(m *message, states []ctlfile.State) (marks []ctlfile.Mark, all bool) {
	tags := make(map[uint32]ctlfile.Tag, len(states))
	for _, st := range states {
		tags[uint32(st.Offset)] = st.Tag
	}
	all = true
	ml.eachVertex(m, func(v *vertex) {
		for i := range v.len() {
			r := ml.recipient(v, i)
			tag, found := tags[r.offset]
			if r.state != done || !found || tag != ctlfile.Open && tag != ctlfile.Locked {
				continue
			}
			outcome, wanted := ctlfile.Delivered, notifySuccess
			if r.flags&hasFailed != 0 {
				outcome, wanted = ctlfile.Failed, notifyFailure
			}
			if tag == ctlfile.Locked || r.flags&wanted != 0 {
				all = false
				continue
			}
			marks = append(marks, ctlfile.Mark{Offset: int64(r.offset), Tag: outcome})
		}
	})
	return marks, all
}

// makeRecords puts a message on record. All its vertices must be due, waiting,
// blocked or poisoned.
func (dv *delivery) makeRecords(m *message) {
	dv.keepExtras(m)
	for _, w := range dv.walks {
		w.skipRemoved(m)
	}
	vertices := dv.openVertices(m)
	for _, v := range vertices { // first, because the key of one depends on the others
		dv.dequeueVertex(v)
	}
	var first, last recordRef
	for _, v := range vertices {
		n := dv.newRecord(m, v)
		if first == 0 {
			first = n
		} else {
			dv.records.items.at(last).next = n
		}
		last = n
		dv.takePlace(v, n)
	}
	dv.unlinkLogID(m)
	dv.byID.remove(m.ref)
	dv.freeMessage(m)
	dv.records.add(first)
	dv.memory.messages++
	dv.memory.changed = true
	dv.records.each(first, func(n recordRef, rec *record) {
		t := dv.recordThread(rec)
		dv.countOnRecord(t, dv.recordOpen(rec))
		dv.planLook(n)
		if rec.state == due {
			dv.enqueueRecord(n)
		}
		dv.updateThread(t)
	})
}

// keepExtras keeps the facts that only few messages need besides their records.
func (dv *delivery) keepExtras(m *message) {
	x := recordExtras{recipients: m.recipients, failed: m.failed}
	needed := m.recipients != m.open || m.failed != 0
	if m.extras != 0 {
		x.path = dv.extras.at(m.extras).path
		needed = needed || x.path != ""
	}
	if p := dv.noticePlans[m.ref]; p != nil {
		x.noticeAt, needed = p.at, true
		dv.notices.remove(p)
		p.message = 0
		delete(dv.noticePlans, m.ref)
	}
	dv.eachVertex(m, func(v *vertex) {
		p := dv.delayPlans[v.ref]
		if p == nil || len(p.deadlines) == 0 || p.index == 0 {
			return
		}
		if at := dv.delays.keyOf(p); x.deadlineAt == 0 || at < x.deadlineAt {
			x.deadlineAt, needed = at, true
		}
	})
	if needed {
		*dv.records.obtainExtras(m.id) = x
	}
}

// newRecord makes the record of a vertex.
func (dv *delivery) newRecord(m *message, v *vertex) recordRef {
	n, rec := dv.records.items.alloc()
	*rec = record{
		id: m.id, modifiedAt: m.modifiedAt, logHash: shortHash(m.logHash), thread: v.thread,
		more: v.more, first: v.first, fedAt: v.fedAt, suspensionsWhenDue: v.suspensionsWhenDue,
		state: v.state, retry: v.retry, flags: recordFlags(min(v.crashes, maxCrashes)) * recordCrash,
	}
	set := func(flag recordFlags, on bool) {
		if on {
			rec.flags |= flag
		}
	}
	set(recordOneLevel, m.levels == 1)
	set(recordTwoLevels, m.levels == 2)
	set(recordNullSender, m.flags&nullSender != 0)
	set(recordDestinationFailed, v.destinationFailed)
	set(recordInRetryStep, v.inRetryStep)
	set(recordNextRun, v.state == due && v.queue == 1)
	if p := dv.delayPlans[v.ref]; p != nil && p.index != 0 {
		// A delay or deadline that has not been handled yet is handled when the
		// file has been read.
		set(recordReadAtLook, dv.delays.keyOf(p) <= dv.now)
	}
	return n
}

// takePlace puts a record into the place of its vertex, which is no longer in a
// queue. The vertex is freed with its message.
func (dv *delivery) takePlace(v *vertex, n recordRef) {
	t, rec := dv.threadOf(v), dv.records.items.at(n)
	dv.wakes.remove(v.ref)
	if p := dv.delayPlans[v.ref]; p != nil {
		dv.delays.remove(p)
		delete(dv.delayPlans, v.ref)
	}
	if v.state == waiting {
		rec.wakeAt = v.wakeAt.ceilSecond()
		t.wakeTimes.remove(v.wakeAt.second())
		t.wakeTimes.add(rec.wakeAt)
	}
	dv.noteMove(n.inThread(), &rec.first)
	if t.records == nil {
		t.records = dv.newThreadRecords()
	}
	t.records.count++
	dv.replaceInThread(t, v.ref, n.inThread())
	v.first, v.more, v.count = recipient{}, 0, 1
	v.state, v.thread = 0, 0
}

// replaceInThread puts a record into the place of a vertex in its thread, or the
// other way round.
func (q *queue) replaceInThread(t *thread, old, item vertexRef) {
	t.vertices.replace(old, item)
	if t.nextUpdate == old {
		t.nextUpdate = item
	}
	for _, w := range q.walks {
		if w.vertex == old {
			w.vertex = item
			if !item.isRecord() { // it has only open recipients now
				w.part.index = w.part.before
			}
		}
	}
}

// countOnRecord adds recipients to the counts of those on record. A negative
// number means that they are in memory again.
func (q *queue) countOnRecord(t *thread, recipients int) {
	t.records.recipients += recipients
	t.memberOf.recipients -= recipients
	q.memory.recipients += recipients
}

// setRecordState moves a record to another state.
func (q *queue) setRecordState(n recordRef, state vertexState, wakeAt second) {
	rec := q.records.items.at(n)
	if state == waiting || rec.state == waiting && rec.wakeAt.instant() > q.now {
		q.noteRecordChange(n)
	}
	q.countRecordState(rec, -1)
	rec.state, rec.wakeAt = state, wakeAt
	q.countRecordState(rec, 1)
}

// countRecordState counts a record in the state that it has (1), or takes it out
// of the counts (-1).
func (q *queue) countRecordState(rec *record, n int32) {
	t := q.recordThread(rec)
	t.states[rec.state] += n
	q.states[rec.state] += int(n)
	if rec.state != waiting {
		return
	}
	if rec.flags&recordDestinationFailed != 0 {
		t.revivable += n
	}
	if n > 0 {
		t.wakeTimes.add(rec.wakeAt)
	} else {
		t.wakeTimes.remove(rec.wakeAt)
	}
}

// makeRecordDue ends the wait of a record. It is read when its turn comes.
func (q *queue) makeRecordDue(n recordRef) {
	rec := q.records.items.at(n)
	t := q.recordThread(rec)
	t.setSessionCap(false)
	if rec.state == poisoned {
		rec.flags &^= recordCrashes
	}
	q.setRecordState(n, due, 0)
	rec.suspensionsWhenDue = t.waits()
	q.setNextRun(rec, t.params.QueueOnly && !t.running)
	q.planLook(n)
	q.enqueueRecord(n)
	q.updateThread(t)
}

// setNextRun says whether a due record, which is in no queue, waits for the next
// run of its thread.
func (q *queue) setNextRun(rec *record, nextRun bool) {
	rec.flags &^= recordNextRun
	if nextRun != (q.recordThread(rec).active == 1) {
		rec.flags |= recordNextRun
	}
}

// enqueueRecord puts a due record into the queue in which it waits to be read.
func (q *queue) enqueueRecord(n recordRef) {
	rec := q.records.items.at(n)
	if rec.flags&(recordQueued|recordUrgent|recordLoading) != 0 {
		return
	}
	rec.flags |= recordQueued
	q.recordQueue(rec).append(n)
}

// dequeueRecord takes a record out of the queue in which it waits to be read.
func (q *queue) dequeueRecord(n recordRef) {
	switch rec := q.records.items.at(n); {
	case rec.flags&recordQueued != 0:
		q.recordQueue(rec).remove(n)
		rec.flags &^= recordQueued
	case rec.flags&recordUrgent != 0:
		q.memory.urgent.remove(n)
		rec.flags &^= recordUrgent
	}
}

func (q *queue) recordQueue(rec *record) *list[recordRef] {
	index, kind := 0, newMail
	if rec.flags&recordNextRun != 0 {
		index = 1
	}
	if rec.fedAt != 0 || rec.first.attempts > 0 {
		kind = deferredMail
	}
	return &q.recordThread(rec).records.due[index][kind]
}

// readSoon asks for the file of a record to be read because something must be
// written, even if its thread may not be fed.
func (q *queue) readSoon(n recordRef) {
	rec := q.records.items.at(n)
	if rec.flags&(recordUrgent|recordLoading) != 0 {
		return
	}
	q.dequeueRecord(n)
	rec.flags |= recordUrgent
	q.memory.urgent.append(n)
	q.memory.changed = true
	q.updateThread(q.recordThread(rec))
}

// updateRecord carries out the bulk updates of a thread on a record.
func (q *queue) updateRecord(n recordRef) {
	rec := q.records.items.at(n)
	t := q.recordThread(rec)
	if t.updates&releaseHeld != 0 {
		for i := range q.recordLen(rec) {
			q.recordedRecipient(rec, i).flags |= mustAttempt
		}
	}
	switch {
	case rec.state == poisoned && t.updates&releaseHeld != 0:
		q.makeRecordDue(n)
	case rec.state != waiting:
	case t.updates&wakeWaiting != 0:
		rec.undoRetryStep()
		q.makeRecordDue(n)
	case t.updates&pullForward != 0 && rec.flags&recordDestinationFailed != 0:
		q.makeRecordDue(n)
	}
}

// requeueRecord puts a record into the queue, and the place in the calendar, that
// the new parameters of its thread call for.
func (q *queue) requeueRecord(n recordRef) {
	rec := q.records.items.at(n)
	t := q.recordThread(rec)
	switch rec.state {
	case poisoned:
		q.makeRecordDue(n)
		return
	case due:
		nextRun := t.params.QueueOnly && (!t.running || (rec.flags&recordNextRun != 0) != (t.active == 1))
		queued := rec.flags&recordQueued != 0
		if queued {
			q.dequeueRecord(n)
		}
		q.setNextRun(rec, nextRun)
		if queued {
			q.enqueueRecord(n)
		}
	}
	if rec.flags&(recordUrgent|recordLoading) == 0 {
		q.planLook(n)
	}
}
