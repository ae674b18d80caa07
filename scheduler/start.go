package scheduler

import "time"

// Starting agents: when a ring starts one, the limit on starts per second (-R),
// and the delay after failed starts.

// startFor starts an agent if the threads of the ring want more sessions than
// the agents that are starting will bring, and if the limits on processes allow
// it. At the first limit reached, the ring is queued.
func (d *dispatch) startFor(r *ring, t *thread) {
	need := r.wants
	if limit := d.maxRing(r); limit > 0 {
		need = min(need, limit-r.busy)
	}
	if limit := d.maxChannel(r); limit > 0 {
		need = min(need, limit-r.channel.busy)
	}
	if need <= r.expected {
		return
	}
	if x := t.shaping; x != nil && x.site != nil && d.freeAtSite(t) <= r.expected {
		return // those that are starting are enough for its site
	}
	if b := r.channelRate; b != nil && b.tokens(d.clock) <= r.channel.expected {
		d.waitForChannel(r)
		return
	}
	failures := d.startFailures[r.clause]
	if failures != nil && d.mustDelayStart(failures, r) {
		return
	}
	if !d.mayAddProcess(r) {
		return
	}
	if !d.forks.allow(d.now, d.config.ForkRate) {
		d.waitForFork(r)
		return
	}
	r.dequeue()
	r.waitingSince = 0
	d.start(r, t)
	if failures != nil {
		failures.trial = d.lastAgent
	}
	d.markDirty(r) // it may need another agent, after the other rings
}

// mayAddProcess reports whether the ring may have one more process. If not, the
// ring waits in a limit queue.
func (d *dispatch) mayAddProcess(r *ring) bool {
	c := r.channel
	if limit := d.maxTA(r); !below(len(d.agents), limit) {
		d.waitAt(&d.processQueues, limit, r)
		return false
	}
	if limit := d.maxChannel(r); !below(c.procs, limit) {
		d.waitAt(&c.processQueues, limit, r)
		return false
	}
	if r.limitQueue != d.forks.queue {
		r.dequeue()
	}
	// All agents of the ring are busy or closing. The ring is dispatched again
	// when one of them is free or gone.
	return below(r.procs, d.maxRing(r))
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
	r.procs++
	r.channel.procs++
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
	d.noteAgent(Error, a, "cannot be started: "+e.Reason)
	d.countStartFailure(a.ring, e.Reason)
	d.dropAgent(a)
}

// forkRate limits starts to a number per second (option -R).
type forkRate struct {
	second instant // what count is for, in seconds
	count  int
	queue  *limitQueue
	next   timer // when a ring in queue may try again
}

// allow counts one start if it is allowed now.
func (f *forkRate) allow(now instant, limit int) bool {
	if second := now / instant(time.Second); second != f.second {
		f.second, f.count = second, 0
	}
	if !below(f.count, limit) {
		return false
	}
	f.count++
	return true
}

// waitForFork puts a ring among those that wait for the next second.
func (d *dispatch) waitForFork(r *ring) {
	if r.limitQueue == nil {
		d.enqueueRing(d.forks.queue, r)
	}
	d.plan(&d.forks.next, (d.forks.second+1)*instant(time.Second))
}

// wakeForks lets the rings try again that may start an agent in this second.
func (s *Scheduler) wakeForks() {
	for n := 0; below(n, s.config.ForkRate) && s.forks.queue.head != nil; n++ {
		r := s.forks.queue.head
		r.dequeue()
		s.markDirty(r)
	}
	if s.forks.queue.head != nil {
		s.plan(&s.forks.next, s.now.after(time.Second))
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
	for r := d.ringOrder.head; r != nil; r = d.ringOrder.next(r) {
		if r.clause == clause && r.backoff.isPlanned() {
			d.plan(&r.backoff, d.now)
		}
	}
}
