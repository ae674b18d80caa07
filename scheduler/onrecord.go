package scheduler

import (
	"time"

	"zsched/ctlfile"
)

// On record: how a message is put on record. Its records then are in its threads
// (recordqueue.go) until its file is read again (loadrecord.go).

// canBeRecorded reports whether the message has open recipients and nobody works
// on its files.
func (q *queue) canBeRecorded(m *message) bool {
	return m.open > 0 && m.pendingWrites == 0 && m.flags&(removing|moving) == 0
}

// isIdle reports whether nothing happens to a message for some time, so that it
// can be on record. A message with many recipients needs a longer time, because
// it is more work to read.
func (d *dispatch) isIdle(m *message) bool { return d.isIdleBut(m, nil) }

// isIdleBut is the same, but a vertex that may be fed also counts as idle if spared
// says so; nil: none does.
func (d *dispatch) isIdleBut(m *message, spared func(*vertex, *thread) bool) bool {
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
		if !d.isIdleVertex(d.nthVertex(m, n), wake, spared) {
			return false
		}
	}
	return true
}

// isIdleVertex reports whether no agent has a vertex, or may be given it, before
// the time wake, and nothing is planned for it.
func (d *dispatch) isIdleVertex(v *vertex, wake instant, spared func(*vertex, *thread) bool) bool {
	if d.orders[v.ref] != nil {
		return false
	}
	switch v.state {
	case 0:
		return true
	case due:
		if t := d.threadOf(v); t.mayFeed() && v.queue == t.active && (spared == nil || !spared(v, t)) {
			return false
		}
	case waiting, blocked, poisoned:
	default:
		return false
	}
	if d.instantAt(d.watch.at(v.ref)) < wake || v.state == waiting && v.wakeAt < wake {
		return false
	}
	if p := d.delayPlans[v.ref]; p != nil && d.instantAt(d.plannedDate(&p.next)) < wake {
		return false
	}
	// A report counts even if it comes after the end of its line.
	return (!v.unanswered || d.agents[v.agent] == nil)
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
		dv.plan(&p.next, never)
		p.message = 0
		delete(dv.noticePlans, m.ref)
	}
	dv.eachVertex(m, func(v *vertex) {
		p := dv.delayPlans[v.ref]
		if p == nil || len(p.deadlines) == 0 || !p.next.isPlanned() {
			return
		}
		if at := dv.instantAt(dv.plannedDate(&p.next)); x.deadlineAt == 0 || at < x.deadlineAt {
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
		id: m.id, modifiedAt: m.modifiedAt, logHash: shortHash(dv.logHashes.at(m.ref)), thread: v.thread,
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
	if p := dv.delayPlans[v.ref]; p != nil {
		// A delay or deadline that has not been handled yet is handled when the
		// file has been read.
		set(recordReadAtLook, dv.plannedDate(&p.next) <= dv.date)
	}
	return n
}

// takePlace puts a record into the place of its vertex, which is no longer in a
// queue. The vertex is freed with its message.
func (dv *delivery) takePlace(v *vertex, n recordRef) {
	t, rec := dv.threadOf(v), dv.records.items.at(n)
	dv.wakes.remove(v.ref)
	if p := dv.delayPlans[v.ref]; p != nil {
		dv.planDate(&p.next, noDate)
		delete(dv.delayPlans, v.ref)
	}
	if v.state == waiting {
		rec.wakeAt = v.wakeAt.ceilSecond()
		t.wakeTimes.remove(v.wakeAt.second())
		t.wakeTimes.add(rec.wakeAt)
	}
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
