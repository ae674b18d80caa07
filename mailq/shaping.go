package mailq

// Shaping: what reply rules and SUSPEND do to threads (SHOW SUSPENDED, SHOW RULES).

import (
	"cmp"
	"fmt"
	"time"
)

// Effect is what a reply rule or SUSPEND does to a thread now.
type Effect struct {
	Rule   string `json:"rule,omitempty"`   // file:line of the reply rule; "": by SUSPEND
	Action string `json:"action,omitempty"` // of the rule, such as "suspend 15m"
	// Part is the fraction of the rate and of the window's limit that "slow" leaves
	// now.
	Part  float64   `json:"part,omitempty"`
	Until time.Time `json:"until,omitzero"` // zero: until it is lifted
	By    string    `json:"by,omitempty"`   // who gave the order
	Why   string    `json:"because,omitempty"`
}

// Text is the effect in words: "replies:12 (suspend 15m), ends in 14m3s".
func (e *Effect) Text(now time.Time) string {
	text := e.what()
	if e.Part > 0 {
		text += fmt.Sprintf(", %.0f%% now", e.Part*100)
	}
	return text + end(e.Until, now, "lifted") + because(e.Why)
}

func (e *Effect) what() string {
	if e.Rule == "" {
		return "suspended by " + cmp.Or(e.By, "somebody")
	}
	return e.Rule + " (" + e.Action + ")"
}

// end says when something ends: by itself, or when it is lifted or released.
func end(until, now time.Time, by string) string {
	if until.IsZero() {
		return ", until " + by
	}
	return ", ends in " + FormatSpan(max(0, until.Sub(now)))
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// SuspendedItem is a line of JSON SHOW SUSPENDED.
type SuspendedItem struct {
	Name
	SuspendedAt time.Time `json:"suspended_at,omitzero"`
	Until       time.Time `json:"until,omitzero"` // zero: until it is lifted
	By          string    `json:"by,omitempty"`
	Why         string    `json:"because,omitempty"`
	Messages    int       `json:"messages"` // that wait
}

// Text is a line of SHOW SUSPENDED.
func (s *SuspendedItem) Text(now time.Time) string {
	text := s.Channel + "/" + s.Host + ": " + Plural(s.Messages, "message", "messages")
	if !s.SuspendedAt.IsZero() {
		text += ", suspended " + FormatAge(now, s.SuspendedAt) + " by " + cmp.Or(s.By, "somebody")
	}
	return text + end(s.Until, now, "lifted") + because(s.Why)
}

// RuleItem is a line of JSON SHOW RULES: a reply rule.
type RuleItem struct {
	File       string    `json:"file"`
	Line       int       `json:"line"`
	Pattern    string    `json:"pattern"`
	Expression string    `json:"expression"`
	Action     string    `json:"action"`
	Hits       uint64    `json:"hits"` // since the start, or since the rule has its present form
	LastAt     time.Time `json:"last_at,omitzero"`
	Threads    int       `json:"threads"` // on which it has an effect now
}

// Text is a line of SHOW RULES.
func (r *RuleItem) Text(now time.Time) string {
	text := fmt.Sprintf("%s:%d: %d hits", r.File, r.Line, r.Hits)
	if !r.LastAt.IsZero() {
		text += ", last " + FormatAge(now, r.LastAt) + " ago"
	}
	if r.Threads > 0 {
		text += ", in force on " + Plural(r.Threads, "thread", "threads")
	}
	return text + ": reply " + r.Pattern + " \"" + r.Expression + "\" " + r.Action
}
