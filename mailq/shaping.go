package mailq

// What SHOW RULES lists.

import (
	"fmt"
	"time"
)

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
