// This file holds the reports about the recipients of a job.

package smtp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/ta"
)

// maxRequeues is how often a job may be moved off a connection that was used
// before and ended when the job began.
const maxRequeues = 3

// do does one job on a connection. After an error the connection can no longer be
// used, and all recipients of the job are reported, unless the error is errRequeue:
// then the server has sent no reply about the remaining ones, and another connection
// may try them.
func (a *Agent) do(c *conn, j *job) error {
	used := c.finished > 0
	for _, e := range j.envelopes() {
		for rest := e.recipients; len(rest) > 0; {
			n := min(len(rest), maxRecipients)
			t := &transaction{a: a, s: c.session, j: j, envelope: &envelope{e.shared, rest[:n:n]}}
			again, err := t.run()
			rest = append(again, rest[n:]...)
			if err == nil {
				used = true
				continue
			}
			if used && !t.answered && j.requeues < maxRequeues {
				j.requeues++
				return errRequeue
			}
			a.reportLost(t, err)
			return err
		}
	}
	return nil
}

// reportLost defers the recipients that remain when a connection ends. It uses no
// status code that makes the scheduler defer the whole destination.
func (a *Agent) reportLost(t *transaction, err error) {
	what := why(err)
	f := &failure{code: "4.4.0", diagnostic: "smtp; 466 (" + what + ")", remote: t.s.remote(), text: "\r->> (" + what + ")"}
	var closing *errClosing
	var local *ta.ReadError
	switch {
	case errors.As(err, &closing):
		f.code, f.diagnostic = closing.reply.status(), closing.reply.diagnostic()
		f.text = strings.TrimPrefix(exchange("", closing.reply), "\r<<- ")
	case errors.As(err, &local):
		f.code, f.diagnostic = "4.3.0", "x-local; 430 ("+local.Error()+")"
	}
	for _, r := range t.j.recipients {
		if r.Reported() {
			continue
		}
		result := f.result(ta.Deferred)
		for _, one := range t.states {
			if one.Recipient != r {
				continue
			}
			if t.dataSent {
				result.Status = ta.DeferBack
			}
			result.Text = t.mail + one.rcpt + t.data + f.text
		}
		a.report(r, result)
	}
}

// report reports a recipient.
func (a *Agent) report(r *ta.Recipient, result ta.Result) {
	result.Text = text.CutMiddle(result.Text, maxText)
	r.Report(result)
}

// result returns the result of a recipient after this failure: an error if it is
// permanent, else a temporary status.
func (f *failure) result(temporary ta.Status) ta.Result {
	if f.permanent {
		temporary = ta.Error
	}
	return ta.Result{Status: temporary, Text: text.CutMiddle(f.text, maxText), Fields: ta.Fields{Code: f.code, Diagnostic: f.diagnostic, Remote: f.remote}}
}

// reportFailure reports all recipients of a job for which there is no target.
// A temporary failure defers the whole destination if the job line has no other
// destination.
func (a *Agent) reportFailure(j *job, f *failure) {
	if j.alone {
		j.message.ReportRest(func(*ta.Recipient) ta.Result { return f.result(ta.DeferAll) })
		return
	}
	for _, r := range j.recipients {
		if !r.Reported() {
			a.report(r, f.result(ta.Deferred))
		}
	}
}

// noTarget ends a job for which no target works.
func (a *Agent) noTarget(j *job) {
	f := j.failed
	if f == nil {
		name, dead := a.pool.deadTarget(j)
		text := fmt.Sprintf("%s%s%s: %s", name, ta.NotTriedAgain, dead.until.UTC().Format(time.RFC3339), strings.TrimLeft(dead.why, "\r"))
		f = &failure{code: "4.4.1", diagnostic: "smtp; 466 (" + text + ")", text: text}
	}
	a.reportFailure(j, f)
}
