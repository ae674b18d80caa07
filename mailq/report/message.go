package report

// What mailq show prints: a message and its recipients.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
	"zsched/scheduler/view"
)

// withoutAttempts are the states of recipients whose attempts may not be known.
var withoutAttempts = []string{view.Held, "delivered", "failed", "expired", "killed", "requeued", "rerouted", "moved", "done"}

// Message returns the lines about a message.
func Message(m *mailq.Message, now time.Time) []string {
	head := fmt.Sprintf("%s: spoolid %s, age %s, %d+%d bytes", m.Path, m.SpoolID, mailq.FormatAge(now, m.ArrivedAt), m.Control, m.Size)
	if m.Held {
		head += ", held"
	}
	text := []string{head}
	if m.NoFile {
		text = append(text, "\t  lost\tthe message file is missing; its recipients fail at their next attempt")
	}
	if m.MessageID != "" {
		text = append(text, "\t  id\t"+m.MessageID)
	}
	text = append(text, "\t  from\t"+cmp.Or(m.Sender, "<>"))
	if m.ErrorsTo != "" && m.ErrorsTo != m.Sender {
		text = append(text, "\t  errors to\t"+m.ErrorsTo)
	}
	for i := range m.Recipients {
		text = appendDiagnostic(append(text, recipient(&m.Recipients[i], now)), "\t  diag\t", m.Recipients[i].Reason)
	}
	return text
}

func recipient(r *mailq.MessageRecipient, now time.Time) string {
	to := r.User
	if len(r.Originals) > 0 {
		to += " (originally " + strings.Join(r.Originals, ", ") + ")"
	}
	line := fmt.Sprintf("\t  to\t%s via %s/%s: %s", to, r.Channel, r.Host, r.State)
	// The attempts of a recipient that is done, or whose message is held,
	// may no longer be known.
	if r.Attempts > 0 || !slices.Contains(withoutAttempts, r.State) {
		line += ", " + units.Plural(r.Attempts, "attempt", "attempts")
	}
	if order := mailq.OrderText(r.Order, r.OrderTo); order != "" {
		line += ", " + order
	}
	switch {
	case r.State == view.Held:
	case r.Wait == view.WaitHeld:
		line += ", its thread is held"
	case r.Wait != view.NoWait:
		line += ", waits: " + string(r.Wait)
	case r.WakeAt.After(now):
		line += ", retry in " + mailq.FormatAge(r.WakeAt, now)
	}
	return line
}

// appendDiagnostic appends the lines of a diagnostic that are not empty.
func appendDiagnostic(text []string, prefix, diagnostic string) []string {
	for line := range strings.SplitSeq(diagnostic, "\r") {
		if line != "" {
			text = append(text, prefix+line)
		}
	}
	return text
}
