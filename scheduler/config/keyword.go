package config

// The table of keywords: every name with its kind, bounds and default. param.go has the same
// for PARAMs.

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// row is one keyword of a clause, or one PARAM. It sets the field of rule.Params, or of
// Params, that has its name without dashes.
type row struct {
	name    string // lower case
	field   string // the field, if it has another name
	aliases []string
	kind    kind
	preset  string // the default, as a file would set it; empty: none
	zero    string // what 0 stands for, where that is not "none"
	meaning string // begins the entry in scheduler.cf(5)
	// atStart says that the scheduler reads a PARAM only when it starts.
	atStart bool
	// then is called after the field is set; nil for nearly all.
	then func(*values)

	index int // of the field
}

// bind finds the field of each row.
func bind[T any](table []row) []row {
	fields := reflect.TypeFor[T]()
	for i := range table {
		r := &table[i]
		name := cmp.Or(r.field, strings.ReplaceAll(r.name, "-", ""))
		field, found := fields.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !found {
			panic("config: no field for " + r.name)
		}
		r.index = field.Index[0]
	}
	return table
}

// set sets the field of a *rule.Params or a *Params.
func (r *row) set(to, value any) {
	reflect.ValueOf(to).Elem().Field(r.index).Set(reflect.ValueOf(value))
	if r.then != nil {
		r.then(to.(*values))
	}
}

// value returns the value of the field.
func (r *row) value(of any) any { return reflect.ValueOf(of).Elem().Field(r.index).Interface() }

// find returns the row with this name or alias, ignoring case, or nil.
func find(table []row, name string) *row {
	for i := range table {
		same := func(known string) bool { return strings.EqualFold(known, name) }
		if same(table[i].name) || slices.ContainsFunc(table[i].aliases, same) {
			return &table[i]
		}
	}
	return nil
}

