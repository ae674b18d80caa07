package scheduler

import (
	"slices"
	"strconv"
	"time"
)

// Times an agent is given. scheduler(8), "Agents".
const (
	firstHungryTimeout   = 5 * time.Minute  // from the start to the first #hungry
	closeTimeout         = 30 * time.Second // from the empty line to SIGTERM
	killTimeout          = 10 * time.Second // from SIGTERM to SIGKILL
	defaultIdleIntervals = 3                // idlemax, when it is not set
)

// agent is a process that delivers, or is about to.
//
//	            #hungry          nothing to do       #hungry
//	starting ───────────► serving ───────────► asked ───────► parked
//	    │                   ▲  │ ▲                              │
//	    │                   │  └─┘ job lines                    │
//	    │                   └───────────────────────────────────┘
//	    └──► leaving ◄── idle too long, in the way, silent, stopping
//
// It is dropped when the process is gone.
type agent struct {
	id       AgentID
	ring     *ring
	pid      int
	state    agentState
	sessions int // job lines it may have open
	// firsts counts the #hungry lines that answered nothing: how many of its
	// sessions it has offered.
	offered int
	// credit is how many sessions it could be given a line for.
	// Invariant: credit plus its busy sessions is firsts.
	freeSessions int
	// coming is how many sessions more it is expected to offer: what it was
	// told to, until it has ended a job line without having done so.
	expected     int
	lines        []line // given and not answered by #hungry, in order
	hasEndedLine bool   // it has ended a job line
	thread       *thread
	// kills counts the signals sent: SIGTERM, then SIGKILL.
	signals int

	startedFor *thread // until its first #hungry, or the thread is gone

	stateSince    instant // of the state
	heardAt       instant
	hungryAt      instant // last #hungry; 0: none yet
	fedAt         instant // last job line; 0: none yet
	deadlineIndex int32
	links[*agent] // in Scheduler.parked
}

type agentState uint8

const (
	starting agentState = iota + 1
	serving
	idleSent // #idle was sent
	idle
	closing // given no more; asked to leave once it has no job line
)

// line is a job line that an agent was given.
type line struct {
	id          MessageID
	vertex      *vertex // nil once the line has ended
	thread      *thread
	suspensions uint32 // of the thread, when the line was given
	// awaited counts the recipients that no report has named yet.
	unreported int
	// What its reports said of the destination.
	destinationFailed bool
	retryAt           instant
}

func (l *line) ended() bool { return l.vertex == nil }

// busy is how many sessions of the agent are in use. Lines that wait in the
// pipe of an agent with one session share it.
func (a *agent) busy() int {
	if a.sessions == 1 {
		return min(1, len(a.lines))
	}
	return len(a.lines)
}

// start launches an agent of the ring, for a thread that wants one.
func (d *dispatch) start(r *ring, t *thread) {
	d.lastAgent++
	a := &agent{
		id:         d.lastAgent,
		ring:       r,
		state:      starting,
		sessions:   max(1, r.params.Sessions),
		stateSince: d.now,
		heardAt:    d.now,
	}
	d.agents[a.id] = a
	a.startedFor = t
	t.agents = append(t.agents, a)
	r.procs++
	r.channel.procs++
	d.expectSessions(a, a.sessions)
	d.counts.Agents++
	d.counts.AgentsStarted++
	d.deadlines.put(d.now.after(firstHungryTimeout), a)
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
	d.countStartFailure(a.ring)
	d.dropAgent(a)
}

// settleIn ends the agent's being started for a thread.
func (a *agent) clearStartedFor() {
	if a.startedFor != nil {
		a.startedFor.removeAgent(a)
		a.startedFor = nil
	}
}

// ready is the first #hungry.
func (d *dispatch) agentReady(a *agent) {
	a.clearStartedFor()
	d.expectSessions(a, a.sessions-1)
	d.clearStartFailures(a.ring.clause)
	a.state, a.stateSince = serving, d.now
	a.offered, a.freeSessions = 1, 1
	a.ring.free = append(a.ring.free, a)
	d.planDeadline(a)
	d.markDirty(a.ring)
}

