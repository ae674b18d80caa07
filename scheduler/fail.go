package scheduler

import (
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// Recipients that fail without a report from an agent: they have expired, their sender's
// deadline has passed, or an order ends them.

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
func (li *lines) fail(v *vertex, why failureCause) {
	message := li.mail.messageOf(v)
	message.pendingWrites++ // keeps the message until the loop ends
	var marks []ctlfile.Mark
	var settles []alternative
	for i := range li.mail.lenOf(v) {
		r := li.mail.recipient(v, i)
		if !why.applies(r) {
			continue
		}
		message.flags |= owesNotice
		r.flags |= hasFailed
		mark := why.outcome(r, li.mail.diagnostics.Get(r.diagnostic))
		mark.TriedAt = v.triedAt(r)
		li.account(v, i, "expire", replyOf(&mark))
		if set, _ := li.mail.exclusiveSetOf(message, v, i); set != nil {
			li.writes.endRecipient(v, i, mark, false)
			continue
		}
		marks, settles = append(marks, mark), append(settles, alternative{v, i})
		r.state = writing
		li.mail.clearDiagnostic(r)
	}
	if len(marks) > 0 {
		li.writes.write(message, marks, settles)
		li.threads.blockIfEmpty(v)
	}
	message.pendingWrites--
	li.writes.advance(message)
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
