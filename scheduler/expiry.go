package scheduler

import (
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// Expiry: recipients that are too old fail with a notice (scheduler.cf(5),
// expiry and expiry2). Also the wake time of a vertex, which depends on expiry.

// defaultExpiry2 is how long a recipient that was never attempted is kept after
// its expiry, if expiry2 is not set.
const defaultExpiry2 = 24 * time.Hour

// expired reports whether a recipient's time is over: it is past expiry and had
// an attempt since this process was started, or it is past expiry2 too. A
// recipient of a held thread does not expire.
func (q *queue) expired(v *vertex, r *recipient) bool {
	t := q.threadOf(v)
	if r.state != open && r.state != standby || r.flags&mustAttempt != 0 || t.held || t.updates&releaseHeld != 0 {
		return false
	}
	primary, secondary := q.expiry(v)
	return q.now >= primary && (r.tried() || q.outlastedSuspension(v)) || q.now >= secondary
}

// outlastedSuspension reports whether the vertex has waited for a suspension of its
// thread, which counts as an attempt.
func (q *queue) outlastedSuspension(v *vertex) bool {
	return v.state == due && q.outlasted(q.threadOf(v), v.suspensionsWhenDue, q.messageOf(v).modifiedAt)
}

// outlasted reports the same of what became due in a thread when waits was so much. Mail
// that was past its expiry when the scheduler started needs an attempt of its own: a network
// that comes up later than the scheduler must not end all of it.
func (q *queue) outlasted(t *thread, waitsWhenDue uint32, modifiedAt instant) bool {
	primary, _ := q.expiryOf(t.params, modifiedAt)
	return primary > q.startedAt && waitsWhenDue < t.waits()
}

// expiry returns when the vertex's recipients expire if they had an attempt
// (primary), and if they had none (secondary). Both times are never if the
// recipients do not expire.
func (q *queue) expiry(v *vertex) (primary, secondary instant) {
	return q.expiryOf(q.threadOf(v).params, q.messageOf(v).modifiedAt)
}

// expiryOf returns the same for a message file with that mtime. Expiry2 counts from the
// start of the scheduler if the message was past its expiry then, so that mail which is
// found after a long standstill can have an attempt.
func (ag *agenda) expiryOf(p *Params, modifiedAt instant) (primary, secondary instant) {
	if p.Expiry == 0 {
		return never, never
	}
	primary = modifiedAt.after(p.Expiry)
	second := p.Expiry2
	if second == 0 {
		second = defaultExpiry2
	}
	return primary, max(primary, ag.startedAt).after(second)
}

// nextExpiry returns when recipients of a thread with that mtime of the message file expire:
// after their first expiry the second, which counts for recipients that had no attempt. It
// is the second at once if they had none, and can have none before something is done:
// an ETRN, or a reload with a command.
func (q *queue) nextExpiry(t *thread, modifiedAt instant, tried bool) instant {
	primary, secondary := q.expiryOf(t.params, modifiedAt)
	if primary <= q.now || !tried && t.isUntriable() {
		return secondary
	}
	return primary
}

// isUntriable reports whether no mail of the thread can be tried before somebody asks for it
// or gives it a command.
func (t *thread) isUntriable() bool { return t.ring == nil || t.params.QueueOnly && !t.running }

// hasTried reports whether an open recipient of a vertex has had an attempt, or counts as if.
func (q *queue) hasTried(v *vertex) bool {
	for i := range v.len() {
		if r := q.recipient(v, i); r.state != done && r.tried() {
			return true
		}
	}
	return q.outlastedSuspension(v)
}

// recordHasTried is hasTried for a record.
func (q *queue) recordHasTried(rec *record) bool {
	for i := range q.recordLen(rec) {
		if r := q.recordedRecipient(rec, i); r.state != done && r.tried() {
			return true
		}
	}
	return rec.state == due && q.outlasted(q.recordThread(rec), rec.suspensionsWhenDue, rec.modifiedAt)
}

// maxExpiries bounds the vertices that oldestExpiry looks at.
const maxExpiries = 1000

// oldestExpiry returns when the first message of a thread expires. In a very long thread that
// cannot be tried, it is the time of mail that was tried.
func (q *queue) oldestExpiry(t *thread) instant {
	if !t.isUntriable() || t.vertices.len > maxExpiries {
		return q.nextExpiry(t, t.modTimes.earliest(), true)
	}
	first := never
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		at := never
		if ref.isRecord() {
			rec := q.records.items.at(ref.record())
			at = q.nextExpiry(t, rec.modifiedAt, q.recordHasTried(rec))
		} else {
			v := q.vertices.at(ref)
			at = q.nextExpiry(t, q.messageOf(v).modifiedAt, q.hasTried(v))
		}
		first = min(first, at)
	}
	return first
}

