package ta

// This file has what an agent writes into a control file where it marks the recipients
// itself: with --marking agent, under ZMailer's scheduler, and after the end of ours (leave.go).

import (
	"fmt"
	"time"

	"zsched/ctlfile"
)

// Marking says who writes tags and d lines into the control file: the keyword
// marking= of a clause.
type Marking uint8

const (
	// AgentMarks is ZMailer's way: the agent locks a recipient, delivers, writes its d
	// line if one is needed, reports the outcome and writes the tag.
	AgentMarks Marking = iota
	// SchedulerMarks means that the scheduler does all writing: the agent only reads
	// the file, delivers and reports.
	SchedulerMarks
)

// ParseMarking reads the value of the clause keyword marking=.
func ParseMarking(s string) (Marking, error) {
	switch s {
	case "agent":
		return AgentMarks, nil
	case "scheduler":
		return SchedulerMarks, nil
	}
	return 0, fmt.Errorf("marking %q is neither agent nor scheduler", s)
}

// marks reports whether we mark recipients. The caller holds the gate.
func (m *Message) marks() bool {
	s := m.session.server
	return s.Marking == AgentMarks || s.leaving.left
}

// mark writes the results of locked recipients into the control file: d lines, then, when
// they are on disk, tags. So the reason of a tagged recipient is always on disk. It changes the
// reports to those of an agent that has marked.
func (m *Message) mark(rs []*Recipient, results []Result, reports []Report) {
	var lines []ctlfile.Diagnostic
	for i, r := range rs {
		if tag := diagnosticTag(r, results[i]); tag != 0 {
			lines = append(lines, ctlfile.Diagnostic{
				Tag: tag, Recipient: r.Offset, Header: r.Header, N: r.N,
				At:     time.Now(),
				Notary: string(results[i].Fields.Notary()), Text: results[i].Text,
			})
		}
	}
	lost := m.File.AppendDiagnostic(m.fd, lines...)
	if lost != nil {
		m.session.server.warn("%s: %v", m.Job.Path, lost)
	}
	for i, r := range rs {
		m.swap(r.Recipient, ctlfile.Locked, marked(&results[i], &reports[i], owes(r, results[i]), lost))
	}
}

// diagnosticTag is the tag of the d line that we write for a result; 0 means
// that we write none. If the sender wants a notice of success and the next host
// will send it (OK3), we write a line that is marked as reported: a recipient
// without a line counts as one whose outcome was lost.
func diagnosticTag(r *Recipient, res Result) ctlfile.Tag {
	switch {
	case owes(r, res):
		return ctlfile.Open
	case res.Status == OK3 && r.Notify.Wants(ctlfile.NotifySuccess):
		return ctlfile.Delivered
	}
	return 0
}

// owes reports whether the sender is owed a notice: of every failure, and of a
// success if the sender wants that.
func owes(r *Recipient, res Result) bool {
	return res.Status == Error || res.Status == OK && r.Notify.Wants(ctlfile.NotifySuccess)
}

// marked changes a report to that of an agent that has marked, and returns the recipient's
// tag. lost is why the d line could not be written. A failure without its d line becomes a
// deferral. A success without it is still a success, of which the scheduler tells the sender.
func marked(res *Result, report *Report, owed bool, lost error) ctlfile.Tag {
	switch {
	case owed && lost == nil && res.Status == OK:
		report.Status, report.Notary = OK2, ""
	case owed && lost == nil:
		report.Status, report.Notary = Error2, ""
		return ctlfile.Failed
	case owed && res.Status == Error:
		res.Fields.Action = "delayed"
		report.Status, report.Notary = Deferred, res.Fields.Notary()
		report.Text = fmt.Sprintf("%s (and %v)", res.Text, lost)
		return ctlfile.Open
	case owed:
	case res.Status == OK || res.Status == OK3:
		report.Status, report.Notary = OK3, ""
	default:
		return ctlfile.Open
	}
	return ctlfile.Delivered
}

// swap changes a recipient's tag from one value to another, and reports whether
// it had the old value.
func (m *Message) swap(r *ctlfile.Recipient, from, to ctlfile.Tag) bool {
	done, err := ctlfile.Swap(m.fd, r.Offset, from, to, m.session.pid)
	switch {
	case err != nil:
		m.session.server.warn("%s: %v", m.Job.Path, err)
	case !done && from == ctlfile.Locked:
		m.session.server.warn("%s: another process removed the lock at %d", m.Job.Path, r.Offset)
	}
	return done
}
