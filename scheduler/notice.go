package scheduler

import (
	"time"

	"zsched/ctlfile"
)

// notices has what is planned to be told to senders, and expires mail.
type notices struct {
	s *Scheduler

	noticePlans map[messageRef]*noticePlan
	delayPlans  map[vertexRef]*delayPlan
}

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

func (no *notices) newDelayPlan(v *vertex) *delayPlan {
	p := &delayPlan{vertex: v.ref}
	p.next.due = func() { no.delayDue(p) }
	return p
}

// planNotice plans a notice about a message, if it owes one and has open
// recipients.
func (no *notices) planNotice(m *message, at instant) {
	if m.flags&(owesNotice|nullSender) != owesNotice || m.open == 0 {
		return
	}
	p := no.noticePlans[m.ref]
	if p == nil {
		p = &noticePlan{message: m.ref, at: never}
		p.next.due = func() { no.noticeDue(p) }
		no.noticePlans[m.ref] = p
	}
	if at < p.at {
		p.at = at
		no.s.agenda.plan(&p.next, at)
	}
}

// planInterimNotice plans the notice of PARAMglobal-report-interval about a
// message that owes one.
func (no *notices) planInterimNotice(m *message) {
	if d := no.s.rules.config.ReportInterval; d > 0 && m.flags&owesNotice != 0 {
		no.planNotice(m, no.s.agenda.now.after(d))
	}
}

// noticeDue starts the writing of a notice whose time has come. If outcomes of
// the message are still being written, a later call of advance does it.
func (no *notices) noticeDue(p *noticePlan) {
	if m := no.s.mail.messages.Get(p.message); m != nil {
		no.s.writes.advance(m)
	}
}

// owesNoticeNow reports whether the time of a planned notice has come.
func (no *notices) owesNoticeNow(m *message) bool {
	p := no.noticePlans[m.ref]
	return p != nil && p.at <= no.s.agenda.now
}

// report starts the writing of the notice that a message owes. Whatever has to
// be reported from now on goes into the next one.
func (no *notices) report(m *message) {
	no.s.agenda.plan(&no.noticePlans[m.ref].next, never)
	delete(no.noticePlans, m.ref)
	m.flags &^= owesNotice
	m.pendingWrites++
	op := no.s.writes.nextOp()
	action := Report{Op: op, Message: m.id, Path: no.s.mail.file(m)}
	if at := no.messageExpiry(m); at != noDate && at > no.s.agenda.date {
		action.RetryUntil = at.time()
	}
	no.s.writes.issue(op, pending{action: action, message: m})
}

// messageExpiry returns when the first of the open recipients expires.
func (no *notices) messageExpiry(m *message) date {
	first := noDate
	no.s.mail.eachVertex(m, func(v *vertex) {
		if v.state != 0 {
			primary, _ := no.expiry(v)
			first = min(first, primary)
		}
	})
	return first
}

// rememberDelays keeps what a recipient's N line says about delays: its NOTIFY, the
// number of its notices of delay so far, and its deadline.
func (no *notices) rememberDelays(v *vertex, in *ctlfile.OpenRecipient, modifiedAt date) {
	wanted := in.Notify.Wants(ctlfile.NotifyDelay) && len(no.s.mail.threadOf(v).params.ReportTimes) > 0
	if !wanted && !in.DeliverBy.Given {
		return
	}
	p := no.delayPlans[v.ref]
	if p == nil {
		p = no.newDelayPlan(v)
		no.delayPlans[v.ref] = p
	}
	p.told = max(p.told, in.Delays)
	if by := in.DeliverBy; by.Given {
		at := modifiedAt.after(by.After)
		// A notice that was sent before a restart reported the deadline too.
		p.deadlines = append(p.deadlines, deliverBy{recipient: no.s.mail.lenOf(v) - 1, at: at, fails: by.Return, told: !by.Return && in.Delays > 0})
	}
}

