package mailq

// What lists say in words about a thread or a job line.

import (
	"cmp"
	"fmt"
	"time"

	"zsched/internal/units"
	"zsched/scheduler/view"
)

// ReasonOf says why a recipient of a job line is still in the queue: the error of the agents
// that do not start, or else the recipient's last diagnostic.
func ReasonOf(line *JobLine, r *Recipient) string {
	return cmp.Or(StartReason(line.StartError), r.Reason)
}

// LastReason says why the mail of a thread is in the queue, as ReasonOf does.
func LastReason(t *Thread) string { return cmp.Or(StartReason(t.StartError), t.Reason) }

// StartReason is the StartError of a job line or thread as a reason; "" for "".
func StartReason(err string) string {
	if err == "" {
		return ""
	}
	return "no agent starts: " + err
}

// OrderText says that an order waits, with the channel/host of a REROUTE; "" if none does.
func OrderText(order, to string) string {
	switch {
	case order == "":
		return ""
	case to != "":
		return order + " to " + to + " when the agent reports"
	}
	return order + " when the agent reports"
}

// suspendedWords say by whom a thread is suspended.
var suspendedWords = map[view.Suspender]string{
	view.ByRule: "suspended by a reply rule", view.AsDead: "suspended because it is dead",
}

// StateText is the state of a thread, and when that ends if it ends by itself: "suspended
// because it is dead, for 5m11s". It is empty for a thread that nothing keeps from being fed.
func StateText(t *Thread, now time.Time) string {
	left := func(until time.Time) string {
		return FormatSpan(max(0, time.Duration(until.Unix()-now.Unix())*time.Second))
	}
	switch {
	case t.Held:
		return "held"
	case t.SuspendedBy != "":
		return suspendedWords[t.SuspendedBy] + ", for " + left(t.SuspendedUntil)
	case t.Probing:
		return "probing"
	case t.Wait != "":
		return "waits (" + string(t.Wait) + ")"
	case !t.WakeAt.IsZero():
		return "next try in " + left(t.WakeAt)
	}
	return ""
}

// WindowText says how many sessions a thread has and may have: "1 of 5 sessions,
// at most 20". It is empty if the server does not report the window.
func WindowText(t *Thread) string {
	if t.WindowLimit == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %s", t.Sessions, units.Plural(t.Window, "session", "sessions"))
	if t.WindowLimit != t.Window {
		text += fmt.Sprintf(", at most %d", t.WindowLimit)
	}
	return text
}

// EffectText is an effect in words: "replies:12 (suspend 15m), ends in 14m3s".
func EffectText(e *view.Effect, now time.Time) string {
	text := e.Rule + " (" + e.Action + ")"
	if e.Rule == "" {
		text = "suspended by " + e.By
	}
	return text + endsIn(e.Until, now) + because(e.Because)
}

// HoldText says by whom something is held: " 3h by ann uid 0, ends in 2h: they asked".
func HoldText(h *view.Hold, now time.Time) string {
	if h.Since.IsZero() {
		return ", not known by whom"
	}
	ends := ", until released"
	if !h.Until.IsZero() {
		ends = endsIn(h.Until, now)
	}
	return fmt.Sprintf(" %s by %s", FormatAge(now, h.Since), cmp.Or(h.By, "somebody")) + ends + because(h.Because)
}

func endsIn(until, now time.Time) string {
	return ", ends in " + FormatSpan(max(0, until.Sub(now)))
}

func because(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
