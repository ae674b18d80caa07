package mailq

import (
	"fmt"
	"strings"
	"time"
)

// This file declares what answers say about windows, feedback, job positions and
// shares (scheduler.cf(5)), and how they say it as text.

// Destination says whether the destination of a thread is tried.
type Destination string

const (
	Tried     Destination = ""          // as far as the window allows
	Suspended Destination = "suspended" // until Thread.SuspendedUntil; zero: until it is lifted
	Probing   Destination = "probing"   // it is dead: one session tries it
)

// Suspender says by whom a thread is suspended.
type Suspender string

const (
	ByOrder Suspender = "order" // SUSPEND
	ByRule  Suspender = "rule"  // a reply rule
	AsDead  Suspender = "dead"  // its destination has failed
)

// suspended is the word for a suspended thread, with the suspender if it is known.
func (by Suspender) suspended() string {
	switch by {
	case ByOrder:
		return "suspended by order"
	case ByRule:
		return "suspended by rule"
	case AsDead:
		return "suspended because it is dead,"
	}
	return "suspended"
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
	case t.Destination == Suspended && t.SuspendedUntil.IsZero():
		text += ", " + t.SuspendedBy.suspended() + " until lifted"
	case t.Destination == Suspended:
		text += ", " + t.SuspendedBy.suspended() + " for " + FormatSpan(max(0, time.Duration(t.SuspendedUntil.Unix()-now.Unix())*time.Second))
	case t.Destination == Probing:
		text += ", probing"
	}
	return text
}

// Position is the place of a due job line in the order in which mail is fed. The
// shares of the ring take turns, and each share has a list of jobs.
type Position struct {
	// Share is a sender, a domain, or "" for all mail and for null senders.
	Share  string `json:"share"`
	Weight int    `json:"weight"`
	// Deficit is how many job lines the share may still pick in its turn; below
	// 0 it has picked too many.
	Deficit int `json:"deficit"`
	// Turn is the share whose turn it is, and SharesBefore is how many have
	// theirs before this one.
	Turn         string `json:"turn"`
	SharesBefore int    `json:"shares_before"`
	// Size is how many job lines the message had in the ring when the first of
	// them became due, and Due is how many are due now.
	Size int `json:"job_size"`
	Due  int `json:"job_due"`
	// JobsBefore and PicksBefore are the messages, and their job lines, that
	// come before it in its share and could be fed now. If More is set, there
	// are more than were counted.
	JobsBefore  int  `json:"jobs_before"`
	PicksBefore int  `json:"picks_before"`
	More        bool `json:"more,omitempty"`
	// Slots are what the message has earned and not used; below 0, it owes them.
	Slots int `json:"slots"`
	// Overtook is the number of the message that it has overtaken, and
	// OvertakenBy of the last that has overtaken it; 0: none.
	Overtook    uint64 `json:"overtook,omitempty"`
	OvertakenBy uint64 `json:"overtaken_by,omitempty"`
	// Sessions is how many the message has, and MaxSessions how many it may have
	// now; 0: no limit.
	Sessions    int `json:"message_sessions"`
	MaxSessions int `json:"max_message_sessions,omitempty"`
	// QuantumUsed says that the thread has used its quantum in this round.
	QuantumUsed bool `json:"quantum_used,omitempty"`
}

// ShareText is the share of a position as text.
func (p *Position) ShareText() string {
	text := fmt.Sprintf("%s, weight %d, deficit %d", ShareName(p.Share), p.Weight, p.Deficit)
	switch {
	case p.Turn == p.Share:
		text += ", its turn"
	default:
		text += ", turn of " + ShareName(p.Turn)
	}
	if p.SharesBefore > 0 {
		text += fmt.Sprintf(", %s before it", Plural(p.SharesBefore, "share", "shares"))
	}
	return text
}

// ShareName is the name of a share as text. Mail of the null sender, and all mail
// where shares do not take turns, has a share without a name.
func ShareName(name string) string {
	if name == "" {
		return "<>"
	}
	return OneReply(name)
}

// JobText is the rest of a position as text: "4 of 10 due, 2 slots, 3 of 20
// sessions, 31 job lines of 12 other messages before it".
func (p *Position) JobText() string {
	text := []string{fmt.Sprintf("%d of %d due", p.Due, p.Size)}
	if p.Size > 1 {
		text = append(text, Plural(p.Slots, "slot", "slots"))
		sessions := Plural(p.Sessions, "session", "sessions")
		if p.MaxSessions > 0 {
			sessions = fmt.Sprintf("%d of %s", p.Sessions, Plural(p.MaxSessions, "session", "sessions"))
		}
		text = append(text, sessions)
	}
	if p.Overtook != 0 {
		text = append(text, fmt.Sprintf("overtook %d", p.Overtook))
	}
	if p.OvertakenBy != 0 {
		text = append(text, fmt.Sprintf("overtaken by %d", p.OvertakenBy))
	}
	before := "first in its share"
	if p.PicksBefore > 0 {
		over := ""
		if p.More {
			over = "over "
		}
		others := "the same message"
		if p.JobsBefore > 0 {
			others = Plural(p.JobsBefore, "other message", "other messages")
		}
		before = over + Plural(p.PicksBefore, "job line", "job lines") + " of " + others + " before it"
	}
	text = append(text, before)
	if p.QuantumUsed {
		text = append(text, "quantum used")
	}
	return strings.Join(text, ", ")
}

// Rule is a rule that keeps the next job line of a thread from being fed.
type Rule struct {
	// Rule is what the thread waits for, in the words of the metric
	// scheduler_threads_waiting, or retry, share, quantum or job list.
	Rule string `json:"rule"`
	Text string `json:"text"` // a sentence with the numbers and the settings
	// Settings are those that the rule follows, with their values.
	Settings []Setting `json:"settings,omitempty"`
}