// planDelay plans when the delay of a vertex is checked next.
func (no *notices) planDelay(v *vertex) {
	p := no.delayPlans[v.ref]
	m, t := no.s.mail.messageOf(v), no.s.mail.threadOf(v)
	if p == nil || m.flags&nullSender != 0 {
		return
	}
	next := noDate
	for _, after := range t.params.ReportTimes {
		if at := m.modifiedAt.after(after); at > no.s.agenda.date {
			next = min(next, at)
		}
	}
	if no.reportTimesPassed(t, m.modifiedAt) > p.told {
		next = no.s.agenda.date
	}
	for _, d := range p.deadlines {
		switch {
		case d.told || !no.s.mail.recipient(v, d.recipient).isUndelivered():
		case d.at > no.s.agenda.date:
			next = min(next, d.at)
		case no.deadlinePending(v, d): // the next planWake plans it
		default:
			next = no.s.agenda.date
		}
	}
	no.s.agenda.planDate(&p.next, next)
}

// replanDelay plans the notices of delay of a vertex under new reporttimes. Mail that is older
// than a new time is reported at once, as after a restart.
func (no *notices) replanDelay(v *vertex) {
	t, m := no.s.mail.threadOf(v), no.s.mail.messageOf(v)
	switch p := no.delayPlans[v.ref]; {
	case p != nil:
		p.told = min(p.told, no.reportTimesPassed(t, m.modifiedAt))
	case len(t.params.ReportTimes) > 0 && no.wantsDelays(v):
		no.delayPlans[v.ref] = no.newDelayPlan(v)
	}
	no.planDelay(v)
}

// wantsDelays reports whether the sender wants to be told of delays of a
// recipient of a vertex.
func (no *notices) wantsDelays(v *vertex) bool {
	for i := range no.s.mail.lenOf(v) {
		if r := no.s.mail.recipient(v, i); r.isUndelivered() && r.flags&notifyDelay != 0 {
			return true
		}
	}
	return false
}

// reportTimesPassed counts the reporttimes of a thread that the age of a message has reached.
func (no *notices) reportTimesPassed(t *thread, modifiedAt date) (n int) {
	age := no.s.agenda.date.since(modifiedAt)
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
func (no *notices) deadlinePending(v *vertex, d deliverBy) bool {
	t := no.s.mail.threadOf(v)
	return d.fails && (v.state == fed || v.state == reading || no.isKeptBack(v) || t.updates&releaseHeld != 0 ||
		no.s.mail.recipient(v, d.recipient).flags&mustAttempt != 0)
}

// delayDue tells senders of delays, and fails recipients whose deadline has
// passed.
func (no *notices) delayDue(p *delayPlan) {
	v := no.s.mail.vertices.At(p.vertex)
	m := no.s.mail.messageOf(v)
	if m.flags&(removing|moving|underHold) != 0 {
		return
	}
	var marks []ctlfile.Mark
	age := inWords(no.s.agenda.date.since(m.modifiedAt).Truncate(time.Second))
	if passed := no.reportTimesPassed(no.s.mail.threadOf(v), m.modifiedAt); passed > p.told {
		p.told = passed
		for i := range no.s.mail.lenOf(v) {
			if r := no.s.mail.recipient(v, i); r.isOpen() && r.flags&notifyDelay != 0 {
				marks = append(marks, no.delayMark(v, r, "not delivered yet after "+age, p.told))
			}
		}
	}
	late := make(map[*recipient]bool)
	for n := range p.deadlines {
		d := &p.deadlines[n]
		r := no.s.mail.recipient(v, d.recipient)
		switch {
		case d.told || d.at > no.s.agenda.date || !r.isUndelivered() || no.deadlinePending(v, *d):
			continue
		case d.fails:
			late[r] = true
		case r.isOpen():
			marks = append(marks, no.delayMark(v, r, "not delivered within the time that the sender gave", max(1, p.told)))
		}
		d.told = true
	}
	if len(marks) > 0 {
		m.flags |= owesNotice
		no.planNotice(m, no.s.agenda.now)
		no.s.writes.write(m, marks, nil)
	}
	if len(late) > 0 {
		no.s.lines.fail(v, "not delivered within the time that the sender gave", "5.4.7 (delivery time expired)",
			func(r *recipient) bool { return late[r] })
	}
	if v.state != 0 {
		no.planDelay(v)
	}
}

// delayMark returns the d line that says that a recipient is delayed. It leaves
// the tag as it is.
func (no *notices) delayMark(v *vertex, r *recipient, words string, delays int) ctlfile.Mark {
	mark := no.s.mail.markOf(v, r, problem{"delayed", words, "4.4.7 (not delivered yet)"})
	mark.Tag, mark.LeaveTag, mark.Delays = ctlfile.Open, true, delays
	return mark
}
