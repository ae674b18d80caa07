package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// explain executes EXPLAIN: it shows what the mail for a destination is waiting for,
// the limits, and the clauses and parameters in force.
func explain(r *request, ctx context.Context) bool {
	name, err := threadName(r.arg)
	if err != nil {
		return r.reject(err)
	}
	return r.list(func(out *answer) error {
		e, err := r.server.queue.Explain(ctx, name)
		switch {
		case err != nil:
			return err
		case r.asJSON:
			return out.object(e)
		}
		return out.texts(append(stateText(e, time.Now()), settingsText(e)...))
	})
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
		text = append(text, "thread: "+string(appendDetail(nil, e.Thread, now, ' ')),
			fmt.Sprintf("window: %s; %.1f recipients done a minute", window, e.Thread.Rate))
		if e.Thread.Site != "" {
			text = append(text, "site: "+mailq.Field(e.Thread.Site))
		}
		for i := range e.Thread.Effects {
			text = append(text, "shaping: "+e.Thread.Effects[i].Text(now))
		}
		if f := e.Thread.Feedback; f != nil {
			text = append(text, "feedback: "+f.Text())
		}
	}
	text = append(text, ordersText(e)...)
	if e.NextJob != nil {
		text = append(text, "next job: "+mailq.Field(e.NextJob.Path))
	}
	if len(e.States) > 0 {
		var states []string
		for _, state := range slices.Sorted(maps.Keys(e.States)) {
			states = append(states, fmt.Sprintf("%d %s", e.States[state], state))
		}
		text = append(text, "jobs: "+strings.Join(states, ", "))
	}
	if e.Thread != nil {
		text = appendDiagnostic(text, "last diagnostic: ", e.Thread.Reason)
	}
	if e.Cluster != "" {
		text = append(text, "cluster: "+e.Cluster)
	}
	return text
}

// nextText says what happens next, and when; "": nothing is to be said.
func nextText(e *mailq.Explanation, now time.Time) string {
	wait := e.NextAt.Unix() - now.Unix()
	switch {
	case e.NextAt.IsZero():
		return e.Next
	case wait <= 0:
		return e.Next + ", which is due now"
	}
	return strings.TrimPrefix(fmt.Sprintf("%s in %s, at %s", e.Next, formatSeconds(wait), e.NextAt.Format(time.RFC3339)), " ")
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

// ordersText describes the orders that wait for agents.
func ordersText(e *mailq.Explanation) (text []string) {
	for _, verb := range slices.Sorted(maps.Keys(e.Orders)) {
		counts := map[string]int{"": e.Orders[verb]} // by where the jobs are sent
		if verb == mailq.Reroute && len(e.Reroutes) > 0 {
			counts = e.Reroutes
		}
		for _, to := range slices.Sorted(maps.Keys(counts)) {
			jobs := mailq.Plural(counts[to], "job", "jobs")
			if to != "" {
				jobs += " to " + mailq.Field(to)
			}
			text = append(text, fmt.Sprintf("orders: %s of %s when the agent reports, unless it delivers them", verb, jobs))
		}
	}
	return text
}
