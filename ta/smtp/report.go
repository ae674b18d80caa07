package smtp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/ta"
)

// maxRescues is how often a job may be moved off a connection that was used
// before and ended when the job began.
const maxRescues = 3

// work does one job on a connection. With an error the connection is of no
// more use. The job has all its results then, except with errRescue: nothing
// was said of what is left of it, and it may go elsewhere.
func (a *Agent) work(c *conn, s *session, j *job) error {
	used := c.finished > 0
	for _, g := range j.work.groups() {
		for rest := g.recipients; len(rest) > 0; {
			n := min(len(rest), maxRecipients)
			t := &transaction{a: a, s: s, w: j.work, group: &group{g.envelope, rest[:n:n]}}
			again, err := t.run()
			rest = append(again, rest[n:]...)
			if err == nil {
				used = true
				continue
			}
			if used && !t.answered && j.rescues < maxRescues {
				j.rescues++
				return errRescue
			}
			a.reportLost(t, j.work, err)
			return err
		}
	}
	return nil
}

// reportLost defers what is left of a job whose connection ended. The codes
// are not those by which the whole destination would be blamed.
func (a *Agent) reportLost(t *transaction, w *work, err error) {
	what := why(err)
	f := &failure{code: "4.4.0", diagnostic: "smtp; 466 (" + what + ")", remote: t.s.remote(), text: "\r->> (" + what + ")"}
	var closing *errClosing
	var local *localError
	switch {
	case errors.As(err, &closing):
		f.code, f.diagnostic = closing.reply.status(), closing.reply.diagnostic()
		f.text = strings.TrimPrefix(told("", closing.reply), "\r<<- ")
	case errors.As(err, &local):
		f.code, f.diagnostic = "4.3.0", "x-local; 430 ("+local.Error()+")"
	}
	for _, r := range w.recipients {
		if r.Reported() {
			continue
		}
		result := f.result(ta.Deferred)
		for _, one := range t.lanes {
			if one.Recipient != r {
				continue
			}
			if t.stage == dataStage {
				result.Status = ta.DeferBack
			}
			result.Text = t.mail + one.told + t.data + f.text
		}
		a.report(r, result, t.cvt)
	}
}

// report settles a recipient.
func (a *Agent) report(r *ta.Recipient, result ta.Result, cvt string) {
	result.Text = clip(result.Text)
	result.Cvt = cvt
	r.Report(result)
}

// maxText is how much of a transcript is reported, in bytes.
const maxText = 8000

// clip takes away the middle of a text that is too long: its end is what
// matters, and its beginning says what it is about.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText/4] + "\r...\r" + text[len(text)-maxText*3/4:]
}

// result is what a failure means for a recipient, as the status says if it is
// not for good.
func (f *failure) result(now ta.Status) ta.Result {
	if f.permanent {
		now = ta.Error
	}
	return ta.Result{Status: now, Text: clip(f.text), Fields: ta.Fields{Code: f.code, Diagnostic: f.diagnostic, Remote: f.remote}}
}

// reportFailure settles all recipients of a piece of work that could not even
// be begun. If it is not for good, the whole destination is out of order.
func (a *Agent) reportFailure(w *work, f *failure) {
	if w.alone {
		w.message.ReportRest(func(*ta.Recipient) ta.Result { return f.result(ta.DeferAll) })
		return
	}
	for _, r := range w.recipients {
		if !r.Reported() {
			a.report(r, f.result(ta.Deferred), "")
		}
	}
}

// giveUp ends a job for which no target works.
func (a *Agent) giveUp(j *job, c choice) {
	f := j.failed
	if f == nil {
		text := "no host of the destination works"
		if c.why != "" {
			text = fmt.Sprintf("it is not tried again before %s: %s", c.until.UTC().Format(time.TimeOnly), strings.TrimLeft(c.why, "\r"))
		}
		f = &failure{code: "4.4.1", diagnostic: "smtp; 466 (" + text + ")", text: text}
	}
	a.reportFailure(j.work, f)
	close(j.done)
}

// content is the message under a header, measured and if need be converted.
func (w *work) content(header string, how ta.Conversion) (*content, error) {
	key := contentKey{header, how}
	if c := w.contents[key]; c != nil {
		return c, nil
	}
	body, err := w.message.Body()
	if err != nil {
		return nil, &localError{err}
	}
	c, err := measure(header, body, how)
	if err != nil {
		return nil, err
	}
	if w.contents == nil {
		w.contents = map[contentKey]*content{}
	}
	w.contents[key] = c
	return c, nil
}

type contentKey struct {
	header string
	how    ta.Conversion
}
