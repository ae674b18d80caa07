package scheduler

// Notices: when senders are told of delays and failures, and when mail expires.

import (
	"time"

	"zsched/ctlfile"
)

// notices has what is planned to be told to senders, and expires mail.
type notices struct {
	s *Scheduler

	reportAt  instant           // when all messages are to write the notices that they owe
	reporting bool              // the pass that has begun makes them do so
	delays    map[vertexRef]int // how many reporttimes the senders who want to know were told of

	// Passes through the vertices, which find what must be written about them.
	lookAt date      // before then, nothing must be written; noDate: nothing is planned
	passAt instant   // before then, no pass begins
	next   vertexRef // the next one of this pass; 0: none is under way
}

// planInterimNotice plans the notice of PARAMglobal-report-interval about a message, if it owes one
// and has open recipients. The notice reports all failures up to its time. If outcomes of the message
// are still being written then, a later call of advance writes it.
func (no *notices) planInterimNotice(m *message) {
	if d := no.s.rules.config.ReportInterval; d > 0 && m.owesInterim() {
		no.reportAt = min(no.reportAt, no.s.agenda.now.after(d))
	}
}

// owesInterim reports whether a message owes a notice while it has open recipients.
func (m *message) owesInterim() bool {
	return m.flags&(owesNotice|nullSender) == owesNotice && m.open > 0
}

// interimNotice writes the notice that a message owes, if the pass is for that.
func (no *notices) interimNotice(m *message) {
	if no.reporting && m.owesInterim() {
		m.flags |= noticeDue
		no.s.writes.advance(m)
	}
}

// report starts the writing of the notice that a message owes. Whatever has to
// be reported from now on goes into the next one.
func (no *notices) report(m *message) {
	m.flags &^= owesNotice | noticeDue
	m.pendingWrites++
	p := no.s.writes.begin(m)
	action := Report{Op: p.op, Message: m.id, Path: no.s.mail.file(m)}
	if at := no.messageExpiry(m); at != noDate && at > no.s.agenda.date {
		action.RetryUntil = at.time()
	}
	no.s.writes.issue(p, action)
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

// rememberDelays keeps what a recipient's N line says about delays: whether the sender wants to
// know, and the number of notices so far.
func (no *notices) rememberDelays(v *vertex, in *ctlfile.OpenRecipient) {
	if in.Notify.Wants(ctlfile.NotifyDelay) && no.s.mail.messageOf(v).flags&nullSender == 0 {
		no.delays[v.ref] = max(no.delays[v.ref], in.Delays)
	}
}

// reportTimesPassed counts the reporttimes that the age of a vertex has reached, and returns when
// it reaches the next.
func (no *notices) reportTimesPassed(v *vertex) (passed int, next date) {
	next = noDate
	for _, after := range no.s.mail.threadOf(v).params.ReportTimes {
		if at := no.s.mail.messageOf(v).modifiedAt.after(after); at > no.s.agenda.date {
			next = min(next, at)
		} else {
			passed++
		}
	}
	return passed, next
}

// nextDelay returns when the sender of a vertex is told of its delay next. After a reload, a
// reporttime that is new is told of, and one that is gone is not counted any more.
func (no *notices) nextDelay(v *vertex) date {
	told, wanted := no.delays[v.ref]
	if !wanted {
		return noDate
	}
	passed, next := no.reportTimesPassed(v)
	if passed > told {
		return no.s.agenda.date
	}
	no.delays[v.ref] = passed
	return next
}

// tellDelay tells the sender of a vertex of its delay, if that is due. The d lines leave the tags
// as they are.
func (no *notices) tellDelay(v *vertex) {
	passed, _ := no.reportTimesPassed(v)
	if told, wanted := no.delays[v.ref]; !wanted || passed <= told {
		return
	}
	no.delays[v.ref] = passed
	m := no.s.mail.messageOf(v)
	words := "not delivered yet after " + inWords(no.s.agenda.date.since(m.modifiedAt).Truncate(time.Second))
	var marks []ctlfile.Mark
	for i := range no.s.mail.lenOf(v) {
		if r := no.s.mail.recipient(v, i); r.isOpen() && r.flags&notifyDelay != 0 {
			mark := no.s.mail.markOf(v, r, problem{"delayed", words, "4.4.7 (not delivered yet)"})
			mark.Tag, mark.LeaveTag, mark.Delays = ctlfile.Open, true, passed
			marks = append(marks, mark)
		}
	}
	if len(marks) > 0 {
		m.flags |= owesNotice | noticeDue
		no.s.writes.write(m, marks, nil)
	}
}
