package scheduler

import "zsched/internal/pattern"

// match returns the clauses that speak for a channel and host, in order, as
// the manual has it: patterns are tried in sequence, what a matching clause
// sets is picked up, and the first one with a command ends the search. */*
// gives defaults and never ends it.
func match(clauses []Clause, channel, host string) []*Clause {
	var matched []*Clause
	for i := range clauses {
		c := &clauses[i]
		if !pattern.Glob(c.Channel, channel) || !pattern.Glob(c.Host, host) {
			continue
		}
		matched = append(matched, c)
		if c.sets("command") && !c.MatchesAll() {
			break
		}
	}
	return matched
}

// MatchesAll reports whether the clause is one for */*, which gives defaults to
// those behind it.
func (c *Clause) MatchesAll() bool { return c.Channel == "*" && c.Host == "*" }

func (c *Clause) sets(name string) bool {
	for i := range c.Settings {
		if c.Settings[i].Name == name {
			return true
		}
	}
	return false
}

// fold returns the parameters that the matched clauses leave in force.
func fold(defaults Params, matched []*Clause) *Params {
	p := defaults
	for _, c := range matched {
		for i := range c.Settings {
			c.Settings[i].Apply(&p)
		}
	}
	return &p
}
