package admin

// EXPLAIN: what the mail for a destination waits for, and the rules that apply to it.

import (
	"context"
	"strings"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
)

// Explain says what the core knows about a destination.
func (q *Queue) Explain(ctx context.Context, name mailq.Name) (*mailq.Explanation, error) {
	name = lower(name)
	var from *scheduler.Explanation
	err := q.port.Ask(ctx, func(l *daemon.Loop) { from = l.Core().Explain(name.Channel, name.Host) })
	if err != nil {
		return nil, err
	}
	x := &mailq.Explanation{Name: name, Wait: string(from.Wait), Until: from.Until, Settings: q.settings(from)}
	if from.Thread != nil {
		x.Thread = threadOf(from.Thread)
	}
	if o := from.Hold; o != nil {
		x.Hold = &mailq.HoldInfo{HeldAt: o.Since, Until: o.Until, By: o.By, Why: o.Why}
	}
	x.Unloaded.Count, x.Unloaded.Reason = q.countUnloaded(ctx, func(job *mailq.Job) bool { return job.Name == name })
	for _, c := range from.Clauses {
		x.Clauses = append(x.Clauses, mailq.Clause{Pattern: c.Channel + "/" + c.Host, File: c.File, Line: c.Line})
	}
	for _, l := range from.Limits {
		limit := mailq.Limit{Name: l.Name, Used: l.Used, Most: l.Most, Blocks: l.Blocks, Agents: l.Agents}
		limit.Cluster = q.partsOf(ctx, l.Name, x)
		x.Limits = append(x.Limits, limit)
	}
	return x, nil
}

// partsOf returns which node has which part of a limit, if it is one of the cluster. If the
// store does not answer, nothing is known.
func (q *Queue) partsOf(ctx context.Context, limit string, x *mailq.Explanation) []mailq.ClusterLimit {
	of := scheduler.ClusterLimit{Setting: limit, Channel: x.Channel, Name: x.Host}
	switch {
	case q.cluster == nil:
		return nil
	case limit == "clustersitemax" && x.Thread != nil:
		of.Name = x.Thread.Site
	case limit != "clustermax":
		return nil
	}
	parts, err := q.cluster.Parts(ctx, of)
	if err != nil {
		q.log.Warn().Err(err).Msg("the parts of a limit of the cluster are not known")
	}
	return parts
}

// settings returns all parameters in force: first those that clauses set, then
// the defaults of the others.
func (q *Queue) settings(x *scheduler.Explanation) (all []mailq.Setting) {
	set := make(map[string]bool)
	for _, s := range rule.InForce(x.Clauses) {
		all = append(all, mailq.Setting{Name: s.Name, Value: s.Value, File: s.File, Line: s.Line})
		set[s.Name] = true
	}
	if q.params == nil {
		return all
	}
	for _, line := range q.params(*x.Params) {
		if name, value, _ := strings.Cut(line, "="); !set[name] {
			all = append(all, mailq.Setting{Name: name, Value: strings.Trim(value, `"`)})
		}
	}
	return all
}

// lower maps a name to lower case, as it is in the queue.
func lower(name mailq.Name) mailq.Name {
	return mailq.Name{Channel: strings.ToLower(name.Channel), Host: strings.ToLower(name.Host)}
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
