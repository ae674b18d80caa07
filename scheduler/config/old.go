package config

import (
	"strings"

	"zsched/scheduler"
)

// differences warns where a file that was written for ZMailer now acts
// differently, and where a clause cannot do anything.
func (r *reader) differences() {
	clauses := r.file.Scheduler.Clauses
	inherited := make(map[string]bool) // what */* has set so far
	r.patience = maxComparisons
	for i := range clauses {
		c := &clauses[i]
		r.at = clausePlace(c)
		has := make(map[string]bool)
		for _, s := range c.Settings {
			has[s.Name] = true
			if c.MatchesAll() {
				inherited[s.Name] = true
			}
		}
		if c.MatchesAll() {
			if len(has) == 0 {
				r.warn("*/* sets nothing")
			}
			continue
		}
		r.patternDifferences(c)
		r.commandDifferences(i, has["command"], inherited["command"])
		if has["command"] || inherited["command"] {
			r.unsetDifferences(c, has, inherited)
		}
	}
}

func (r *reader) patternDifferences(c *scheduler.Clause) {
	pattern := patternOf(c)
	if c.Channel == "*" {
		r.warn("%s now matches every channel; ZMailer never used such a clause", pattern)
	}
	if strings.ToLower(pattern) != pattern {
		r.warn("%s now matches in any case; in ZMailer a pattern with upper-case letters matched nothing", pattern)
	}
	if _, set, found := strings.Cut(pattern, "["); found {
		set, _, _ = strings.Cut(set, "]")
		if strings.HasPrefix(set, "^") || strings.HasPrefix(set, "!") || strings.Contains(strings.Trim(set, "-"), "-") {
			r.warn("ranges and negation in [%s] now work; in ZMailer they did not", set)
		}
	}
	if _, after, found := strings.Cut(pattern, "}"); found && after != "" {
		r.warn("%q after the braces now counts; ZMailer ignored it", after)
	}
}

// maxComparisons is how many pairs of clauses are looked at for a warning. Only
// a file beyond all measure has more, and then lacks some warnings.
const maxComparisons = 1 << 22

// commandDifferences: a clause without a command ended the search in ZMailer.
func (r *reader) commandDifferences(i int, own, inherited bool) {
	if own {
		return
	}
	clauses := r.file.Scheduler.Clauses
	c := &clauses[i]
	for j := i + 1; j < len(clauses) && r.patience > 0; j++ {
		r.patience--
		later := &clauses[j]
		if !later.MatchesAll() && mayMeet(c.Channel, later.Channel) && mayMeet(c.Host, later.Host) {
			r.warn("%s has no command, so what it matches goes on to further clauses, %s on line %d the first; "+
				"ZMailer stopped here", patternOf(c), patternOf(later), later.Line)
			return
		}
	}
	if !inherited {
		r.warn("%s has no command, and no later clause has one for it: what it matches will wait", patternOf(c))
	}
}

// unsetDifferences names each default that differs from ZMailer's once, at the
// first clause that it acts in.
func (r *reader) unsetDifferences(c *scheduler.Clause, has, inherited map[string]bool) {
	for _, row := range keywords {
		if row.before == "" || has[row.name] || inherited[row.name] || r.told[row.name] {
			continue
		}
		// Who cannot switch groups has ZMailer's default anyway.
		if row.name == "group" && r.system.UID != 0 {
			continue
		}
		r.told[row.name] = true
		r.warn("%s sets no %s: it is %s now; %s", patternOf(c), row.name, row.unset, row.before)
	}
}

// mayMeet guesses whether there is a name that both patterns match: the plain
// text before the first wildcard of one has to begin that of the other.
func mayMeet(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	i, j := strings.IndexAny(a, `*?[{\`), strings.IndexAny(b, `*?[{\`)
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
