package admin

// EXPLAIN: what the mail for a destination waits for, in sentences.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// Explain says what the core knows about a destination.
func (q *Queue) Explain(ctx context.Context, name mailq.Name) (*mailq.Explanation, error) {
	channel, host := strings.ToLower(name.Channel), strings.ToLower(name.Host)
	var from *scheduler.Explanation
	err := q.port.Ask(ctx, func(l *daemon.Loop) { from = l.Core().Explain(channel, host) })
	if err != nil {
		return nil, err
	}
	x := &mailq.Explanation{
		Name: mailq.Name{Channel: channel, Host: host}, Known: from.Thread != nil,
		Settings: q.settings(from), Next: upcoming[from.Next], NextAt: from.NextAt,
		States: make(map[string]int),
	}
	x.Rules = rulesOf(from, x.Settings)
	x.Waits = waits(from, x.Rules)
	if from.Hold != nil {
		explainHold(x, from.Hold)
	}
	if t := from.Thread; t != nil && t.NotLoaded > 0 {
		x.Waits += fmt.Sprintf(" %s not loaded, because of the limits on memory.", mailq.Plural(t.NotLoaded, "job is", "jobs are"))
	}
	q.explainUnloaded(ctx, x, from.Hold != nil || from.Thread != nil && from.Thread.Vertices > 0)
	if from.Thread != nil {
		x.Thread = threadOf(from.Thread)
		x.States = states(from.Thread.States)
	}
	addOrders(x, from)
	if from.Vertex != nil {
		x.NextJob = jobOf(from.Vertex)
	}
	if from.Ring != nil {
		x.Ring = ringOf(from.Ring)
	}
	for _, c := range from.Clauses {
		x.Clauses = append(x.Clauses, mailq.Clause{Pattern: c.Channel + "/" + c.Host, File: c.File, Line: c.Line})
	}
	for _, l := range from.Limits {
		x.Limits = append(x.Limits, limitOf(l, from))
		if q.cluster == nil || l.Name != "clustermax" && l.Name != "clustersitemax" {
			continue
		}
		of := l.Of
		if of == (scheduler.ClusterLimit{}) && l.Name == "clustermax" {
			of = scheduler.ClusterLimit{Setting: l.Name, Channel: channel, Name: host}
		}
		if of != (scheduler.ClusterLimit{}) {
			x.Limits[len(x.Limits)-1].Cluster = q.sharesOf(ctx, of)
		}
	}
	return x, nil
}

// addOrders adds the numbers of orders that wait for agents.
func addOrders(x *mailq.Explanation, from *scheduler.Explanation) {
	x.Orders = make(map[string]int)
	for verb, n := range from.Ordered {
		if verb != scheduler.VerbReroute || len(from.Rerouted) == 0 {
			x.Orders[string(orderName(verb))] = n
		}
	}
	for to, n := range from.Rerouted {
		x.Orders[string(mailq.Reroute)+" to "+targetName(to)] = n
	}
}

// sharesOf says which node has which part of a limit of the cluster.
func (q *Queue) sharesOf(ctx context.Context, limit scheduler.ClusterLimit) string {
	text, err := q.cluster.Shares(ctx, limit)
	if err != nil {
		return "the store does not answer"
	}
	return text
}

// limitOf returns a limit and the clause that sets it.
func limitOf(l scheduler.Limit, x *scheduler.Explanation) mailq.Limit {
	out := mailq.Limit{Name: l.Name, Used: l.Used, Most: l.Most, Blocks: l.Blocks, Agents: l.Agents}
	for _, c := range slices.Backward(x.Clauses) {
		for _, s := range slices.Backward(c.Settings) {
			if s.Name == l.Setting && l.Setting != "" {
				out.Setting, out.Clause = s.Name+"="+s.Value, c.Channel+"/"+c.Host
				out.File, out.Line = s.File, s.Line
				return out
			}
		}
	}
	return out
}

// explainHold adds who holds the thread, why and until when.
func explainHold(x *mailq.Explanation, o *scheduler.HoldOrder) {
	if o.By != "" {
		x.Waits += " Held by " + o.By
		if o.Why != "" {
			x.Waits += ": " + o.Why
		}
		x.Waits += "."
	}
	x.Next = "nothing until somebody releases it"
	if !o.Until.IsZero() {
		x.Next, x.NextAt = "the hold ends", o.Until
	}
}

// settings returns all parameters in force: first those that clauses set, then
// the defaults of the others.
func (q *Queue) settings(x *scheduler.Explanation) (all []mailq.Setting) {
	set := make(map[string]bool)
	for _, s := range x.Settings {
		all = append(all, mailq.Setting{Name: s.Name, Value: s.Value, File: s.File, Line: s.Line})
		set[s.Name] = true
	}
	if q.params == nil || x.Params == nil {
		return all
	}
	for _, line := range q.params(*x.Params) {
		if name, value, _ := strings.Cut(line, "="); !set[name] {
			all = append(all, mailq.Setting{Name: name, Value: strings.Trim(value, `"`)})
		}
	}
	return all
}

// states returns the number of job lines in each state that has any.
func states(c scheduler.StateCounts) map[string]int {
	some := make(map[string]int)
	for state, n := range c.All() {
		if n > 0 {
			some[string(state)] = n
		}
	}
	return some
}

// upcoming says what happens next.
var upcoming = map[scheduler.Upcoming]string{
	scheduler.NothingNext: "nothing at a known time",
	scheduler.RetryNext:   "the next retry",
	scheduler.ResumeNext:  "the end of the suspension",
	scheduler.ExpiryNext:  "the oldest message expires",
	scheduler.StartNext:   "an agent is started",
	scheduler.ProbeNext:   "the spool is probed",
	scheduler.TokenNext:   "a rate allows the next job line",
	scheduler.TimeoutNext: "an agent is ended if it makes no progress",
}

// waits says why mail waits, or what happens to it.
func waits(x *scheduler.Explanation, rules []mailq.Rule) string {
	t := x.Thread
	switch {
	case t != nil:
	case x.Hold != nil:
		return "There is no mail for it, and mail that arrives is held. " + because[scheduler.WaitHeld] + "."
	case x.Params != nil && len(x.Params.Command) == 0:
		return "There is no mail for it, and none would be delivered. " + because[scheduler.WaitCommand] + "."
	default:
		return "There is no mail for it."
	}
	s := t.States
	switch {
	case x.Wait != scheduler.NoWait:
		return rules[0].Text
	case s.Fed > 0:
		return fmt.Sprintf("It is being delivered: %s with agents, and %d due.", mailq.Plural(s.Fed, "job is", "jobs are"), s.Due)
	case s.Due > 0:
		return mailq.Plural(s.Due, "job is", "jobs are") + " due and fed as agents ask for mail."
	case len(rules) > 0:
		return rules[0].Text
	case s.Reading > 0:
		return "Control files are being read again after an agent exited or found nothing to do."
	case s.Held > 0:
		return "Mail of it is held, or will be as soon as no agent is working on any part of the message: mailq release ends that."
	case s.Blocked > 0:
		return "Outcomes are being written, or alternatives wait for their turn."
	}
	return "The thread is empty."
}
