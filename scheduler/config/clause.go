package config

// Clauses: the parameters that result from a clause, and empty clauses.

import (
	"slices"

	"zsched/scheduler/rule"
)

// fillEmpty gives every empty clause the settings of the next clause that has
// any. It neither fills */* clauses nor copies from them.
func (r *reader) fillEmpty() {
	var next []rule.Setting
	for i, c := range slices.Backward(r.file.Scheduler.Clauses) {
		switch {
		case c.MatchesAll():
		case len(c.Settings) > 0:
			next = c.Settings
		default:
			r.file.Scheduler.Clauses[i].Settings = slices.Clone(next)
			r.copied[i] = true
		}
	}
}

func setsOneOf(c *rule.Clause, names ...string) bool {
	return slices.ContainsFunc(c.Settings, func(s rule.Setting) bool { return slices.Contains(names, s.Name) })
}

// clausePlace returns the position of a clause's pattern.
func clausePlace(c *rule.Clause) Place { return Place{c.File, c.Line, 1} }

func patternOf(c *rule.Clause) string { return c.Channel + "/" + c.Host }
