package mailq

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// KeptText says in one line which mail is kept back, with the age and the
// reason of the oldest: "Kept back: 2 messages held (oldest 3h: they asked)". It
// is "" if there is nothing. Blocked jobs are left out: nearly all of them are
// blocked only while their outcomes are being written.
func (t *Totals) KeptText(now time.Time) string {
	var parts []string
	for _, k := range []struct {
		kept               *Kept
		what, one, several string
	}{
		{&t.Held, "held", "message", "messages"},
		{&t.HeldThreads, "held", "thread", "threads"},
		{&t.SuspendedThreads, "suspended", "thread", "threads"},
		{&t.Parked, "owed a notice", "message", "messages"},
		{&t.Notices, "that nobody got", "notice", "notices"},
		{&t.Quarantined, "quarantined", "message", "messages"},
		{&t.Poisoned, "poisoned", "job", "jobs"},
		{&t.Unloaded, "not loaded", "message", "messages"},
	} {
		if k.kept.Count == 0 {
			continue
		}
		text := Plural(k.kept.Count, k.one, k.several) + " " + k.what
		var oldest []string
		if !k.kept.OldestAt.IsZero() {
			oldest = append(oldest, "oldest "+FormatAge(now, k.kept.OldestAt))
		}
		if k.kept.Reason != "" {
			oldest = append(oldest, k.kept.Reason)
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

// Notes are the lines below the totals about what needs attention: SpoolText, KeptText,
// RouterText, one for each program whose last reload failed, and one that says that the
// scheduler is stopping.
func (t *Totals) Notes(now time.Time) (notes []string) {
	stopping := ""
	if t.Stopping {
		stopping = "Stopping: the scheduler waits for its agents, and starts no more deliveries"
	}
	for _, note := range []string{
		t.SpoolText(now), t.KeptText(now), t.RouterText(now), t.Router.Reload.text("Routes and aliases", now),
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
			span, Plural(s.Writes, "change", "changes"), s.Reason)
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
	text := "Not routed: " + Plural(r.Count, "message", "messages") + " in router/"
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
	text := name + ": " + Plural(h.Messages, "message", "messages")
	if !h.IsThread() {
		text = fmt.Sprintf("%s: %s, %s, %s", h.Path, h.SpoolID, name, Plural(len(h.Recipients), "recipient", "recipients"))
	}
	held := "held"
	if h.Order != "" {
		held = "held when its agent reports, ordered"
	}
	const endUnknown = ", its end is not known because a hold record is damaged"
	if h.HeldAt.IsZero() {
		text += ", " + held + ", not known by whom"
		if h.EndUnknown {
			text += endUnknown
		}
		return text
	}
	text += fmt.Sprintf(", %s %s by %s", held, FormatAge(now, h.HeldAt), cmp.Or(h.By, "somebody"))
	switch {
	case h.EndUnknown:
		text += endUnknown
	case h.Until.IsZero():
		text += ", until released"
	default:
		text += ", ends in " + FormatSpan(max(0, h.Until.Sub(now)))
	}
	if h.Why != "" {
		text += ": " + h.Why
	}
	return text
}
