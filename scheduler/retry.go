package scheduler

import (
	"time"

	"zsched/scheduler/rule"
	"zsched/ta"
)

// Retries: what happens after a job line has ended. A recipient that was
// deferred waits (retries, backoff, jitter), a dead destination suspends the
// thread, and a retryat gives the time.

// retryTime returns the time that a retryat gives: at least one second and at
// most Expiry from now.
func (dv *delivery) retryTime(v *vertex, r ta.Retry) instant {
	most := dv.threadOf(v).params.Expiry
	if most == 0 {
		most = rule.LongestRetry
	}
	seconds := max(r.Seconds, 0)
	if now := dv.date.unix(); !r.Relative {
		seconds = max(seconds, now) - now
	}
	seconds = min(seconds, int64(most/time.Second))
	return dv.now.after(max(time.Duration(seconds)*time.Second, rule.ShortestRetry))
}

// suspensionLength returns how long a thread is suspended after its destination
// has failed, and advances the thread's retries.
func (dv *delivery) suspensionLength(t *thread) time.Duration {
	age := time.Duration(0)
	if oldest := t.modTimes.earliest(); oldest != 0 {
		age = max(0, dv.date.since(oldest.date()))
	}
	wait, next := rule.RetryStep(t.params, t.retry, age, dv.rand)
	t.retry, t.inRetryStep = next, true
	return wait
}

// undoRetryStep is called when somebody ends the wait of a vertex by hand
// (RETRY, ETRN). If that attempt fails, the vertex waits for the same step
// again: an attempt by hand is not part of the schedule.
func (v *vertex) undoRetryStep() {
	if v.inRetryStep && v.retry > 0 {
		v.retry--
	}
	v.inRetryStep = false
}

// undoRetryStep is called when somebody ends the suspension of a thread by hand.
func (t *thread) undoRetryStep() {
	if t.inRetryStep && t.retry > 0 {
		t.retry--
	}
	t.inRetryStep = false
}

// suspend keeps the thread from being fed until the given time. Mail that
// arrives meanwhile waits too. The suspension lasts until its time even if the
// thread becomes empty.
func (q *queue) suspend(t *thread, till instant) {
	t.running = false
	t.suspendedUntil = till
	t.suspensions++
	if t.shaping != nil {
		t.shaping.told = nil
	}
	q.planResume(t)
	q.recordThread(t, "suspended", till)
	q.updateThread(t)
	q.considerUnloadingThread(t)
}

// takeRetryStep makes the open recipients of a vertex wait for one retry step,
// or expires them. Recipients without a report count as attempted. If no
// recipient was tried, but it is the turn of an alternative, the vertex is due
// at once.
func (dv *delivery) takeRetryStep(v *vertex) {
	if dv.countAttempts(v) {
		wait, next := rule.RetryStep(dv.threadOf(v).params, v.retry, dv.date.since(dv.messageOf(v).modifiedAt), dv.rand)
		v.retry, v.inRetryStep = next, true
		dv.postpone(v, dv.now.after(dv.waitAfterCrash(v, wait)))
		return
	}
	dv.reopenRecipients(v)
	switch {
	case dv.feedable(v) > 0:
		dv.makeDue(v)
	default:
		dv.blockVertex(v)
	}
}

// countAttempts counts the line as an attempt at each recipient without a
// report, and reports whether any recipient was tried.
func (ml *mail) countAttempts(v *vertex) (tried bool) {
	for i := range ml.lenOf(v) {
		switch r := ml.recipient(v, i); r.state {
		case open:
			ml.attempted(v, i)
			r.flags |= unreported
			v.unanswered = true
			tried = true
		case reported:
			tried = true
		}
	}
	return tried
}

// reopenRecipients makes the recipients of an ended line ready for the next.
func (ml *mail) reopenRecipients(v *vertex) {
	for i := range ml.lenOf(v) {
		if r := ml.recipient(v, i); r.state == reported || r.state == promoted {
			r.state = open
			r.flags &^= unreported
		}
	}
}

// postpone makes the vertex wait until the given time; in a queueonly thread it
// waits for the next run. Recipients past their expiry expire here.
func (dv *delivery) postpone(v *vertex, till instant) {
	dv.recordDeferrals(v, till)
	dv.reopenRecipients(v)
	dv.setState(v, waiting, till)
	dv.expire(v)
	switch {
	case v.state == 0:
	case dv.feedable(v) == 0:
		dv.setState(v, blocked, 0)
		dv.planWake(v)
	case dv.threadOf(v).params.QueueOnly:
		dv.setState(v, due, 0)
		dv.planWake(v)
		dv.updateThread(dv.threadOf(v))
	default:
		dv.planWake(v)
	}
	if v.state != 0 {
		dv.considerUnloading(dv.messageOf(v))
	}
}

// wakeVertex is called at the time in the agenda: the vertex's wait is over, or
// one of its recipients may have expired.
func (dv *delivery) wakeVertex(v *vertex) {
	dv.expire(v)
	switch {
	case v.state == 0:
	case dv.feedable(v) == 0:
		dv.blockVertex(v)
	case v.state == waiting && dv.wakeAt(v) <= dv.now:
		dv.makeDue(v)
	default:
		dv.planWake(v)
	}
}

// blockVertex blocks a vertex, none of whose recipients can be fed now.
func (q *queue) blockVertex(v *vertex) {
	t := q.threadOf(v)
	q.fair.Remove(v.ref)
	q.setState(v, blocked, 0)
	q.planWake(v)
	q.updateThread(t)
}

// blockIfEmpty blocks a due or waiting vertex if none of its recipients can be fed
// now.
func (q *queue) blockIfEmpty(v *vertex) {
	if (v.state == due || v.state == waiting) && q.feedable(v) == 0 {
		q.blockVertex(v)
	}
}
