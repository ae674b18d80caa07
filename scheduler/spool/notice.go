package spool

// Notices: whether a control file owes the sender one (NOTIFY of the DSN
// parameters decides), and what the notice reports.

import (
	"cmp"
	"fmt"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// owes reports whether the file has a d line that is still to be reported.
func (n *notices) owes(f *ctlfile.File, final bool) bool { return len(n.owed(f, final)) > 0 }

// owed returns the d lines that are still to be reported, by index: those that
// the sender wants to be told of and was not. The failures of a set of
// alternatives count when the set is decided; final says that every set is.
//
// A recipient with a null sender owes nothing, unless somebody else gets the
// notices. These are about failures, whatever NOTIFY says.
func (n *notices) owed(f *ctlfile.File, final bool) (lines []int) {
	answersNull := n.s.options.Reporter.AnswersNullSender()
	var undecided map[int]bool
	if !final && len(f.Diagnostics) > 0 {
		undecided = undecidedSets(f)
	}
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		if line.Tag != ctlfile.Open {
			continue
		}
		to := f.Find(line.Recipient)
		null := f.NullSender
		if to >= 0 {
			_, null = f.NoticesTo(to)
		}
		if null && !answersNull {
			continue
		}
		if to < 0 {
			// We know no recipient for the line, but the sender may know it. A line that
			// was cut short before its notary says nothing that could be told.
			if (line.Notary != "" || line.Text != "") && noticeKind(line.Notary, ctlfile.Failed) == ctlfile.NotifyFailure {
				lines = append(lines, i)
			}
			continue
		}
		r := &f.Recipients[to]
		news := noticeKind(line.Notary, r.Tag)
		wanted := r.Notify.Wants(news)
		switch {
		case null:
			wanted = news == ctlfile.NotifyFailure
		case news == ctlfile.NotifyDelay:
			wanted = wanted && !f.Done(to) // a delay that is over is no news
		}
		if wanted && !undecided[r.Class] {
			lines = append(lines, i)
		}
	}
	return lines
}

// noticeKind returns the kind of notice that a d line about a recipient with this
// tag calls for. A failed recipient calls for one of failure even if the agent
// gave no known action: one notice too many is better than none.
func noticeKind(notary string, tag ctlfile.Tag) ctlfile.Notify {
	switch action(notary) {
	case failed:
		return ctlfile.NotifyFailure
	case delayed:
		return ctlfile.NotifyDelay
	case delivered, relayed, expanded:
		return ctlfile.NotifySuccess
	}
	if tag == ctlfile.Failed {
		return ctlfile.NotifyFailure
	}
	return 0
}

// undecidedSets returns the classes of the X lines with a recipient that may still be tried, and none
// that is delivered.
func undecidedSets(f *ctlfile.File) map[int]bool {
	delivered, sets := deliveredSets(f), map[int]bool{}
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Class > 0 && r.Tag != ctlfile.Failed && !delivered[r.Class] {
			sets[r.Class] = true
		}
	}
	return sets
}

// recordLost appends d lines for recipients that are done but have no d line,
// although the sender wants to be told of them: the agent tagged them itself and
// died before its report was recorded. Then it reads the file again. An outcome
// that need not be reported has a d line that says so. Of an exclusive set with a delivered
// recipient, nobody knows which one it was: nothing is recorded.
func (d *controlFile) recordLost() error {
	lines := lostOutcomes(d.file)
	if len(lines) == 0 {
		return nil
	}
	if err := d.file.AppendDiagnostic(d.fd, lines...); err != nil {
		return err
	}
	if err := postoffice.Fstat(d.fd, &d.st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	var buf []byte
	return d.read(&buf)
}

// lostOutcomes returns the d lines that recordLost writes.
func lostOutcomes(f *ctlfile.File) (lines []ctlfile.Diagnostic) {
	var recorded map[int64]bool
	var sets map[int]bool
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if _, null := f.NoticesTo(i); null || !r.Notify.Wants(kindOf(r.Tag)) {
			continue
		}
		if recorded == nil {
			recorded, sets = recordedOutcomes(f), deliveredSets(f)
		}
		if recorded[r.Offset] || sets[r.Class] {
			continue
		}
		m := ctlfile.Mark{Offset: r.Offset, Tag: r.Tag, Notary: lostNotary(r.Tag), Text: lostText}
		lines = append(lines, diagnostic(r, m))
	}
	return lines
}

// kindOf returns the kind of notice that a tag calls for.
func kindOf(tag ctlfile.Tag) ctlfile.Notify {
	switch tag {
	case ctlfile.Failed:
		return ctlfile.NotifyFailure
	case ctlfile.Delivered:
		return ctlfile.NotifySuccess
	}
	return 0
}

// lostText is the text of a d line for an outcome of which only the tag is known.
const lostText = "reason not known: what the agent said about this address was lost"

func lostNotary(tag ctlfile.Tag) string {
	if tag == ctlfile.Failed {
		return "\x03\x01failed\x015.0.0 (reason not known)\x01x-local; 500 (reason not known)\x01"
	}
	return "\x03\x01delivered\x012.0.0 (details not known)\x01x-local; 250 (details not known)\x01"
}

// recordedOutcomes returns the recipients, by offset, that have a d line which says how
// they ended, or which is marked as reported. It is never nil. A line may have been cut
// short on a full disk, or by a crash, before another line followed: without an action
// it calls for no notice of a success, so it does not record one.
func recordedOutcomes(f *ctlfile.File) map[int64]bool {
	recorded := make(map[int64]bool, len(f.Diagnostics))
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		tag := ctlfile.Open
		if n := f.Find(line.Recipient); n >= 0 {
			tag = f.Recipients[n].Tag
		}
		switch noticeKind(line.Notary, tag) {
		case ctlfile.NotifyFailure, ctlfile.NotifySuccess:
			recorded[line.Recipient] = true
		case ctlfile.NotifyDelay:
		default:
			if line.Tag == ctlfile.Delivered {
				recorded[line.Recipient] = true
			}
		}
	}
	return recorded
}

// withoutNotice returns the d line of an outcome that is not reported: the mail was killed,
// or sent elsewhere, or an alternative was delivered. If the sender asked for a notice, the
// outcome would count as lost without the line.
func withoutNotice(r *ctlfile.Recipient, m ctlfile.Mark) ctlfile.Diagnostic {
	as := ctlfile.Mark{Offset: r.Offset, Tag: m.Tag, Text: ctlfile.NobodyIsTold}
	if fate := fate(m); fate != "" {
		as.Notary, as.Text = "\x03\x01"+fate.Action(), cmp.Or(m.Text, string(fate)+" by order")
	}
	line := diagnostic(r, as)
	line.Tag, line.At = ctlfile.Delivered, time.Now()
	return line
}
