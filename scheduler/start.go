package scheduler

import "time"

// Starting agents: when a ring starts one, the limit on starts per second (-R),
// and the delay after failed starts.

// startFor starts an agent if the threads of the ring want more sessions than
// the agents that are starting will bring, and if the limits on processes allow
// it. At the first limit reached, the ring is queued.
func (as *agents) startFor(r *ring, t *thread) {
	ls := &as.s.limits
	useful := min(r.wants, ls.roomOf(r), ls.tokensOf(r.channelRate))
	if l := t.siteLink(); l != nil {
		useful = min(useful, ls.now(l).Free())
	}
	if useful <= r.expected {
		return // those that are starting are enough
	}
	if f := as.startFailures[r.clause]; f != nil && f.until > as.s.agenda.now {
		as.s.agenda.plan(&r.backoff, f.until)
		return
	} else if f != nil && r.expected > 0 {
		return
	}
	if l, _ := ls.refusal(r.links.onProcesses(), 1); l != nil {
		ls.wait(&r.place, l)
		return
	}
	ls.take(ls.forkRate, 1)
	r.place.Served()
	as.start(r, t)
	as.s.rings.markDirty(r) // it may need another agent, after the other rings
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
	countBusy(r.links.onProcesses(), 1)
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

func (as *agents) agentFailed(e AgentFailed) {
	a := as.byID[e.Agent]
	if a == nil {
		return
	}
	as.s.agenda.logAgent(Error, a, "cannot be started: "+e.Reason)
	as.countStartFailure(a.ring, e.Reason)
	as.dropAgent(a)
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
