package scheduler

import (
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// Reports: what an agent says about a recipient (ok, error, deferred, deferall,
// retryat), and the outcome that follows.

// agentReported handles an agent's report on one recipient. It counts if the
// recipient is open and this agent was the last to be given it.
func (li *lines) agentReported(id AgentID, rep *ta.Report) {
	a := li.s.agents.byID[id]
	if a == nil {
		return
	}
	l, v, i := li.s.mail.findReported(a, rep)
	if v == nil {
		li.s.agenda.logAgent(Warning, a, "reported on "+strconv.FormatUint(rep.Message, 10)+"/"+
			strconv.FormatInt(rep.Offset, 10)+", which it was not given or which is done: dropped")
		return
	}
	if rep.Site != "" {
		li.s.limits.rememberSite(li.s.mail.threadOf(v), rep.Site)
	}
	if rep.Status == ta.Connecting {
		return
	}
	if l != nil {
		li.s.mail.reported, li.s.mail.reportedPath = li.s.mail.messageOf(v).sequence, l.path
	}
	if l != nil && li.s.mail.recipient(v, i).state == open {
		a.progressAt = li.s.agenda.now
		l.unreported--
	}
	switch rep.Status {
	case ta.OK, ta.OK2, ta.OK3:
		li.delivered(a, v, i, rep)
	case ta.Error, ta.Error2:
		if r := li.s.rules.matchReply(li.s.mail.threadOf(v), rep); r != nil && r.Verb.Lasts() {
			li.s.rules.addEffect(li.s.mail.threadOf(v), r, rep)
		}
		li.undeliverable(a, v, i, rep, a.marks())
	default:
		li.deferred(a, l, v, i, rep)
	}
	if l != nil && !l.ended() && l.unreported == 0 {
		li.endLine(a, v)
	}
}

// findReported finds the recipient of a report: first in the agent's open
// lines; then in the message, if the agent was the last to be given the vertex.
// The line is nil if the report comes after its line has ended. The vertex is
// nil if the report does not count.
func (ml *mail) findReported(a *agent, rep *ta.Report) (*line, *vertex, int) {
	id := MessageID(rep.Message)
	for _, l := range a.lines {
		if l.id != id || l.ended() {
			continue
		}
		if i := ml.findRecipient(l.vertex, rep.Offset); i >= 0 {
			if !ml.recipient(l.vertex, i).isOpen() {
				return nil, nil, 0
			}
			return l, l.vertex, i
		}
	}
	m := ml.message(id)
	if m == nil || m.flags&moving != 0 {
		return nil, nil, 0
	}
	var found *vertex
	index := 0
	ml.eachVertex(m, func(v *vertex) {
		if v.state == 0 || v.agent != a.id {
			return
		}
		if i := ml.findRecipient(v, rep.Offset); i >= 0 && ml.recipient(v, i).isOpen() {
			found, index = v, i
		}
	})
	return nil, found, index
}

// delivered ends a recipient that was delivered.
func (li *lines) delivered(a *agent, v *vertex, i int, rep *ta.Report) {
	wanted := li.s.mail.recipient(v, i).flags&notifySuccess != 0 && !li.s.orders.isKilled(v)
	// ok3 says that the next host notifies the sender. An agent like ZMailer's writes no d line then;
	// without one, the sender would be told that the details are lost.
	mark := ctlfile.Mark{Tag: ctlfile.Delivered, LeaveTag: a.marks() && !(wanted && rep.Status == ta.OK3)}
	mark.Diagnose = wanted && (rep.Status == ta.OK || !a.marks() && !(a.reports && rep.Status == ta.OK3))
	if wanted {
		li.s.mail.messageOf(v).flags |= owesNotice
	}
	li.endReported(a, v, i, rep, &mark)
}

// undeliverable ends a recipient that failed permanently. tagged says that the
// agent has written the tag.
func (li *lines) undeliverable(a *agent, v *vertex, i int, rep *ta.Report, tagged bool) {
	mark := ctlfile.Mark{Tag: ctlfile.Failed, LeaveTag: tagged}
	if !li.s.orders.isKilled(v) { // nobody is notified about a killed recipient
		mark.Diagnose = (rep.Status == ta.Error || !tagged) && li.s.mail.recipient(v, i).flags&notifyFailure != 0
		if mark.Diagnose || rep.Status == ta.Error2 {
			li.s.mail.messageOf(v).flags |= owesNotice
		}
	}
	li.endReported(a, v, i, rep, &mark)
}

// endReported ends a recipient with the outcome that its agent has reported. If the mark is left
// to the agent, only the core knows the outcome until the agent has tagged the recipient. An
// outcome with a d line is in the file even without its tag.
func (li *lines) endReported(a *agent, v *vertex, i int, rep *ta.Report, mark *ctlfile.Mark) {
	mark.Offset, mark.TriedAt = int64(li.s.mail.recipient(v, i).offset), li.s.agenda.date.time()
	mark.Notary, mark.Text = string(rep.Notary), rep.Text
	li.account(v, i, rep.Status.String(), a.id, diagnostic{mark.Notary, mark.Text})
	li.s.writes.endRecipient(v, i, mark)
}

// marks reports whether the agent itself writes tags and diagnostics. After the
// agent was started, a reload may change this for the thread, but not for the
// agent.
func (a *agent) marks() bool { return !a.reports && a.ring.params.Marking == ta.AgentMarks }

// account counts an outcome and asks for it to be logged.
func (li *lines) account(v *vertex, i int, state string, by AgentID, said diagnostic) {
	t := li.s.mail.threadOf(v)
	t.attempts++
	t.ring.channel.count(state)
	li.s.log.outcome(v, i, state, by, said)
}

// deferred keeps a recipient for later. The result for the thread is applied
// when the line ends. A report after the end of its line only sets the
// diagnostic.
func (li *lines) deferred(a *agent, l *line, v *vertex, i int, rep *ta.Report) {
	var by *rule.ReplyRule
	if l != nil && li.s.mail.recipient(v, i).state == open {
		by = li.s.rules.matchReply(li.s.mail.threadOf(v), rep)
	}
	if by != nil {
		li.s.rules.applyReply(by, l, v, rep)
		if by.Verb == rule.ReplyFail {
			li.failReported(a, l, v, i, rep)
			return
		}
	}
	if rep.Status == ta.DeferAll {
		// It names one recipient and counts for all of the line.
		ofAll := *rep
		ofAll.Notary = rep.Notary.WithoutRecipient()
		rep = &ofAll
	}
	li.s.mail.setDiagnostic(v, i, rep)
	if l == nil || li.s.mail.recipient(v, i).state == reported {
		return
	}
	li.s.mail.attempted(v, i)
	switch {
	case rep.Status == ta.DeferAll:
		l.destinationFailed, l.unreported = true, 0
		for j := range li.s.mail.lenOf(v) {
			if li.s.mail.recipient(v, j).state == open {
				li.s.mail.setDiagnostic(v, j, rep)
				li.s.mail.attempted(v, j)
			}
		}
	case rep.Status == ta.RetryAt && rep.Retry.Given && (by == nil || by.Verb != rule.ReplyDefer):
		l.retryAt = max(l.retryAt, li.retryTime(v, rep.Retry))
	case destinationCode(rep.Notary.Code()):
		l.destinationFailed = true
	}
}

// attempted counts one attempt at a recipient in this line.
func (ml *mail) attempted(v *vertex, i int) {
	r, t := ml.recipient(v, i), ml.threadOf(v)
	r.state = reported
	r.flags &^= mustAttempt | triedBefore
	t.attempts++
	t.ring.channel.counts.Deferred++
	if r.attempts < ^uint16(0) {
		r.attempts++
	}
}

// setDiagnostic keeps a report on a recipient that comes now.
func (ml *mail) setDiagnostic(v *vertex, i int, rep *ta.Report) {
	if ml.keepDiagnostic(v, i, rep) {
		ml.setLastDiagnostic(v)
	}
}

// keepDiagnostic keeps the last report on a recipient. The recipients of a thread that got the same report
// share it. It returns false for a report without a text.
func (ml *mail) keepDiagnostic(v *vertex, i int, rep *ta.Report) bool {
	text, notary := rep.Text, string(rep.Notary)
	if len(text) > rule.MaxDiagnostic {
		text = text[len(text)-rule.MaxDiagnostic:]
	}
	if len(notary) > rule.MaxDiagnostic {
		notary = notary[:rule.MaxDiagnostic]
	}
	if text == "" && notary == "" {
		return false
	}
	r, t := ml.recipient(v, i), ml.threadOf(v)
	ml.clearDiagnostic(r)
	if t.shared == 0 || *ml.diagnostics.At(t.shared) != (diagnostic{notary, text}) {
		ml.diagnostics.Release(t.shared)
		t.shared = ml.diagnostics.Add(diagnostic{notary: strings.Clone(notary), text: strings.Clone(text)})
	}
	r.diagnostic = ml.diagnostics.Retain(t.shared)
	return true
}

// setLastDiagnostic makes the report that was kept for a vertex the last one of its thread.
func (ml *mail) setLastDiagnostic(v *vertex) {
	t := ml.threadOf(v)
	ml.diagnostics.Release(t.diagnostic)
	t.diagnostic, t.lastFedAt = ml.diagnostics.Retain(t.shared), v.fedAt
}

// destinationCode reports whether an enhanced status code blames the whole
// destination: x.4.1 no answer, x.4.2 bad connection (RFC 3463).
func destinationCode(code string) bool {
	if len(code) < 5 || code[0] != '4' && code[0] != '5' || code[1:4] != ".4." {
		return false
	}
	return (code[4] == '1' || code[4] == '2') && (len(code) == 5 || code[5] < '0' || code[5] > '9')
}
