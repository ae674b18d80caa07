package config

// The checks find settings that are valid on their own, but cannot work or are
// probably mistakes (scheduler --check).

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/pattern"
	"zsched/internal/units"
	"zsched/internal/zenv"
	"zsched/scheduler/rule"
)

// checkClauses reports mistakes in the combination of several keywords or
// clauses.
func (r *reader) checkClauses() {
	defaults := r.file.Scheduler.Defaults
	clauses := r.file.Scheduler.Clauses
	for i := range clauses {
		c := &clauses[i]
		r.at = clausePlace(c)
		p := defaults
		for _, s := range c.Settings {
			s.Apply(&p)
		}
		if !r.copied[i] {
			r.checkBackoff(c, &p)
			r.checkSessions(c, &p)
			r.checkGroup(c, &p)
		}
		if c.MatchesAll() {
			if len(c.Settings) == 0 {
				r.warn("*/* sets nothing")
			}
			defaults = p
			continue
		}
		if r.neverReached(i) {
			continue
		}
		givesCommand := func(later rule.Clause) bool {
			return later.Sets("command") && (covers(later.Channel, c.Channel) || covers(c.Channel, later.Channel)) &&
				(covers(later.Host, c.Host) || covers(c.Host, later.Host))
		}
		if len(p.Command) == 0 && !slices.ContainsFunc(clauses[i+1:], givesCommand) {
			r.warn("%s has no command, and no later clause has one for it: mail that matches it waits", patternOf(c))
		}
	}
}

func (r *reader) checkBackoff(c *rule.Clause, p *rule.Params) {
	if p.MinBackoff > p.MaxBackoff && c.Sets("minbackoff", "maxbackoff") {
		r.fail("in %s minbackoff is %s, longer than maxbackoff, which is %s",
			patternOf(c), units.FormatInterval(p.MinBackoff), units.FormatInterval(p.MaxBackoff))
	}
}

// checkGroup reports agents that are not root but have a group with which they, or others,
// could do harm.
func (r *reader) checkGroup(c *rule.Clause, p *rule.Params) {
	if p.UID <= 0 || !c.Sets("user", "group") {
		return
	}
	switch p.GID {
	case 0:
		r.warn("in %s the agents are not root but have group root, with which they could change files of the system; "+
			"set a group that no user has (scheduler(8), SECURITY)", patternOf(c))
	case rule.NobodyGID:
		r.warn("in %s the group is that of nobody, with which programs run for strangers, so the queue is not opened to it and the agents cannot read it; "+
			"set a group that no user has (scheduler(8), SECURITY)", patternOf(c))
	}
}

// checkSessions reports limits of a cluster without a store, and agents that are not told
// how many sessions they may have.
func (r *reader) checkSessions(c *rule.Clause, p *rule.Params) {
	if r.file.Params.Cluster == nil && (p.Cluster.Max > 0 || p.Cluster.SiteMax > 0 || p.Cluster.Rate.Recipients > 0) &&
		c.Sets("clustermax", "clustersitemax", "clusterrate") {
		r.warn("in %s clustermax, clustersitemax and clusterrate have no effect: PARAMcluster names no store", patternOf(c))
	}
	if p.Sessions > 1 && c.Sets("sessions", "command") && len(p.Command) > 0 && !passesSessions(p.Command) {
		r.warn("in %s sessions=%d, but the command does not pass ${sessions} to the agent", patternOf(c), p.Sessions)
	}
	if (p.SiteMax > 0 || p.Cluster.SiteMax > 0) && c.Sets("sitemax", "clustersitemax", "command") && keepsConnections(p.Command) {
		r.warn("in %s the command of smtp has no -1: its idle connections to a site are not counted under sitemax and clustersitemax", patternOf(c))
	}
}

// keepsConnections reports whether the agents keep connections open after their sessions: they are
// smtp(8) without -1 and its like.
func keepsConnections(command []string) bool {
	return len(command) > 0 && filepath.Base(command[0]) == "smtp" && !slices.ContainsFunc(command, func(word string) bool {
		if strings.HasPrefix(word, "--") {
			return word == "--single" || strings.HasPrefix(word, "--max-jobs")
		}
		return strings.HasPrefix(word, "-") && strings.Contains(word, "1") // one-letter options together
	})
}

func passesSessions(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		return strings.Contains(word, "${sessions}") || strings.Contains(word, "$sessions")
	})
}