// values are the parameters that a clause sets.
type values = rule.Params

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// keywords are all keywords of a clause, by subject. Names, kinds, bounds and defaults are
// defined nowhere else.
var keywords = bind[values]([]row{
	// When to try.
	{name: "interval", preset: "1m", kind: span(time.Second, year),
		meaning: "unit of the waits between attempts"},
	{name: "retries", preset: "1 1 2 3 5 8 13 21 34", kind: factors(1000000, 100),
		meaning: "waits after failed attempts, in units of interval"},
	{name: "jitter", preset: "10", kind: count(0, 100),
		meaning: "percentage by which waits vary at random"},
	{name: "backoff", preset: "retries", kind: choice[rule.Backoff]("retries", "age"),
		meaning: "how waits are calculated"},
	{name: "minbackoff", preset: "5m", kind: span(time.Second, year),
		meaning: "shortest wait with backoff=age"},
	{name: "maxbackoff", preset: "4000s", kind: span(time.Second, year),
		meaning: "longest wait with backoff=age"},
	{name: "expiry", preset: "3d", zero: "never", kind: span(0, units.MaxInterval),
		meaning: "age at which a recipient that was tried expires"},
	{name: "expiry2", preset: "1d", zero: "a day", kind: zeroIs(span(0, units.MaxInterval), day),
		meaning: "time after expiry at which a recipient that was never tried expires"},
	{name: "queueonly", preset: "no", kind: flag,
		meaning: "deliver only on request"},
	{name: "wakeuprestartonly", preset: "no", kind: flag,
		meaning: "new mail does not start another agent for its thread"},
	{name: "reporttimes", kind: times(time.Second, year, 4),
		meaning: "ages at which senders who asked for it (NOTIFY=DELAY) are notified of a delay"},

	// What to start.
	{name: "command", kind: words,
		meaning: "the agent and its arguments"},
	{name: "user", field: "UID", preset: "root", kind: account("user"),
		meaning: "user the agent runs as"},
	{name: "group", field: "GID", preset: "daemon", kind: account("group"),
		meaning: "group the agent runs as"},
	{name: "nice", preset: "0", kind: count(-40, 39), then: onlyOne(false),
		meaning: "nice value of the agent, relative to the scheduler's"},
	{name: "priority", kind: count(-20, 19), then: onlyOne(true),
		meaning: "priority of the agent, regardless of the scheduler's"},
	{name: "marking", preset: "agent", kind: choice[ta.Marking]("agent", "scheduler"),
		meaning: "who writes results into the control file"},
	{name: "agent-timeout", preset: "2h", zero: "no limit", kind: span(0, year),
		meaning: "how long an agent may have open job lines without progress on any"},
	{name: "idlemax", preset: "0", zero: "three times interval", kind: span(0, year),
		meaning: "how long an agent may be idle"},

	// How much at a time.
	{name: "maxta", aliases: []string{"maxtransport", "maxtransports"}, preset: "0", zero: "what the descriptors allow",
		kind:    atLeast(0, 1000000),
		meaning: "maximum number of agents in total"},
	{name: "maxchannel", aliases: []string{"maxchannels"}, preset: "0", zero: "maxta",
		kind:    atLeast(0, 1000000),
		meaning: "maximum number of busy sessions of the channel"},
	{name: "maxring", aliases: []string{"maxrings"}, preset: "0", zero: "maxta", kind: atLeast(0, 1000000),
		meaning: "maximum number of busy sessions of the ring"},
	{name: "maxthr", preset: "1", kind: atLeast(1, 1000000),
		meaning: "maximum number of busy sessions of the thread"},
	{name: "overfeed", preset: "150", kind: atLeast(0, 100000),
		meaning: "job lines an agent is given in addition to the one it works on"},
	{name: "sessions", preset: "1", kind: count(1, 1000),
		meaning: "job lines an agent works on at once"},

	// Rates.
	{name: "rate", kind: rate,
		meaning: "maximum rate at which recipients of the thread are fed"},
	{name: "rateburst", preset: "1", kind: count(1, 1000000),
		meaning: "recipients that may be fed at once after a pause, under each rate"},
	{name: "channelrate", kind: rate,
		meaning: "maximum rate at which recipients of the channel are fed"},
	{name: "sitemax", preset: "0", zero: "no limit", kind: count(0, 1000000),
		meaning: "maximum number of busy sessions of the site"},
	{name: "siterate", kind: rate,
		meaning: "maximum rate at which recipients of the site are fed"},

	// Limits that several nodes share.
	{name: "clustermax", preset: "0", zero: "no limit", kind: count(0, 1000000),
		meaning: "maximum number of busy sessions of the thread on all nodes together"},
	{name: "clustersitemax", preset: "0", zero: "no limit", kind: count(0, 1000000),
		meaning: "maximum number of busy sessions of the site on all nodes together"},
	{name: "clusterrate", kind: rate,
		meaning: "maximum rate at which recipients of the thread are fed, on all nodes together"},

	// Windows.
	{name: "initialconcurrency", preset: "0", zero: "always maxthr", kind: count(0, 10000),
		meaning: "initial window of a thread"},
	{name: "positivefeedback", preset: "1/N", kind: feedback,
		meaning: "how far a success widens the window"},
	{name: "negativefeedback", preset: "1/N", kind: feedback,
		meaning: "how far a failure of the destination narrows the window"},
	{name: "cohortlimit", preset: "1", kind: ratio(0.01, 1000),
		meaning: "number of consecutive failed windows after which a destination is dead"},
	{name: "feedbacklog", preset: "no", kind: flag,
		meaning: "log how windows change"},

	// What is delivered next.
	{name: "ageorder", preset: "no", kind: flag,
		meaning: "oldest message first"},
	{name: "slotcost", preset: "5", zero: "nothing overtakes", kind: count(0, 1000),
		meaning: "number of picks of a big message that earn one slot for a smaller message"},
	{name: "slotdiscount", preset: "50", kind: count(0, 100),
		meaning: "percentage discount on the price of overtaking"},
	{name: "slotloan", preset: "3", kind: count(0, 1000),
		meaning: "slots lent towards the price of overtaking"},
	{name: "minslots", preset: "3", kind: count(0, 1000),
		meaning: "slots a message must be able to earn to be overtaken at all"},
	{name: "msgsessions", preset: "20", kind: count(1, 1000000),
		meaning: "number of sessions that any message may have"},
	{name: "msgscale", preset: "10", kind: count(0, 1000000),
		meaning: "number of sessions that a message may have for each free session"},
	{name: "share", preset: "senderdomain", kind: oneOf("sender", "senderdomain", "none"),
		meaning: "who takes turns"},
	{name: "quantum", preset: "50", kind: count(1, 1000000),
		meaning: "picks a thread may have in a round while others wait"},
})
