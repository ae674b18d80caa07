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
func (d *dispatch) startFor(r *ring, t *thread) {
	links := d.ringLinks(r)
	if min(r.wants, limit.Chain(links[:]).Room()) <= r.expected || d.siteLink(t).Free() <= r.expected {
		return // those that are starting are enough
	}
	if links[1].Tokens <= r.channel.expected {
		d.waitAtChannel(r)
		return
	}
	failures := d.startFailures[r.clause]
	if failures != nil && d.mustDelayStart(failures, r) {
		return
	}
	if !d.mayAddProcess(r) {
		return
	}
	if d.forks.refuses(d.now, d.config.ForkRate) {
		d.waitForFork(r)
		return
	}
	d.forks.Busy++
	r.place.Served()
	d.start(r, t)
	if failures != nil {
		failures.trial = d.lastAgent
	}
	d.markDirty(r) // it may need another agent, after the other rings
}

// mayAddProcess reports whether the ring may have one more process. If all processes, or
// those of the channel, are too many, the ring waits. If those of the ring are, it is
// dispatched again when one of its agents is free or gone.
func (d *dispatch) mayAddProcess(r *ring) bool {
	links := d.processLinks(r)
	at, why := limit.Chain(links[:]).Refusal(1)
	switch at {
	case ofAllProcesses:
		d.processes.Join(&r.place, limit.Key{Most: links[at].Most}, &d.turns)
	case ofChannelProcesses:
		r.channel.processes.Join(&r.place, limit.Key{Most: links[at].Most}, &d.turns)
	default:
		if !r.place.WaitsIn(&d.forks.Queue) {
			r.place.Leave()
		}
	}
	return why == limit.None
}

// start starts an agent of the ring, for a thread that wants one.
func (d *dispatch) start(r *ring, t *thread) {
	d.lastAgent++
	a := &agent{
		id:         d.lastAgent,
		ring:       r,
		state:      starting,
		sessions:   max(1, r.params.Sessions),
		stateSince: d.now,
		progressAt: d.now,
	}
	d.agents[a.id] = a
	a.startedFor = t
	t.agents = append(t.agents, a)
	d.processes.Busy++
	r.processes.Busy++
	r.channel.processes.Busy++
	d.expectSessions(a, a.sessions)
	d.counts.Agents++
	d.counts.AgentsStarted++
	a.deadlines.due = func(s *Scheduler) { s.checkDeadline(a) }
	d.plan(&a.deadlines, d.now.after(firstHungryTimeout))
	d.do(Start{
		Agent: a.id, Channel: r.channel.name, Host: t.key.host,
		Command: r.command, UID: r.params.UID, GID: r.params.GID,
		Nice: r.params.Nice, Priority: r.params.Priority, PrioritySet: r.params.PrioritySet,
	})
}

func (d *dispatch) agentStarted(e AgentStarted) {
	if a := d.agents[e.Agent]; a != nil {
		a.pid = e.PID
	}
}

func (d *dispatch) agentFailed(e AgentFailed) {
	a := d.agents[e.Agent]
	if a == nil {
		return
	}
	d.logAgent(Error, a, "cannot be started: "+e.Reason)
	d.countStartFailure(a.ring, e.Reason)
	d.dropAgent(a)
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
func (d *dispatch) waitForFork(r *ring) {
	if !r.place.Waits() {
		d.forks.Join(&r.place, limit.Key{}, &d.turns)
	}
	d.plan(&d.forks.next, (d.forks.second+1)*instant(time.Second))
}

// wakeForks lets the rings try again that may start an agent in this second.
func (s *Scheduler) wakeForks() {
	if !s.forks.refuses(s.now, s.config.ForkRate) {
		s.forks.Wake(func(*ring) int { return s.forks.Link(s.config.ForkRate).Free() }, s.wakeRing)
	}
	if s.forks.Len() > 0 {
		s.plan(&s.forks.next, (s.forks.second+1)*instant(time.Second))
	}
}

// startFailures is the state of a clause whose agents cannot be started or die
// before their first #hungry. Its rings wait for the time until. Then they try
// one agent, and the others wait for its result.
type startFailures struct {
	failures int
	until    instant
	trial    AgentID // last agent started since; 0: none
	why      string  // the last failure, for people
}

// The delay after a failed start: one second, doubled each time, up to a
// maximum.
const (
	firstBackoff   = time.Second
	longestBackoff = 5 * time.Minute
)

// countStartFailure delays the starts of the ring's clause; why is for people.
func (d *dispatch) countStartFailure(r *ring, why string) {
	t := d.startFailures[r.clause]
	if t == nil {
		t = new(startFailures)
		d.startFailures[r.clause] = t
	}
	t.why = why
	if t.until <= d.now { // otherwise it was started before the last one failed
		t.failures++
		t.until = d.now.after(min(firstBackoff<<min(t.failures-1, 20), longestBackoff))
	}
	d.plan(&r.backoff, t.until)
}

// mustDelayStart reports whether the ring may not start an agent because its
// clause has failed: until its time, or while another agent is being tried.
func (d *dispatch) mustDelayStart(t *startFailures, r *ring) bool {
	if t.until > d.now {
		d.plan(&r.backoff, t.until)
		return true
	}
	if a := d.agents[t.trial]; a != nil && a.state == starting {
		// By then, the agent has said #hungry and clearStartFailures has woken the
		// ring, or the agent is gone.
		d.plan(&r.backoff, a.stateSince.after(firstHungryTimeout+killTimeout))
		return true
	}
	return r.expected > 0
}

// clearStartFailures forgets the failures of a clause after a first #hungry.
// The next Tick dispatches the rings that wait for that; if the command has
// $host, there is one for each host.
func (d *dispatch) clearStartFailures(clause string) {
	if d.startFailures[clause] == nil {
		return
	}
	delete(d.startFailures, clause)
	for r := d.ringOrder.Head; r != nil; r = d.ringOrder.Next(r) {
		if r.clause == clause && r.backoff.isPlanned() {
			d.plan(&r.backoff, d.now)
		}
	}
}
