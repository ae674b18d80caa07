package scheduler

import (
	"cmp"
	"time"

	"zsched/scheduler/rule"
	"zsched/ta"
)

// Retries: what happens after a job line has ended. A recipient that was
// deferred waits (retries, backoff, jitter), a dead destination suspends the
// thread, and a retryat gives the time.

// retryTime returns the time that a retryat gives: at least one second and at
// most Expiry from now.
func (li *lines) retryTime(v *vertex, r ta.Retry) instant {
	most := cmp.Or(li.s.mail.threadOf(v).params.Expiry, rule.LongestRetry)
	seconds := max(r.Seconds, 0)
	if now := li.s.agenda.date.unix(); !r.Relative {
		seconds = max(seconds, now) - now
	}
	seconds = min(seconds, int64(most/time.Second))
	return li.s.agenda.now.after(max(time.Duration(seconds)*time.Second, rule.ShortestRetry))
}

// suspensionLength returns how long a thread is suspended after its destination
// has failed, and advances the thread's retries. A destination has no age: with backoff=age, it would be that
// of one message, whose sender chooses it.
func (li *lines) suspensionLength(t *thread) (wait time.Duration) {
	wait, t.retry = rule.RetryStep(t.params, t.retry, 0, li.rand)
	return wait
}

// suspend keeps the thread from being fed until the given time, or longer if it is suspended
// already. Mail that arrives meanwhile waits too. The suspension lasts until its time even if the
// thread becomes empty.
func (ts *threads) suspend(t *thread, till instant) {
	t.running = false
	t.suspensions++
	if till >= t.suspendedUntil {
		t.suspendedUntil = till
		if t.shaping != nil {
			t.shaping.told, t.shaping.suspendedBy = nil, nil
		}
	}
	ts.planResume(t)
	ts.s.log.recordThread(t, "suspended", t.suspendedUntil)
	ts.updateThread(t)
}

// takeRetryStep makes the open recipients of a vertex wait for one retry step, or as long as a
// reply rule says, or expires them. Recipients without a report count as attempted, and get the
// text. If no recipient was tried, but it is the turn of an alternative, the vertex is due at once.
func (li *lines) takeRetryStep(v *vertex, text string, by *rule.ReplyRule) {
	if li.s.mail.countAttempts(v, text) {
		wait, next := rule.RetryStep(li.s.mail.threadOf(v).params, v.retry, li.s.agenda.date.since(li.s.mail.messageOf(v).modifiedAt), li.rand)
		v.retry = next
		if by != nil {
			wait = max(by.Span, rule.ShortestRetry)
		}
		li.postpone(v, li.s.agenda.now.after(wait))
		return
	}
	li.s.mail.reopenRecipients(v)
	li.s.threads.makeDue(v)
}

// countAttempts counts the line as an attempt at each recipient without a report, which gets the
// text instead, and reports whether any recipient was tried.
func (ml *mail) countAttempts(v *vertex, text string) (tried bool) {
	for i := range ml.lenOf(v) {
		switch r := ml.recipient(v, i); r.state {
		case open:
			ml.setDiagnostic(v, i, &ta.Report{Text: text})
			ml.attempted(v, i)
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
		if r := ml.recipient(v, i); r.state == reported {
			r.state = open
		}
	}
}

// postpone makes the vertex wait until the given time; in a queueonly thread it
// waits for the next run. Recipients past their expiry expire here.
func (li *lines) postpone(v *vertex, till instant) {
	li.s.log.deferrals(v, till)
	li.s.mail.reopenRecipients(v)
	li.s.threads.setState(v, waiting, till)
	li.s.notices.expire(v)
	switch {
	case v.state == 0:
	case li.s.mail.feedable(v) == 0:
		li.s.threads.blockVertex(v)
	case li.s.mail.threadOf(v).params.QueueOnly:
		li.s.threads.setState(v, due, 0)
		li.s.notices.planWake(v)
		li.s.threads.updateThread(li.s.mail.threadOf(v))
	default:
		li.s.notices.planWake(v)
	}
}

// wakeVertex is called at the time in the agenda: the vertex's wait is over, one of its
// recipients may have expired, or its sender is to be told of a delay.
func (li *lines) wakeVertex(v *vertex) {
	li.s.notices.expire(v)
	if v.state != 0 {
		li.s.notices.tellDelay(v)
	}
	switch {
	case v.state == 0:
	case li.s.mail.feedable(v) == 0:
		li.s.threads.blockVertex(v)
	case v.state == waiting && li.s.threads.wakeAt(v) <= li.s.agenda.now:
		li.s.threads.makeDue(v)
	default:
		li.s.notices.planWake(v)
	}
}

// blockVertex blocks a vertex, none of whose recipients can be fed now.
func (ts *threads) blockVertex(v *vertex) {
	t := ts.s.mail.threadOf(v)
	ts.fair.Remove(v.ref)
	ts.setState(v, blocked, 0)
	ts.s.notices.planWake(v)
	ts.updateThread(t)
}

// blockIfEmpty blocks a due or waiting vertex if none of its recipients can be fed
// now.
func (ts *threads) blockIfEmpty(v *vertex) {
	if (v.state == due || v.state == waiting) && ts.s.mail.feedable(v) == 0 {
		ts.blockVertex(v)
	}
}