// expect notes how many sessions more the agent should offer.
func (d *dispatch) expectSessions(a *agent, n int) {
	if n < a.expected {
		d.markDirty(a.ring)
	}
	a.ring.expected += n - a.expected
	a.expected = n
}

// ended notes that the agent has ended a job line. It has shown that it works,
// and that it has as many sessions as it has offered.
func (d *dispatch) lineEnded(a *agent) {
	a.hasEndedLine = true
	d.expectSessions(a, 0)
}

// ask sends #idle to an agent that has nothing to do.
func (d *dispatch) sendIdle(a *agent) {
	a.state, a.stateSince = idleSent, d.now
	d.do(Idle{a.id})
	d.planDeadline(a)
}

// park takes an agent that answered #idle out of work.
func (d *dispatch) agentIdle(a *agent) {
	a.state, a.stateSince = idle, d.now
	a.ring.idle = append(a.ring.idle, a)
	d.idleAgents.append(a)
	d.counts.AgentsIdle++
	d.planDeadline(a)
	d.markDirty(a.ring)
}

func (d *dispatch) takeIdle(a *agent) {
	r := a.ring
	r.idle = slices.Delete(r.idle, slices.Index(r.idle, a), slices.Index(r.idle, a)+1)
	d.idleAgents.remove(a)
	d.counts.AgentsIdle--
	a.state, a.stateSince = serving, d.now
	d.planDeadline(a)
}

// dismiss has an agent leave, when it has answered its job lines; its place
// counts as taken until the process is gone.
func (d *dispatch) closeAgent(a *agent) {
	switch a.state {
	case closing:
		return
	case idle:
		d.takeIdle(a)
	}
	d.setClosing(a)
	if len(a.lines) == 0 {
		d.sendClose(a)
		return
	}
	d.planDeadline(a)
}

// letGo asks an agent to leave that has answered all its job lines. Before, the
// end of file might cut short one that reads ahead.
func (d *dispatch) sendClose(a *agent) {
	d.do(Close{a.id})
	if a.signals == 0 {
		a.stateSince = d.now // its grace begins
	}
	d.planDeadline(a)
}

// atWork reports whether the agent has a message in hand.
func (a *agent) hasOpenLine() bool {
	return slices.ContainsFunc(a.lines, func(l line) bool { return !l.ended() })
}

func (r *ring) removeFree(a *agent) {
	if i := slices.Index(r.free, a); i >= 0 {
		r.free = slices.Delete(r.free, i, i+1)
	}
}

// depart turns an agent into one that is given no more job lines.
func (d *dispatch) setClosing(a *agent) {
	a.ring.removeFree(a)
	d.expectSessions(a, 0)
	a.state, a.stateSince = closing, d.now
	d.counts.AgentsClosing++
	a.ring.channel.closing++
}

// agentExited takes a dead agent's job lines back. The line it was on, if that
// is still open, pays with one attempt; before any of its recipients is fed
// again the files are read, because the agent may have marked what it never
// reported.
func (dv *delivery) agentExited(e AgentExited) {
	a := dv.agents[e.Agent]
	if a == nil {
		return
	}
	expected := a.state == closing && len(a.lines) == 0
	if !expected {
		dv.noteAgent(Warning, a, "is gone: "+e.Status)
	}
	if a.state == starting {
		dv.countStartFailure(a.ring)
	}
	// With one session it was not on a line that stands behind another in its
	// pipe, even when all of that other has been reported.
	culprit := a.sessions > 1 || len(a.lines) > 0 && !a.lines[0].ended()
	for i := range a.lines {
		l := &a.lines[i]
		if l.ended() {
			continue
		}
		why := untouched
		if culprit && !dv.stop.begun {
			why = agentCrashed
		}
		culprit = false
		dv.revokeLine(l, why, a.pid)
	}
	dv.dropAgent(a)
}

