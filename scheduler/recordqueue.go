package scheduler

// Records in their threads: their states, and the queues in which they wait to be read.

// setRecordState moves a record to another state.
func (q *queue) setRecordState(n recordRef, state vertexState, wakeAt second) {
	rec := q.records.items.at(n)
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

// requeueForRun notes whether a due record waits for the next run of its thread, and puts it
// into the queue for that, or for this run, if it is in a queue.
func (q *queue) requeueForRun(n recordRef, nextRun bool) {
	rec := q.records.items.at(n)
	queued := rec.flags&recordQueued != 0
	if queued {
		q.dequeueRecord(n)
	}
	q.setNextRun(rec, nextRun)
	if queued {
		q.enqueueRecord(n)
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
		q.requeueForRun(n, t.params.QueueOnly && (!t.running || (rec.flags&recordNextRun != 0) != (t.active == 1)))
	}
	if rec.flags&(recordUrgent|recordLoading) == 0 {
		q.planLook(n)
	}
}
