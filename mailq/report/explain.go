package report

// What mailq explain prints: what the mail for a destination waits for.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// Explanation returns the lines about a destination: what its mail waits for or does, then
// limits, clauses and parameters.
func Explanation(e *mailq.Explanation, now time.Time) []string {
	return append(stateText(e, now), settingsText(e)...)
}

// stateText says what the mail for a destination is waiting for or doing.
func stateText(e *mailq.Explanation, now time.Time) []string {
	text := []string{e.Channel + "/" + e.Host + ": " + e.Waits}
	for _, rule := range e.Rules {
		if !strings.Contains(e.Waits, rule.Text) { // of held mail, Waits says by whom, too
			text = append(text, "also: "+rule.Text)
		}
	}
	if next := nextText(e, now); next != "" {
		text = append(text, "next: "+next)
	}
	if e.Thread != nil && e.Known {
		window := e.Thread.WindowText(now)
		if window == "" {
			window = mailq.Plural(e.Thread.Window, "session", "sessions")
		}
		text = append(text, fmt.Sprintf("thread: %s, %s, %s, oldest %s", mailq.Plural(e.Thread.Jobs, "job", "jobs"),
			mailq.Plural(e.Thread.Recipients, "recipient", "recipients"), mailq.Plural(e.Thread.Attempts, "attempt", "attempts"),
			mailq.FormatAge(now, e.Thread.OldestAt)),
			fmt.Sprintf("window: %s; %.1f recipients done a minute", window, e.Thread.Rate))
		if e.Thread.Site != "" {
			text = append(text, "site: "+e.Thread.Site)
		}
		for i := range e.Thread.Effects {
			text = append(text, "shaping: "+e.Thread.Effects[i].Text(now))
		}
		if f := e.Thread.Feedback; f != nil {
			text = append(text, "feedback: "+f.Text())
		}
	}
	for _, order := range slices.Sorted(maps.Keys(e.Orders)) {
		text = append(text, fmt.Sprintf("orders: %s of %s when the agent reports, unless it delivers them", order, mailq.Plural(e.Orders[order], "job", "jobs")))
	}
	if e.NextJob != nil {
		text = append(text, "next job: "+e.NextJob.Path)
	}
	if len(e.States) > 0 {
		text = append(text, "jobs: "+states(e.States))
	}
	if e.Thread != nil {
		text = appendDiagnostic(text, "last diagnostic: ", e.Thread.Reason)
	}
	return text
}

// nextText says what happens next, and when; "": nothing is to be said.
func nextText(e *mailq.Explanation, now time.Time) string {
	switch {
	case e.NextAt.IsZero():
		return e.Next
	case !e.NextAt.After(now):
		return e.Next + ", which is due now"
	}
	return strings.TrimPrefix(fmt.Sprintf("%s in %s, at %s", e.Next, mailq.FormatAge(e.NextAt, now), e.NextAt.Format(time.RFC3339)), " ")
}

// settingsText lists limits, clauses and parameters.
func settingsText(e *mailq.Explanation) (text []string) {
	for _, l := range e.Limits {
		line := fmt.Sprintf("limit: %s, %d used", l.Name, l.Used)
		if l.Most > 0 {
			line += fmt.Sprintf(" of %d", l.Most)
		}
		if l.Agents > l.Used {
			line += ", " + mailq.Plural(l.Agents, "agent", "agents")
		}
		if l.Cluster != "" {
			line += " (" + l.Cluster + ")"
		}
		if l.Blocks {
			line += ", blocks"
		}
		if l.Setting != "" {
			line += fmt.Sprintf("\t%s in %s, %s:%d", l.Setting, l.Clause, l.File, l.Line)
		}
		text = append(text, line)
	}
	if len(e.Clauses) == 0 {
		text = append(text, "clause: none matches")
	}
	for _, c := range e.Clauses {
		text = append(text, fmt.Sprintf("clause: %s\t%s:%d", c.Pattern, c.File, c.Line))
	}
	for _, s := range e.Settings {
		from := "default"
		if s.File != "" {
			from = fmt.Sprintf("%s:%d", s.File, s.Line)
		}
		text = append(text, fmt.Sprintf("setting: %s=%s\t%s", s.Name, s.Value, from))
	}
	return text
}
