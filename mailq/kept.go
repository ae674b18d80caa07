package mailq

// Kept mail: how much is kept back, and since when.

import (
	"fmt"
	"strings"
	"time"

	"zsched/internal/units"
)

// Kept counts messages, threads or notices that are kept back.
type Kept struct {
	Count    int       `json:"count"`
	OldestAt time.Time `json:"oldest_at,omitzero"` // when the oldest arrived, or was ordered; zero: not known
	Reason   string    `json:"reason,omitempty"`   // of the oldest
}

// Text says how much of a kind is kept back: "2 messages held". It is "" if nothing is.
func (k *KeptKind) Text(t *Totals) string {
	n := k.Of(t).Count
	if n == 0 {
		return ""
	}
	return units.Plural(n, k.one, k.many) + " " + k.what
}

// KeptText says in one line which mail is kept back, with the age and the
// reason of the oldest: "Kept back: 2 messages held (oldest 3h: they asked)". It
// is "" if there is nothing.
func (t *Totals) KeptText(now time.Time) string {
	var parts []string
	for _, k := range KeptKinds {
		text, kept := k.Text(t), k.Of(t)
		if text == "" {
			continue
		}
		var oldest []string
		if !kept.OldestAt.IsZero() {
			oldest = append(oldest, "oldest "+FormatAge(now, kept.OldestAt))
		}
		if kept.Reason != "" {
			oldest = append(oldest, kept.Reason)
		}
		if len(oldest) > 0 {
			text += fmt.Sprintf(" (%s)", strings.Join(oldest, ": "))
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "Kept back: " + strings.Join(parts, ", ")
}

// Notes are the lines below the totals about what needs attention: one that says that the queue
// is still being loaded, SpoolText, KeptText, RouterText, one for each program whose last reload
// failed, and one that says that the scheduler is stopping.
func (t *Totals) Notes(now time.Time) (notes []string) {
	loading, stopping := "", ""
	if t.Loading {
		loading = "The queue is still being loaded: counts and lists are not complete"
	}
	if t.Stopping {
		stopping = "Stopping: the scheduler waits for its agents, and starts no more deliveries"
	}
	for _, note := range []string{
		loading, t.SpoolText(now), t.KeptText(now), t.RouterText(now), t.Router.Reload.text("Routes and aliases", now),
		t.SMTPReload.text("SMTP server", now), t.ReloadText(now), stopping,
	} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// SpoolText says in one line that control files cannot be written: "Nothing is delivered
// since 3m: the spool cannot be written: control file …: no space left on device". It is ""
// if they can.
func (t *Totals) SpoolText(now time.Time) string {
	s := &t.Spool
	span := FormatAge(now, s.Since)
	switch {
	case s.Down:
		return fmt.Sprintf("Nothing is delivered since %s: the spool cannot be written: %s", span, s.Reason)
	case s.Writes > 0:
		return fmt.Sprintf("Not written since %s: %s of control files failed and will be tried again: %s",
			span, units.Plural(s.Writes, "change", "changes"), s.Reason)
	}
	return ""
}

// RouterText says in one line how much mail waits for the router: "Not routed: 5
// messages in router/ (oldest 3h); the router is not running". It is "" if there is
// nothing to say.
func (t *Totals) RouterText(now time.Time) string {
	r := &t.Router
	if r.Count == 0 && !r.Dead {
		return ""
	}
	text := "Not routed: " + units.Plural(r.Count, "message", "messages") + " in router/"
	if !r.OldestAt.IsZero() {
		text += fmt.Sprintf(" (oldest %s)", FormatAge(now, r.OldestAt))
	}
	if r.Dead {
		text += "; the router is not running"
	}
	return text
}

// ReloadText says in one line that the last reload of the scheduler failed: "Configuration
// not reloaded 3m ago: scheduler.cf:3:5: …". It is "" if the reload succeeded, or if there
// was none.
func (t *Totals) ReloadText(now time.Time) string { return t.Reload.text("Configuration", now) }

func (r *Reload) text(what string, now time.Time) string {
	if r.Error == "" {
		return ""
	}
	return fmt.Sprintf("%s not reloaded %s ago: %s", what, FormatAge(now, r.At), r.Error)
}

// Text is a line of SHOW HELD.
func (h *HeldItem) Text(now time.Time) string {
	name := h.Channel + "/" + h.Host
	text := name + ": " + units.Plural(h.Messages, "message", "messages")
	if !h.IsThread() {
		text = fmt.Sprintf("%s: %s, %s, %s", h.Path, h.SpoolID, name, units.Plural(len(h.Recipients), "recipient", "recipients"))
	}
	held := "held"
	if h.Order != "" {
		held = "held when its agent reports, ordered"
	}
	return text + ", " + held + HoldText(&h.Hold, now)
}
