package admin

// EXPLAIN: what the mail for a destination waits for, and the rules that apply to it.

import (
	"context"
	"slices"
	"strings"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// Explain says what the core knows about a destination.
func (q *Queue) Explain(ctx context.Context, name mailq.Name) (*mailq.Explanation, error) {
	name = lower(name)
	x := new(mailq.Explanation)
	var params *rule.Params
	err := q.port.Ask(ctx, func(l *daemon.Loop) {
		var from *view.Explanation
		from, params = l.Core().Explain(name.Channel, name.Host)
		x.Explanation = *from
	})
	if err != nil {
		return nil, err
	}
	q.addDefaults(&x.Explanation, params)
	x.Unloaded.Count, x.Unloaded.Reason = q.countUnloaded(ctx, func(job *mailq.JobLine) bool { return job.Name == name })
	for _, l := range x.Limits {
		x.Cluster = append(x.Cluster, q.partsOf(ctx, l.Name, x)...)
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

// addDefaults adds the parameters in force that no clause sets.
func (q *Queue) addDefaults(x *view.Explanation, params *rule.Params) {
	if q.params == nil {
		return
	}
	set := len(x.Settings)
	for _, line := range q.params(*params) {
		name, value, _ := strings.Cut(line, "=")
		if !slices.ContainsFunc(x.Settings[:set], func(s view.Setting) bool { return s.Name == name }) {
			x.Settings = append(x.Settings, view.Setting{Name: name, Value: strings.Trim(value, `"`)})
		}
	}
}

// lower maps a name to lower case, as it is in the queue.
func lower(name mailq.Name) mailq.Name {
	return mailq.Name{Channel: strings.ToLower(name.Channel), Host: strings.ToLower(name.Host)}
}
