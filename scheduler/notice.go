package scheduler

// Notices: when senders are told of failures while the message still has open
// recipients (PARAMglobal-report-interval), of delays (reporttimes) and of
// missed deadlines that they gave (DELIVERBY). At the end of a message, Finish
// writes the notice that is still owed.

import (
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// noticePlan is the next notice about a message that has open recipients. The
// notice reports all failures up to its time.
type noticePlan struct {
	message messageRef // 0: the message has left
	at      instant
	next    timer
}

// delayPlan is for a vertex with recipients whose sender wants to be told of
// delays, or gave a deadline. Few vertices have one.
type delayPlan struct {
	vertex    vertexRef
	told      int // how many of the reporttimes have passed and been reported
	deadlines []deliverBy
	next      timer
}

// deliverBy is the deadline of a recipient (RFC 2852).
type deliverBy struct {
	recipient int // index in the vertex
	at        date
	fails     bool // the recipient fails then; otherwise its sender is told
	told      bool // it has passed, and that has been handled
}

func newDelayPlan(v *vertex) *delayPlan {
	p := &delayPlan{vertex: v.ref}
	p.next.due = func(s *Scheduler) { s.delayDue(p) }
	return p
}

// planNotice plans a notice about a message, if it owes one and has open
// recipients.
func (dv *delivery) planNotice(m *message, at instant) {
	if m.flags&(owesNotice|nullSender) != owesNotice || m.open == 0 {
		return
	}
	p := dv.noticePlans[m.ref]
	if p == nil {
		p = &noticePlan{message: m.ref, at: never}
		p.next.due = func(s *Scheduler) { s.noticeDue(p) }
		dv.noticePlans[m.ref] = p
	}
	if at < p.at {
		p.at = at
		dv.plan(&p.next, at)
	}
}

// planInterimNotice plans the notice of PARAMglobal-report-interval about a
// message that owes one.
func (dv *delivery) planInterimNotice(m *message) {
	if d := dv.config.ReportInterval; d > 0 && m.flags&owesNotice != 0 {
		dv.planNotice(m, dv.now.after(d))
	}
}

// noticeDue starts the writing of a notice whose time has come. If outcomes of
// the message are still being written, a later call of advance does it.
func (dv *delivery) noticeDue(p *noticePlan) {
	if m := dv.messages.Get(p.message); m != nil {
		dv.advance(m)
	}
}

// owesNoticeNow reports whether the time of a planned notice has come.
func (dv *delivery) owesNoticeNow(m *message) bool {
	p := dv.noticePlans[m.ref]
	return p != nil && p.at <= dv.now
}

// report starts the writing of the notice that a message owes. Whatever has to
// be reported from now on goes into the next one.
func (dv *delivery) report(m *message) {
	dv.plan(&dv.noticePlans[m.ref].next, never)
	delete(dv.noticePlans, m.ref)
	m.flags &^= owesNotice
	m.pendingWrites++
	op := dv.nextOp()
	action := Report{Op: op, Message: m.id, Path: dv.file(m)}
	if at := dv.messageExpiry(m); at != noDate && at > dv.date {
		action.RetryUntil = at.time()
	}
	dv.issue(op, pending{action: action, message: m})
}

// messageExpiry returns when the first of the open recipients expires.
func (dv *delivery) messageExpiry(m *message) date {
	first := noDate
	dv.eachVertex(m, func(v *vertex) {
		if v.state != 0 {
			primary, _ := dv.expiry(v)
			first = min(first, primary)
		}
	})
	return first
}

// rememberDelays keeps what a recipient's N line says about delays: its NOTIFY, the
// number of its notices of delay so far, and its deadline.
func (ml *mail) rememberDelays(v *vertex, in *ctlfile.OpenRecipient, modifiedAt date) {
	wanted := in.Notify.Wants(ctlfile.NotifyDelay) && len(ml.threadOf(v).params.ReportTimes) > 0
	if !wanted && !in.DeliverBy.Given {
		return
	}
	p := ml.delayPlans[v.ref]
	if p == nil {
		p = newDelayPlan(v)
		ml.delayPlans[v.ref] = p
	}
	p.told = max(p.told, in.Delays)
	if by := in.DeliverBy; by.Given {
		at := modifiedAt.after(by.After)
		// A notice that was sent before a restart reported the deadline too.
		p.deadlines = append(p.deadlines, deliverBy{recipient: ml.lenOf(v) - 1, at: at, fails: by.Return, told: !by.Return && in.Delays > 0})
	}
}

// planDelay plans when the delay of a vertex is checked next.
func (q *queue) planDelay(v *vertex) {
	p := q.delayPlans[v.ref]
	m := q.messageOf(v)
	if p == nil || m.flags&nullSender != 0 {
		return
	}
	next := noDate
	for _, after := range q.threadOf(v).params.ReportTimes {
		if at := m.modifiedAt.after(after); at > q.date {
			next = min(next, at)
		}
	}
	if q.reportTimesPassed(q.threadOf(v), q.messageOf(v).modifiedAt) > p.told {
		next = q.date
	}
	for _, d := range p.deadlines {
		switch {
		case d.told || !q.recipient(v, d.recipient).isUndelivered():
		case d.at > q.date:
			next = min(next, d.at)
		case q.deadlinePending(v, d): // the next planWake plans it
		default:
			next = q.date
		}
	}
	q.planDate(&p.next, next)
}

// replanDelays plans the notices of delay of a thread whose reporttimes have
// changed. Mail that is older than a new time is reported at once, as after a
// restart.
func (q *queue) replanDelays(t *thread) {
	for ref := t.vertices.Head; ref != 0; ref = t.vertices.Next(ref) {
		v := q.vertices.At(ref)
		p := q.delayPlans[v.ref]
		switch {
		case p != nil:
			p.told = min(p.told, q.reportTimesPassed(q.threadOf(v), q.messageOf(v).modifiedAt))
		case len(t.params.ReportTimes) > 0 && q.wantsDelays(v):
			q.delayPlans[v.ref] = newDelayPlan(v)
		}
		q.planDelay(v)
	}
}

// wantsDelays reports whether the sender wants to be told of delays of a
// recipient of a vertex.
func (q *queue) wantsDelays(v *vertex) bool {
	for i := range q.lenOf(v) {
		if r := q.recipient(v, i); r.isUndelivered() && r.flags&notifyDelay != 0 {
			return true
		}
	}
	return false
}

// reportTimesPassed counts the reporttimes of a thread that the age of a message has reached.
func (q *queue) reportTimesPassed(t *thread, modifiedAt date) (n int) {
	age := q.date.since(modifiedAt)
	for _, after := range t.params.ReportTimes {
		if age >= after {
			n++
		}
	}
	return n
}

// deadlinePending reports whether a recipient cannot fail now: an agent has it,
// its file is being read, it is held, or it was held and has had no attempt
// since.
func (q *queue) deadlinePending(v *vertex, d deliverBy) bool {
	t := q.threadOf(v)
	return d.fails && (v.state == fed || v.state == reading || q.isKeptBack(v) || t.updates&releaseHeld != 0 ||
		q.recipient(v, d.recipient).flags&mustAttempt != 0)
}

// delayDue tells senders of delays, and fails recipients whose deadline has
// passed.
func (dv *delivery) delayDue(p *delayPlan) {
	v := dv.vertices.At(p.vertex)
	m := dv.messageOf(v)
	if m.flags&(removing|moving|underHold) != 0 {
		return
	}
	var marks []ctlfile.Mark
	age := inWords(dv.date.since(m.modifiedAt).Truncate(time.Second))
	if passed := dv.reportTimesPassed(dv.threadOf(v), m.modifiedAt); passed > p.told {
		p.told = passed
		for i := range dv.lenOf(v) {
			if r := dv.recipient(v, i); r.isOpen() && r.flags&notifyDelay != 0 {
				marks = append(marks, dv.delayMark(v, r, "not delivered yet after "+age, p.told))
			}
		}
	}
	var failed []int
	for n := range p.deadlines {
		d := &p.deadlines[n]
		r := dv.recipient(v, d.recipient)
		switch {
		case d.told || d.at > dv.date || !r.isUndelivered() || dv.deadlinePending(v, *d):
			continue
		case d.fails:
			failed = append(failed, d.recipient)
		case r.isOpen():
			marks = append(marks, dv.delayMark(v, r, "not delivered within the time that the sender gave", max(1, p.told)))
		}
		d.told = true
	}
	if len(marks) > 0 {
		m.flags |= owesNotice
		dv.planNotice(m, dv.now)
		dv.write(m, marks, nil)
	}
	if len(failed) > 0 {
		dv.failAtDeadline(v, failed)
	}
	if v.state != 0 {
		dv.planDelay(v)
	}
}

// failAtDeadline fails recipients of a vertex, given by index, because the time
// that their sender gave has passed.
func (dv *delivery) failAtDeadline(v *vertex, indices []int) {
	late := make(map[*recipient]bool, len(indices))
	for _, i := range indices {
		late[dv.recipient(v, i)] = true
	}
	dv.fail(v, failureCause{
		words: "not delivered within the time that the sender gave", code: "5.4.7 (delivery time expired)",
		applies: func(r *recipient) bool { return late[r] && (r.state == open || r.state == standby) },
	})
}

// isUndelivered reports whether the recipient is open, or waits for its turn.
func (r *recipient) isUndelivered() bool {
	return r.isOpen() || r.state == standby || r.state == promoted
}

// delayMark returns the d line that says that a recipient is delayed. It leaves
// the tag as it is.
func (dv *delivery) delayMark(v *vertex, r *recipient, words string, delays int) ctlfile.Mark {
	var last ta.Notary
	text, code := words, "4.4.7 (not delivered yet)"
	if reported := dv.diagnostics.Get(r.diagnostic); reported != nil {
		last = ta.Notary(reported.notary)
		text = "\r" + words + ", problem was:\r" + strings.TrimLeft(reported.text, "\r")
		if c := last.Code(); c != "" {
			code = c
		}
	}
	recipient := last.Recipient()
	if recipient == "" {
		recipient = "\x03" // the user of the r line
	}
	return ctlfile.Mark{
		Offset: int64(r.offset), Tag: ctlfile.Open, LeaveTag: true, Diagnose: true, Delays: delays,
		Notary: strings.Join([]string{recipient, "delayed", code, last.Diagnostic(), last.Remote()}, "\x01"),
		Text:   text, TriedAt: v.triedAt(r),
	}
}
