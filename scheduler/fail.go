package scheduler

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// Recipients that fail without a report from an agent: they have expired, their sender's
// deadline has passed, or an order ends them.

// problem is what has happened to a recipient without a report from an agent. The status code of
// the last report replaces that of a temporary failure, if it is one too.
type problem struct {
	action      string // "failed" or "delayed"
	words, code string
}

// fail marks those of the recipients of a vertex as failed to which that applies and which may fail
// now. Their sender gets a notice.
func (li *lines) fail(v *vertex, words, code string, applies func(*recipient) bool) {
	message := li.s.mail.messageOf(v)
	li.s.writes.inBatch(message, func() {
		for i := range li.s.mail.lenOf(v) {
			r := li.s.mail.recipient(v, i)
			if !r.mayFail() || !applies(r) {
				continue
			}
			message.flags |= owesNotice
			mark := li.s.mail.markOf(v, r, problem{"failed", words, code})
			mark.Tag = ctlfile.Failed
			li.account(v, i, "expire", 0, diagnostic{mark.Notary, mark.Text})
			li.s.writes.endRecipient(v, i, &mark)
		}
	})
	li.s.writes.advance(message)
}

// mayFail reports whether a recipient can fail without a report: it is open or waits for its turn,
// and no agent is at work on it.
func (r *recipient) mayFail() bool { return r.state == open || r.state == standby }

// markOf returns the mark that says what has happened to a recipient, with the recipient, the peer
// and the text of its last report.
func (ml *mail) markOf(v *vertex, r *recipient, p problem) ctlfile.Mark {
	var last ta.Notary
	text := p.words
	if reported := ml.diagnostics.Get(r.diagnostic); reported != nil {
		last = ta.Notary(reported.notary)
		text = "\r" + p.words + ", problem was:\r" + strings.TrimLeft(reported.text, "\r")
	}
	code, diagnostic := p.code, last.Diagnostic()
	if reported := last.Code(); strings.HasPrefix(code, "4.") && strings.HasPrefix(reported, "4.") {
		code = reported
	}
	if diagnostic == "" && p.action == "failed" {
		diagnostic = "smtp; 500 (" + p.words + ")"
	}
	recipient := cmp.Or(last.Recipient(), "\x03") // the user of the r line
	return ctlfile.Mark{
		Offset: int64(r.offset), Diagnose: true, Text: text, TriedAt: v.triedAt(r),
		Notary: strings.Join([]string{recipient, p.action, code, diagnostic, last.Remote()}, "\x01"),
	}
}

// triedAt returns when a recipient was last given to an agent: the time of its last attempt.
// It is zero if there was none, or another node made it.
func (v *vertex) triedAt(r *recipient) time.Time {
	if r.attempts == 0 || v.fedAt == 0 {
		return time.Time{}
	}
	return v.fedAt.time()
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