// neverReached reports a clause that is never used, because an earlier clause
// that has a command matches everything that it matches.
func (r *reader) neverReached(i int) bool {
	clauses := r.file.Scheduler.Clauses
	c := &clauses[i]
	for j := range i {
		earlier := &clauses[j]
		if !earlier.MatchesAll() && earlier.Sets("command") &&
			covers(earlier.Channel, c.Channel) && covers(earlier.Host, c.Host) {
			r.warn("%s is never reached: %s on line %d has a command and matches everything that it matches",
				patternOf(c), patternOf(earlier), earlier.Line)
			return true
		}
	}
	return false
}

// wildcards are the bytes that have a special meaning in a pattern.
const wildcards = `*?[{\`

// covers reports whether every name that matches the narrow pattern certainly
// matches the wide one too.
func covers(wide, narrow string) bool {
	return wide == "*" || strings.EqualFold(wide, narrow) ||
		!strings.ContainsAny(narrow, wildcards) && pattern.Glob(wide, narrow)
}

// Command is a command with the values that the pattern of its clause gives.
type Command struct {
	Place
	Words    []string
	UID, GID int // -1: those of the scheduler
}

// Commands returns the commands of the clauses, each once. The pattern stands for a channel and
// host that it matches.
func (f *File) Commands() (all []Command) {
	clauses, seen := f.Scheduler.Clauses, make(map[string]bool)
	for i := range clauses {
		c := &clauses[i]
		at := slices.IndexFunc(c.Settings, func(s rule.Setting) bool { return s.Name == "command" })
		if at < 0 {
			continue
		}
		var matched []*rule.Clause
		for j := range clauses[:i+1] {
			if j == i || covers(clauses[j].Channel, c.Channel) && covers(clauses[j].Host, c.Host) {
				matched = append(matched, &clauses[j])
			}
		}
		p := f.Scheduler.Fold(matched)
		key := fmt.Sprintf("%q %d %d", p.Command, p.UID, p.GID)
		if seen[key] {
			continue
		}
		seen[key] = true
		place := Place{File: c.Settings[at].File, Line: c.Settings[at].Line}
		words := rule.Expand(p.Command, f.Scheduler.Env, c.Channel, c.Host, p.Sessions)
		all = append(all, Command{place, words, p.UID, p.GID})
	}
	return all
}

// CheckPrograms reports the commands whose program does not exist or cannot be
// executed. Programs without a path are in the folder ta of mailbin.
func (f *File) CheckPrograms(mailbin string) (faults []error) {
	checked := make(map[string]bool)
	for i := range f.Scheduler.Clauses {
		for _, s := range f.Scheduler.Clauses[i].Settings {
			program := programOf(strings.Fields(s.Value))
			if s.Name != "command" || program == "" || checked[program] {
				continue
			}
			checked[program] = true
			if err := checkProgram(program, mailbin, f.Scheduler.Env); err != nil {
				faults = append(faults, Error{Place{File: s.File, Line: s.Line}, err.Error()})
			}
		}
	}
	return faults
}

func checkProgram(program, mailbin string, env map[string]string) error {
	path, unknown := zenv.Expand(program, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if len(unknown) > 0 || strings.Contains(path, "$") {
		return nil // it depends on the channel or host
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(mailbin, "ta", path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("the program of the command cannot be found: %w", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("the program of the command, %q, is not executable", path)
	}
	return nil
}

// HasAgent reports whether a clause gives a command for a channel and host.
func (f *File) HasAgent(channel, host string) bool {
	return slices.ContainsFunc(rule.Match(f.Scheduler.Clauses, channel, host), func(c *rule.Clause) bool { return c.Sets("command") })
}

// CheckMoves reports what keeps mail from moving to other nodes, if the file names a
// table of nodes: no clause with a command for channel xfer.
func (f *File) CheckMoves() (problems []error) {
	p := &f.Params
	if p.XferNodes == "" {
		return nil
	}
	if !slices.ContainsFunc(f.Scheduler.Clauses, func(c rule.Clause) bool {
		return c.Sets("command") && pattern.Glob(c.Channel, ctlfile.TransferChannel)
	}) {
		problems = append(problems, fmt.Errorf("%s: PARAMxfer-nodes is set, but no clause gives a command for %s/*: no mail can be moved",
			f.Name, ctlfile.TransferChannel))
	}
	return problems
}

// clausePlace returns the position of a clause's pattern.
func clausePlace(c *rule.Clause) Place { return Place{c.File, c.Line, 1} }

func patternOf(c *rule.Clause) string { return c.Channel + "/" + c.Host }
