package config

// Compatibility: where ZMailer treated a scheduler.conf differently.

import (
	"fmt"
	"strings"

	"zsched/scheduler/rule"
)

// findDifferences collects the places where ZMailer treated the file
// differently.
func (r *reader) findDifferences() {
	inherited := make(map[string]bool) // what the */* clauses have set so far
	for i := range r.file.Scheduler.Clauses {
		c := &r.file.Scheduler.Clauses[i]
		r.at = clausePlace(c)
		own := settingNames(c)
		if c.MatchesAll() {
			for name := range own {
				inherited[name] = true
			}
			continue
		}
		if !own["command"] {
			r.searchDifference(i)
		}
		if own["command"] || inherited["command"] {
			r.defaultDifferences(c, own, inherited)
		}
	}
}

// differ records a difference at the current place.
func (r *reader) differ(format string, args ...any) {
	if !r.readingDefaults {
		r.file.Differences = append(r.file.Differences, Warning{r.at, fmt.Sprintf(format, args...)})
	}
}

// searchDifference: in ZMailer a clause without a command ended the search.
func (r *reader) searchDifference(i int) {
	c := &r.file.Scheduler.Clauses[i]
	if later := r.mayMatchLater(i); later != nil {
		r.differ("%s has no command, so recipients that match it go on to later clauses, first to %s on line %d; "+
			"ZMailer stopped here", patternOf(c), patternOf(later), later.Line)
	}
}

// defaultDifferences reports each default that differs from ZMailer's once, at
// the first clause that uses it.
func (r *reader) defaultDifferences(c *rule.Clause, own, inherited map[string]bool) {
	for _, row := range keywords {
		if row.zmailer == "" || own[row.name] || inherited[row.name] || r.warned[row.name] {
			continue
		}
		// A scheduler that does not run as root cannot change groups, so ZMailer's
		// default applies.
		if row.name == "group" && r.system.UID != 0 {
			continue
		}
		r.warned[row.name] = true
		r.differ("%s sets no %s: the default is %s now; %s", patternOf(c), row.name, row.preset, row.zmailer)
	}
}

// mayOverlap guesses whether any name matches both patterns: of the texts before
// their first wildcards, one must be a prefix of the other.
func mayOverlap(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	i, j := strings.IndexAny(a, wildcards), strings.IndexAny(b, wildcards)
	switch {
	case i < 0 && j < 0:
		return a == b
	case i < 0:
		return strings.HasPrefix(a, b[:j])
	case j < 0:
		return strings.HasPrefix(b, a[:i])
	}
	return strings.HasPrefix(a[:i], b[:j]) || strings.HasPrefix(b[:j], a[:i])
}

// wildcards are the bytes that have a special meaning in a pattern.
const wildcards = `*?[{\`
