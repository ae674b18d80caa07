// Package rule has what the configuration says about mail: the clauses and reply rules that match
// a destination, the parameters that result, and the arithmetic that depends on parameters alone.
//
//	Params           the keywords of a clause, and their values
//	Clause           which settings apply to a channel and host: Match, then Fold
//	Expand           the command of a clause
//	ReplyRule        what happens when a server gives a certain reply
//	RetryStep        how long to wait after a failure
//	ShareName        whose turn it is, by sender
//
// Nothing here has a state: a reload makes a new Config.
package rule

import (
	"slices"
	"time"

	"zsched/internal/pattern"
)

// Clauses of scheduler.cf, and which of them match a thread.

// Config is the configuration of the core, at the start and after each reload.
// The core does not change it.
type Config struct {
	// Clauses in the order of the file.
	Clauses []Clause
	// Defaults are the parameters before any clause is applied.
	Defaults Params
	// Env has the values of ${NAME} and $NAME in commands. It may be nil.
	Env map[string]string
	// MaxAgents is what a maxta of 0 means: the number of descriptors that the
	// process may have, less a reserve. 0 means no limit.
	MaxAgents int
	// ForkRate is how many agents may be started within one second (option
	// -R). 0 means no limit.
	ForkRate int
	// ReportInterval is how long failures of a message are collected for one
	// notice while it has open recipients. 0: until the message is done.
	ReportInterval time.Duration
	// Frozen: no agents are started (option -F).
	Frozen bool
	// Only restricts feeding to some threads (option -p). The zero value
	// selects all.
	Only Selection
	// Cluster: there are limits of the cluster (PARAMcluster).
	Cluster bool
	// Events asks for the actions Attempt, Touched and Condition.
	Events bool
	// Replies are the reply rules, in their order.
	Replies []ReplyRule
	// Shares has the weights of sources, senders and domains, in lower case, for taking
	// turns. The weight of all others is 1.
	Shares map[string]int
}

// Selection selects threads by channel and host. Each may be "*" or empty,
// which selects all.
type Selection struct {
	Channel, Host string
}

// Selects reports whether a thread is selected.
func (sel Selection) Selects(channel, host string) bool {
	return (sel.Channel == "" || sel.Channel == "*" || sel.Channel == channel) &&
		(sel.Host == "" || sel.Host == "*" || sel.Host == host)
}

// Clause is one clause of scheduler.cf: a pattern and what it sets.
type Clause struct {
	// Channel and Host are shell-style patterns, matched without regard to
	// case. Host is "*" if the file has no slash.
	Channel, Host string
	// Settings in the order of the file. A clause that is empty in the file has
	// the settings of the next one that is not.
	Settings []Setting
	File     string
	Line     int
}

// NobodyGID is the group of nobody, with which agents run programs for strangers.
const NobodyGID = 65534

// Setting is one keyword of a clause. Name and Value are kept as written, for
// queries and for comparison after a reload.
type Setting struct {
	Name, Value string
	File        string
	Line        int
	// Apply sets the value, which was checked when the file was read.
	Apply func(*Params)
}

// Match returns the clauses that match a channel and host, in order. As the
// manual says, patterns are tried in sequence and the settings of each matching
// clause are picked up. The first matching clause with a command ends the
// search; only */*, which gives defaults, never does.
func Match(clauses []Clause, channel, host string) []*Clause {
	var matched []*Clause
	for i := range clauses {
		c := &clauses[i]
		if !pattern.Glob(c.Channel, channel) || !pattern.Glob(c.Host, host) {
			continue
		}
		matched = append(matched, c)
		if c.Sets("command") && !c.MatchesAll() {
			break
		}
	}
	return matched
}

// MatchesAll reports whether the clause is for */*, which sets defaults for the
// clauses after it.
func (c *Clause) MatchesAll() bool { return c.Channel == "*" && c.Host == "*" }

// Sets reports whether the clause sets one of the keywords.
func (c *Clause) Sets(names ...string) bool {
	return slices.ContainsFunc(c.Settings, func(s Setting) bool { return slices.Contains(names, s.Name) })
}

// Fold returns the parameters that result from the matched clauses. Without a cluster, none of
// its limits is among them.
func (c *Config) Fold(matched []*Clause) *Params {
	p := c.Defaults
	for _, one := range matched {
		for i := range one.Settings {
			one.Settings[i].Apply(&p)
		}
	}
	if !c.Cluster {
		p.Cluster = Cluster{}
	}
	return &p
}

// CommandClause returns the clause that gives the command; nil: none does.
func CommandClause(clauses []*Clause) *Clause {
	for _, c := range slices.Backward(clauses) {
		if c.Sets("command") {
			return c
		}
	}
	return nil
}

// InForce returns the settings that result from matched clauses. nice and
// priority set the same parameter.
func InForce(clauses []*Clause) []Setting {
	var settings []Setting
	for _, c := range clauses {
		for _, set := range c.Settings {
			i := slices.IndexFunc(settings, func(before Setting) bool { return sameField(before.Name, set.Name) })
			if i < 0 {
				settings = append(settings, set)
			} else {
				settings[i] = set
			}
		}
	}
	return settings
}

func sameField(a, b string) bool {
	isPriority := func(name string) bool { return name == "nice" || name == "priority" }
	return a == b || isPriority(a) && isPriority(b)
}
