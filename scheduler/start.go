package scheduler

import (
	"time"

	"zsched/scheduler/limit"
)

// Starting agents: when a ring starts one, the limit on starts per second (-R),
// and the delay after failed starts.

// startFor starts an agent if the threads of the ring want more sessions than
// the agents that are starting will bring, and if the limits on processes allow
// it. At the first limit reached, the ring is queued.
func (as *agents) startFor(r *ring, t *thread) {
	links := as.s.limits.ringLinks(r)
	if min(r.wants, limit.Chain(links[:]).Room()) <= r.expected || as.s.limits.siteLink(t).Free() <= r.expected {
		return // those that are starting are enough
	}
	if links[1].Tokens <= r.channel.expected {
		as.s.limits.waitAtChannel(r)
		return
	}
	if f := as.startFailures[r.clause]; f != nil && f.until > as.s.agenda.now {
		as.s.agenda.plan(&r.backoff, f.until)
		return
	} else if f != nil && r.expected > 0 {
		return
	}
	if !as.mayAddProcess(r) {
		return
	}
	if as.forks.refuses(as.s.agenda.now, as.s.rules.config.ForkRate) {
		as.waitForFork(r)
		return
	}
	as.forks.Busy++
	r.place.Served()
	as.start(r, t)
	as.s.rings.markDirty(r) // it may need another agent, after the other rings
}

// mayAddProcess reports whether the ring may have one more process. If all processes, or
// those of the channel, are too many, the ring waits. If those of the ring are, it is
// dispatched again when one of its agents is free or gone.
func (as *agents) mayAddProcess(r *ring) bool {
	links := as.s.limits.processLinks(r)
	at, why := limit.Chain(links[:]).Refusal(1)
	switch at {
	case ofAllProcesses:
		as.s.limits.processes.Join(&r.place, limit.Key{Most: links[at].Most}, &as.s.limits.turns)
	case ofChannelProcesses:
		r.channel.processes.Join(&r.place, limit.Key{Most: links[at].Most}, &as.s.limits.turns)
	default:
		if !r.place.WaitsIn(&as.forks.Queue) {
			r.place.Leave()
		}
	}
	return why == limit.None
}

// start starts an agent of the ring, for a thread that wants one.
func (as *agents) start(r *ring, t *thread) {
	as.lastID++
	a := &agent{
		id:         as.lastID,
		ring:       r,
		state:      starting,
		sessions:   max(1, r.params.Sessions),
		stateSince: as.s.agenda.now,
		progressAt: as.s.agenda.now,
	}
	as.byID[a.id] = a
	a.startedFor = t
	t.agents = append(t.agents, a)
	as.s.limits.processes.Busy++
	r.processes.Busy++
	r.channel.processes.Busy++
	as.expectSessions(a, a.sessions)
	as.s.mail.counts.Agents++
	as.s.mail.counts.AgentsStarted++
	a.deadlines.due = func() { as.checkDeadline(a) }
	as.s.agenda.plan(&a.deadlines, as.s.agenda.now.after(firstHungryTimeout))
	as.s.agenda.do(Start{
		Agent: a.id, Channel: r.channel.name, Host: t.key.host,
		Command: r.command, UID: r.params.UID, GID: r.params.GID,
		Nice: r.params.Nice, Priority: r.params.Priority, PrioritySet: r.params.PrioritySet,
	})
}

func (as *agents) agentStarted(e AgentStarted) {
	if a := as.byID[e.Agent]; a != nil {
		a.pid = e.PID
	}
}

func (as *agents) agentFailed(e AgentFailed) {
	a := as.byID[e.Agent]
	if a == nil {
		return
	}
	as.s.agenda.logAgent(Error, a, "cannot be started: "+e.Reason)
	as.countStartFailure(a.ring, e.Reason)
	as.dropAgent(a)
}

// forkRate limits starts to a number per second (option -R): those of this second are busy
// until it ends.
type forkRate struct {
	limit.Limit[*ring]
	second instant // in seconds
	next   timer   // when a ring that waits may try again
}

// refuses reports whether no agent may be started now.
func (f *forkRate) refuses(now instant, most int) bool {
	if second := now / instant(time.Second); second != f.second {
		f.second, f.Busy = second, 0
	}
	return f.Link(most).Refusal(1) != limit.None
}

// waitForFork makes a ring wait for the next second.
func (as *agents) waitForFork(r *ring) {
	if !r.place.Waits() {
		as.forks.Join(&r.place, limit.Key{}, &as.s.limits.turns)
	}
	as.s.agenda.plan(&as.forks.next, (as.forks.second+1)*instant(time.Second))
}

// wakeForks lets the rings try again that may start an agent in this second.
func (as *agents) wakeForks() {
	if !as.forks.refuses(as.s.agenda.now, as.s.rules.config.ForkRate) {
		as.forks.Wake(func(*ring) int { return as.forks.Link(as.s.rules.config.ForkRate).Free() }, as.s.limits.wakeRing)
	}
	if as.forks.Len() > 0 {
		as.s.agenda.plan(&as.forks.next, (as.forks.second+1)*instant(time.Second))
	}
}

// startFailures is the state of a clause whose agents cannot be started or die
// before their first #hungry. Its rings wait for the time until. Then each starts
// one agent at a time, until one has said #hungry.
type startFailures struct {
	failures int
	until    instant
	why      string // the last failure, for people
}

// The delay after a failed start: one second, doubled each time, up to a
// maximum.
const (
	firstBackoff   = time.Second
	longestBackoff = 5 * time.Minute
)

// countStartFailure delays the starts of the ring's clause; why is for people.
func (as *agents) countStartFailure(r *ring, why string) {
	t := as.startFailures[r.clause]
	if t == nil {
		t = new(startFailures)
		as.startFailures[r.clause] = t
	}
	t.why = why
	if t.until <= as.s.agenda.now { // otherwise it was started before the last one failed
		t.failures++
		t.until = as.s.agenda.now.after(min(firstBackoff<<min(t.failures-1, 20), longestBackoff))
	}
	as.s.agenda.plan(&r.backoff, t.until)
}
