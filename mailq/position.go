package mailq

import (
	"fmt"
	"time"
)

// This file declares what answers say about windows and feedback
// (scheduler.cf(5)), and how they say it as text.

// Destination says whether the destination of a thread is tried.
type Destination string

const (
	Tried     Destination = ""          // as far as the window allows
	Suspended Destination = "suspended" // until Thread.SuspendedUntil
	Probing   Destination = "probing"   // it is dead: one session tries it
)

// Suspender says by whom a thread is suspended.
type Suspender string

const (
	ByRule Suspender = "rule" // a reply rule
	AsDead Suspender = "dead" // its destination has failed
)

// suspendedWords say by whom a thread is suspended, if that is known.
var suspendedWords = map[Suspender]string{
	"": "suspended", ByRule: "suspended by rule", AsDead: "suspended because it is dead,",
}

// Feedback is the feedback on a window that moves.
type Feedback struct {
	// Positive and Negative are the fractions of a session that successes and failures
	// have added up to without moving the window yet.
	Positive float64 `json:"positive"`
	Negative float64 `json:"negative"`
	// FailedCohorts is how many windows in a row have failed. At CohortLimit the
	// destination is dead.
	FailedCohorts float64 `json:"failed_cohorts"`
	CohortLimit   float64 `json:"cohort_limit"`
}

// Text is the feedback as text.
func (f *Feedback) Text() string {
	return fmt.Sprintf("positive %.2f, negative %.2f, failed cohorts %.2f of %g", f.Positive, f.Negative, f.FailedCohorts, f.CohortLimit)
}

// WindowText says how many sessions a thread has and may have: "1 of 5 sessions,
// at most 20, probing". It is empty if the server does not report the window.
func (t *Thread) WindowText(now time.Time) string {
	if t.WindowLimit == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %s", t.Sessions, Plural(t.Window, "session", "sessions"))
	if t.WindowLimit != t.Window {
		text += fmt.Sprintf(", at most %d", t.WindowLimit)
	}
	switch {
	case t.Destination == Suspended:
		text += ", " + suspendedWords[t.SuspendedBy] + " for " + FormatSpan(max(0, time.Duration(t.SuspendedUntil.Unix()-now.Unix())*time.Second))
	case t.Destination == Probing:
		text += ", probing"
	}
	return text
}