// dropAgent gives back the places of an agent that is no more.
func (d *dispatch) dropAgent(a *agent) {
	r := a.ring
	switch a.state {
	case idle:
		d.takeIdle(a)
	case closing:
		d.counts.AgentsClosing--
		r.channel.closing--
	}
	a.clearStartedFor()
	d.expectSessions(a, 0)
	r.removeFree(a)
	a.state = 0 // so that nothing gives it work again
	if a.thread != nil && a.thread.lastAgent == a {
		a.thread.lastAgent = nil
	}
	d.deadlines.remove(a)
	delete(d.agents, a.id)
	d.counts.Agents--
	r.procs--
	r.channel.procs--
	// Who waits for the place comes before the threads that it served.
	d.admit(d.processQueues, len(d.agents))
	d.admit(r.channel.processQueues, r.channel.procs)
	for i := range a.lines {
		if a.sessions > 1 || i == 0 {
			d.endSession(a, a.lines[i].thread)
			d.yield(r, a.lines[i].thread)
		}
	}
	a.lines = nil
	d.markDirty(r)
	d.dropRingWhenEmpty(r)
}

// deadline is when something is to be done about an agent that goes on as it
// does.
func (d *dispatch) deadline(a *agent) instant {
	switch {
	case a.signals == 1:
		return a.stateSince.after(killTimeout)
	case a.signals > 1: // the kernel sees to it
		return never
	case a.state == starting:
		return a.stateSince.after(firstHungryTimeout)
	case a.state == idle:
		idle := a.ring.params.IdleMax
		if idle == 0 {
			idle = defaultIdleIntervals * a.ring.params.Interval
		}
		return a.stateSince.after(idle)
	case a.state == closing && len(a.lines) == 0:
		return a.stateSince.after(closeTimeout)
	case a.state == closing && d.stop.begun: // a stop has its own bound
		return never
	case d.config.AgentTimeout == 0 || len(a.lines) == 0 && a.state != idleSent:
		return never
	}
	return a.heardAt.after(d.config.AgentTimeout)
}

// watchFor plans the next look at an agent. A look that comes too early only
// plans the next one, so a talking agent costs nothing.
func (d *dispatch) planDeadline(a *agent) {
	at := d.deadline(a)
	if at != never && (!d.deadlines.contains(a) || at < d.deadlines.at(int(a.deadlineIndex)-1).key) {
		d.deadlines.put(at, a)
	}
}

func (d *dispatch) checkDeadline(a *agent) {
	if d.deadline(a) > d.now {
		d.planDeadline(a)
		return
	}
	switch {
	case a.signals > 0 || a.state == closing:
		d.killAgent(a)
	case a.state == idle:
		d.closeAgent(a)
	case a.state == starting:
		d.noteAgent(Error, a, "has not said #hungry in "+firstHungryTimeout.String()+", killed")
		d.killAgent(a)
	default:
		silence := d.now.since(a.heardAt).Round(time.Second)
		d.noteAgent(Error, a, "has said nothing for "+silence.String()+" with "+strconv.Itoa(len(a.lines))+" job lines, killed")
		d.killAgent(a)
	}
}

// kill ends an agent, the second time for good. One that is starting keeps
// that state, so that its death counts as a failed start.
func (d *dispatch) killAgent(a *agent) {
	d.do(Kill{Agent: a.id, Hard: a.signals > 0})
	if a.state == serving || a.state == idleSent {
		d.setClosing(a)
	}
	a.signals++
	a.stateSince = d.now
	d.planDeadline(a)
}

func (ag *agenda) noteAgent(severity Severity, a *agent, text string) {
	ag.do(Note{Severity: severity, Agent: a.id, Text: "agent for " + a.ring.channel.name + " " + text})
}