// planWake puts a vertex into the agenda at the time of its next event: the end
// of its wait, or its expiry. A vertex past its first expiry without an attempt
// is checked once in each interval, because a suspension may count as an attempt.
func (q *queue) planWake(v *vertex) {
	if len(q.delayPlans) > 0 {
		q.planDelay(v)
	}
	t := q.threadOf(v)
	primary, secondary := q.expiry(v)
	if t.held || primary <= q.now && !q.mayExpire(v) {
		primary, secondary = never, never
	}
	look := primary
	if primary <= q.now {
		look = q.now
		if !q.overdue(v) {
			look = q.now.after(max(t.params.Interval, time.Minute))
		}
		if secondary > q.now {
			look = min(look, secondary)
		}
	}
	if v.state == waiting {
		look = min(look, v.wakeAt)
	}
	if look == never {
		q.wakes.remove(v.ref)
		return
	}
	q.wakes.put(look, v.ref)
}

// mayExpire reports whether a recipient of the vertex can expire. One that was
// held cannot before its next attempt.
func (q *queue) mayExpire(v *vertex) bool {
	for i := range v.len() {
		if r := q.recipient(v, i); (r.state == open || r.state == standby) && r.flags&mustAttempt == 0 {
			return true
		}
	}
	return false
}

// overdue reports whether a recipient of the vertex has expired.
func (q *queue) overdue(v *vertex) bool {
	for i := range v.len() {
		if q.expired(v, q.recipient(v, i)) {
			return true
		}
	}
	return false
}

// expire fails the recipients of a vertex that have expired. The vertex must
// not be with an agent.
func (dv *delivery) expire(v *vertex) {
	if primary, _ := dv.expiry(v); dv.now < primary {
		return
	}
	words := "expired after " + inWords(dv.threadOf(v).params.Expiry)
	if t := dv.threadOf(v); v.state == due {
		if why := dv.waitReason(t); why != "" {
			words += "; " + why
		}
	}
	dv.fail(v, failureCause{
		words: words, code: "4.4.7 (delivery time expired)", keepsCode: true,
		applies: func(r *recipient) bool { return dv.expired(v, r) },
	})
}

// failureCause says why recipients fail without a report from an agent, and
// which ones.
type failureCause struct {
	words, code string
	// keepsCode says that the status code of the last report replaces code if it
	// stands for a temporary failure.
	keepsCode bool
	applies   func(*recipient) bool
}

// fail marks recipients of a vertex as failed. Their sender gets a notice.
func (dv *delivery) fail(v *vertex, why failureCause) {
	message := dv.messageOf(v)
	message.pendingWrites++ // keeps the message until the loop ends
	var marks []ctlfile.Mark
	var settles []alternative
	for i := range v.len() {
		r := dv.recipient(v, i)
		if !why.applies(r) {
			continue
		}
		message.flags |= owesNotice
		message.failed++
		mark := why.outcome(r, dv.diagnostics.get(r.diagnostic))
		dv.account(v, i, "expire", replyOf(&mark))
		if set, _ := dv.exclusiveSetOf(message, v, i); set != nil {
			dv.endRecipient(v, i, mark, false)
			continue
		}
		marks, settles = append(marks, mark), append(settles, alternative{v, i})
		r.state = writing
		dv.clearDiagnostic(r)
	}
	if len(marks) > 0 {
		dv.write(message, marks, settles)
		dv.blockIfEmpty(v)
	}
	message.pendingWrites--
	dv.advance(message)
}

// outcome returns the mark for a recipient. The action is "failed", whatever
// the last report said; the recipient and the peer of that report are kept.
func (c *failureCause) outcome(r *recipient, reported *diagnostic) ctlfile.Mark {
	var last ta.Notary
	text := c.words
	if reported != nil {
		last = ta.Notary(reported.notary)
		text = "\r" + c.words + ", problem was:\r" + strings.TrimLeft(reported.text, "\r")
	}
	code := c.code
	if reported := last.Code(); c.keepsCode && strings.HasPrefix(reported, "4.") {
		code = reported
	}
	diag := last.Diagnostic()
	if diag == "" {
		diag = "smtp; 500 (" + c.words + ")"
	}
	recipient := last.Recipient()
	if recipient == "" {
		recipient = "\x03" // the user of the r line
	}
	return ctlfile.Mark{
		Offset: int64(r.offset), Tag: ctlfile.Failed, Diagnose: true,
		Notary: strings.Join([]string{recipient, "failed", code, diag, last.Remote()}, "\x01"),
		Text:   text,
	}
}

// inWords formats a duration for a notice: "3 days", "1 day 2 hours".
func inWords(d time.Duration) string {
	var words []string
	for _, u := range []struct {
		span time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "min"}, {time.Second, "sec"}} {
		n := int64(d / u.span)
		d -= time.Duration(n) * u.span
		if n == 0 || len(words) == 2 {
			continue
		}
		word := strconv.FormatInt(n, 10) + " " + u.name
		if n > 1 {
			word += "s"
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return "0 secs"
	}
	return strings.Join(words, " ")
}
