package mailq

// Shaping: what reply rules do to threads (SHOW RULES).

import (
	"cmp"
	"fmt"
	"time"
)

// Effect is what a reply rule or another node does to a thread now.
type Effect struct {
	Rule   string `json:"rule,omitempty"`   // file:line of the reply rule; "": by another node
	Action string `json:"action,omitempty"` // of the rule, such as "suspend 15m"
	// Part is the fraction of the rate and of the window's limit that "slow" leaves
	// now.
	Part  float64   `json:"part,omitempty"`
	Until time.Time `json:"until,omitzero"`
	By    string    `json:"by,omitempty"` // which node
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
