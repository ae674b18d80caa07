package config

import (
	"slices"

	"zsched/internal/interval"
	"zsched/scheduler"
)

// Effective returns the parameters for a recipient that the clause with this
// index matches and no clause before it but */*.
func (f *File) Effective(clause int) scheduler.Params {
	p := f.Scheduler.Defaults
	for i := range f.Scheduler.Clauses[:clause+1] {
		c := &f.Scheduler.Clauses[i]
		if i == clause || c.MatchesAll() {
			for _, s := range c.Settings {
				s.Apply(&p)
			}
		}
	}
	return p
}

// fillEmpty gives every empty clause the settings of the next one that is not
// empty. */* stands beside that: it neither takes nor gives.
func (r *reader) fillEmpty() {
	var next []scheduler.Setting
	for i, c := range slices.Backward(r.file.Scheduler.Clauses) {
		switch {
		case c.MatchesAll():
		case len(c.Settings) > 0:
			next = c.Settings
		default:
			r.file.Scheduler.Clauses[i].Settings = slices.Clone(next)
		}
	}
}

// consistency finds what is wrong or odd only about keywords together, at the
// clause that brings them together.
func (r *reader) consistency() {
	defaults := r.file.Scheduler.Defaults
	for i := range r.file.Scheduler.Clauses {
		c := &r.file.Scheduler.Clauses[i]
		r.at = clausePlace(c)
		p := defaults
		for _, s := range c.Settings {
			s.Apply(&p)
		}
		if c.MatchesAll() {
			defaults = p
		}
		if p.MinBackoff > p.MaxBackoff && setsOneOf(c, "minbackoff", "maxbackoff") {
			r.fail("in %s minbackoff is %s, longer than maxbackoff, which is %s",
				patternOf(c), interval.Format(p.MinBackoff), interval.Format(p.MaxBackoff))
		}
		if p.InitialConcurrency > p.MaxThr && setsOneOf(c, "initialconcurrency", "maxthr") {
			r.warn("%s begins with initialconcurrency=%d, but maxthr=%d allows no more than that",
				patternOf(c), p.InitialConcurrency, p.MaxThr)
		}
	}
}

func setsOneOf(c *scheduler.Clause, names ...string) bool {
	return slices.ContainsFunc(c.Settings, func(s scheduler.Setting) bool { return slices.Contains(names, s.Name) })
}

// clausePlace is where a clause's pattern stands.
func clausePlace(c *scheduler.Clause) Place { return Place{c.File, c.Line, 1} }

func patternOf(c *scheduler.Clause) string { return c.Channel + "/" + c.Host }
