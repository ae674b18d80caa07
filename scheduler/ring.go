package scheduler

import (
	"slices"
	"strconv"
	"strings"

	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Rings: the threads that can share agents.

// rings has the threads that can share agents, and chooses what is fed next.
type rings struct {
	s *Scheduler

	yielding *ring             // the ring that has given a session back in this Step, or nil
	byKey    map[string]*ring  // by ring.key; without retired ones
	inOrder  store.List[*ring] // all rings in the order in which they were made
	lastID   uint64            // last ring.id that was given
	dirty    []*ring           // to be dispatched before the Step ends

	// dispatching is the ring that is being fed now, or nil. It takes account of what its threads want.
	dispatching *ring
}

// ring is a set of threads that can share agents: the same clauses matched
// them, they have the same channel, and their command expands to the same
// words. Which of them is fed next is decided by shares, flows and jobs.
//
// The threads of a channel for which no clause gives a command form a ring too, which is
// blocked. Nothing is fed there.
type ring struct {
	id      uint64             // in the order in which rings were made, from 1
	key     string             // ringKey
	inOrder store.Links[*ring] // in rings.inOrder
	channel *channel
	clauses []*rule.Clause // that matched
	clause  string         // clauseKey; rings with the same one share start failures
	params  *rule.Params
	command []string // expanded; none: it is blocked
	// withHost: the command contains $host, so job lines leave out the host.
	withHost bool
	dropped  bool // no longer in rings.inOrder
	retired  bool // no thread is left after a reload; the agents are closed

	members  store.List[*thread] // in the order in which they joined
	vertices int                 // of the members
	example  threadKey           // of a thread that is or was a member
	wants    int                 // sum of thread.wants

	fair *fair.Ring // what is due

	links     ringLinks
	processes limit.Limit[bounds] // agents, idle ones included; nobody waits
	sessions  limit.Limit[bounds] // nobody waits
	expected  int                 // sessions that the agents should still offer
	idle      []*agent            // the one that became idle last is at the end
	free      []*agent            // serving, with a free session

	channelRate *bucket // nil: none

	dirty   bool                // is in rings.dirty
	backoff timer               // when it may start an agent again
	place   limit.Place[bounds] // where it waits: at its channel, or for a process
}

// ringKey returns the key that threads have in common if they can share agents.
// It contains everything that an agent process depends on.
func ringKey(channel string, clauses []*rule.Clause, command []string, p *rule.Params) string {
	var b strings.Builder
	word := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	word(channel)
	for _, c := range clauses {
		word(c.Channel + "/" + c.Host)
	}
	b.WriteByte('|')
	for _, w := range command {
		word(w)
	}
	for _, n := range []int{p.UID, p.GID, p.Nice, p.Priority, max(1, p.Sessions), int(p.Marking)} {
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// obtainRing finds or makes the ring of a thread, and returns it with the
// thread's parameters. It is blocked if no clause gives a command.
func (rg *rings) obtainRing(key threadKey) (*ring, *rule.Params) {
	clauses := rule.Match(rg.s.rules.config.Clauses, key.channel, key.host)
	c := rg.s.limits.obtainChannel(key.channel)
	if r := c.latest; r != nil && slices.Equal(r.clauses, clauses) {
		return r, r.params
	}
	params := rg.s.rules.config.Fold(clauses)
	name, command := rg.ringName(key, clauses, params)
	r := rg.byKey[name]
	if r == nil {
		r = &ring{
			key:     name,
			channel: c,
			example: key,
			command: command,
		}
		r.place.Try = func() bool {
			rg.markDirty(r)
			return true
		}
		r.fair = rg.s.threads.fair.NewRing(params, func() { rg.markDirty(r) })
		r.members.Of = func(t *thread) *store.Links[*thread] { return &t.memberLinks }
		r.backoff.due = func() { rg.markDirty(r) }
		rg.lastID++
		r.id = rg.lastID
		rg.byKey[name] = r
		rg.inOrder.Append(r)
	}
	if r.params == nil || !slices.Equal(r.clauses, clauses) {
		r.clauses = clauses
		r.clause = clauseKey(clauses)
		r.params, r.fair.Params = params, params
		r.withHost = rule.NamesHost(params.Command)
		rg.s.limits.useRate(&r.channelRate, "channelrate "+c.name, params.Rates.Channel, params.Rates.Burst, func() { rg.s.limits.wake(&c.sessions) })
		rg.s.limits.setLinks(r)
	}
	if !slices.ContainsFunc(params.Command, rule.NamesHostIn) {
		c.latest = r
	}
	return r, r.params
}

// ringName returns the key of the ring of a thread, and its expanded command.
func (rg *rings) ringName(key threadKey, clauses []*rule.Clause, p *rule.Params) (name string, command []string) {
	if len(p.Command) == 0 {
		return key.channel, nil
	}
	command = rule.Expand(p.Command, rg.s.rules.config.Env, key.channel, key.host, p.Sessions)
	return ringKey(key.channel, clauses, command, p), command
}

// isFull reports whether the ring has as many sessions as it may. It tries again when one of them ends.
func (r *ring) isFull() bool {
	most := r.links.of(ofRing).most
	return most > 0 && r.sessions.Busy >= most
}

// isBlocked reports whether no clause gives a command for the threads of the ring.
func (r *ring) isBlocked() bool { return r.command == nil }

// clauseKey names the clause that gives the command.
func clauseKey(clauses []*rule.Clause) string {
	if c := rule.CommandClause(clauses); c != nil {
		return c.Channel + "/" + c.Host
	}
	return ""
}

func (rg *rings) dropRingWhenEmpty(r *ring) {
	if r.members.Len > 0 || r.processes.Busy > 0 || r.dropped {
		return
	}
	r.dropped = true
	rg.inOrder.Remove(r)
	r.place.Leave()
	rg.s.agenda.plan(&r.backoff, never)
	rg.s.limits.useRate(&r.channelRate, "", limit.Rate{}, 0, nil)
	if rg.byKey[r.key] == r {
		delete(rg.byKey, r.key)
	}
	if r.channel.latest == r {
		r.channel.latest = nil
	}
}
