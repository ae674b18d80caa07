package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"zsched/scheduler/fair"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Agents: their states, their job lines, and how they are closed and killed.

// agents has the processes that deliver.
type agents struct {
	s *Scheduler

	byID          map[AgentID]*agent
	idleAgents    store.List[*agent] // of all rings, longest idle first
	lastID        AgentID
	startFailures map[string]*startFailures // by ring.clause
	stop          stopping
}

// How long an agent may take. ta(7), SIGNALS AND THE END and LIMITS.
const (
	firstHungryTimeout   = 5 * time.Minute  // from the start to the first #hungry
	closeTimeout         = 30 * time.Second // from the empty line to SIGTERM
	killTimeout          = 10 * time.Second // from SIGTERM to SIGKILL
	defaultIdleIntervals = 3                // idlemax in intervals, if it is not set
)

// agent is a process that delivers mail, or one that is being started.
//
//	            #hungry          nothing to do          #hungry
//	starting ───────────► serving ───────────► idleSent ───────► idle
//	    │                   ▲  │ ▲                                 │
//	    │                   │  └─┘ job lines           a job line  │
//	    │                   └──────────────────────────────────────┘
//	    └──► closing ◄── from each state: idlemax, evicted at a limit,
//	                     silent too long, its ring retired, its mail killed, a stop
//
// An agent is dropped when its process is gone.
type agent struct {
	id       AgentID
	ring     *ring
	pid      int // 0: not known yet
	state    agentState
	sessions int // job lines that it may have open
	// offered is how many of its sessions it has offered: the number of #hungry
	// lines that did not answer anything.
	offered int
	// freeSessions is how many sessions can be given a job line.
	// Invariant: freeSessions plus its busy sessions is offered.
	freeSessions int
	// expected is how many more sessions it should offer. It is 0 once a job
	// line has ended.
	expected int
	// lines are the job lines that #hungry has not answered yet, in the order
	// in which they were given.
	lines        []*line
	hasEndedLine bool
	// picks is how many job lines it was given since it began to serve its thread,
	// or since others had a chance to take its place.
	picks   int
	thread  *thread // last one served; nil: none
	signals int     // sent so far: SIGTERM, then SIGKILL
	givenUp bool    // it does not work as it should; see giveUpAgent
	reports bool    // it has said that it only reports
	ended   bool    // its input has ended
	locked  bool    // it has locked what it works on, and a stop leaves it behind

	stateSince instant // when the state began; after a signal, when it was sent
	// progressAt is when the agent last made progress on a job line or answered
	// #idle, or was given a job line when it had none.
	progressAt          instant
	hungryAt            instant // last #hungry; 0: none yet
	fedAt               instant // last job line; 0: none yet
	deadlines           timer   // see agents.deadline
	store.Links[*agent]         // in agents.idleAgents
}

type agentState uint8

const (
	starting agentState = iota + 1
	serving
	idleSent // #idle was sent and not answered
	idle
	closing // given no more lines; asked to exit once it has no open one
)

// line is a job line of an agent.
type line struct {
	id          MessageID
	path        string  // of the message
	vertex      *vertex // nil once the line has ended
	thread      *thread
	share       *fair.Share // whose session it is; nil: the line was overfed
	suspensions uint32      // thread.suspensions when the line was given
	// unreported counts the open recipients that no report has named yet.
	unreported int32
	// What the reports said about the destination.
	retryAt           instant
	destinationFailed bool
	// rule gives the wait; nil: none. It and noted are rules of the configuration at the time
	// of the report, which a reload may have replaced since.
	rule  *rule.ReplyRule
	noted *rule.ReplyRule // the last rule that is in the event log
	// resynced says that the agent has found nothing to do there.
	resynced bool
}

func (l *line) ended() bool { return l.vertex == nil }

// hasOpenLine reports whether the agent is working on a message.
func (a *agent) hasOpenLine() bool {
	return slices.ContainsFunc(a.lines, func(l *line) bool { return !l.ended() })
}

func (r *ring) removeFree(a *agent) {
	if i := slices.Index(r.free, a); i >= 0 {
		r.free = store.Delete(r.free, i)
	}
}

// agentReady handles the first #hungry.
func (as *agents) agentReady(a *agent) {
	as.expectSessions(a, a.sessions-1)
	delete(as.startFailures, a.ring.clause)
	a.state, a.stateSince = serving, as.s.agenda.now
	a.offered, a.freeSessions = 1, 1
	a.ring.free = append(a.ring.free, a)
	as.planDeadline(a)
	as.s.rings.markDirty(a.ring)
}

// expectSessions sets how many more sessions the agent should offer.
func (as *agents) expectSessions(a *agent, n int) {
	if n < a.expected {
		as.s.rings.markDirty(a.ring)
	}
	a.ring.expected += n - a.expected
	a.expected = n
}

// lineEnded notes that the agent has ended a job line. So it is able to work, and
// it will offer no more sessions than it has offered so far.
func (as *agents) lineEnded(a *agent) {
	a.hasEndedLine = true
	as.expectSessions(a, 0)
}

// closeAgent makes an agent exit once it has answered its job lines. Its
// process counts towards the limits until it is gone.
func (as *agents) closeAgent(a *agent) {
	switch a.state {
	case closing:
		return
	case idle:
		as.takeIdle(a)
	}
	as.setClosing(a)
	if len(a.lines) == 0 {
		as.sendClose(a)
		return
	}
	as.planDeadline(a)
}

// setClosing ends the feeding of an agent.
func (as *agents) setClosing(a *agent) {
	a.ring.removeFree(a)
	as.expectSessions(a, 0)
	a.state, a.stateSince = closing, as.s.agenda.now
	as.s.mail.counts.AgentsClosing++
	a.ring.channel.closing++
}

// sendClose asks an agent that has answered all its job lines to exit. An earlier
// end of file might interrupt an agent that reads ahead.
func (as *agents) sendClose(a *agent) {
	if a.ended {
		return
	}
	a.ended = true
	as.s.agenda.do(Close{a.id})
	if a.signals == 0 {
		a.stateSince = as.s.agenda.now // closeTimeout begins
	}
	as.planDeadline(a)
}

// closeIfKilled ends the input of an agent that only reports when all that it still works on is
// killed: it drops that, except what may be delivered already, and its sessions are free.
func (as *agents) closeIfKilled(a *agent) {
	isOther := func(l *line) bool { return !l.ended() && !as.s.orders.isKilled(l.vertex) }
	if a == nil || !a.reports || !a.hasOpenLine() || slices.ContainsFunc(a.lines, isOther) {
		return
	}
	as.closeAgent(a)
	as.sendClose(a)
}

// deadline returns when something must be done about an agent if nothing
// changes before; never if nothing need be done.
func (as *agents) deadline(a *agent) instant {
	switch {
	case a.signals > 1, a.signals == 1 && as.stop.leavesBehind(a): // after SIGKILL, the kernel ends it
		return never
	case a.signals == 1:
		return a.stateSince.after(killTimeout)
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
	case a.state == closing && as.stop.begun, len(a.lines) == 0 && a.state != idleSent: // a stop has its own deadline
		return never
	}
	if timeout := a.ring.params.AgentTimeout; timeout > 0 {
		return a.progressAt.after(timeout)
	}
	return never
}

// planDeadline plans the next check of an agent. A check that comes too early
// only plans the next one, so nothing is replanned each time an agent makes
// progress.
func (as *agents) planDeadline(a *agent) {
	at := as.deadline(a)
	if at < as.s.agenda.plannedAt(&a.deadlines) {
		as.s.agenda.plan(&a.deadlines, at)
	}
}

// checkDeadline closes or kills an agent whose deadline has come.
func (as *agents) checkDeadline(a *agent) {
	if as.deadline(a) > as.s.agenda.now {
		as.planDeadline(a)
		return
	}
	switch {
	case a.signals > 0 || a.state == closing:
		as.killAgent(a)
	case a.state == idle:
		as.closeAgent(a)
	case a.state == starting:
		as.s.agenda.logAgent(Error, a, "has not said #hungry in "+firstHungryTimeout.String()+", sent SIGTERM")
		as.giveUpAgent(a)
	default:
		silence := as.s.agenda.now.since(a.progressAt).Round(time.Second).String()
		as.s.agenda.logAgent(Error, a, "has made no progress on a job line for "+silence+" with "+strconv.Itoa(len(a.lines))+" job lines, sent SIGTERM")
		as.giveUpAgent(a)
	}
}

// said handles a word of an agent.
func (as *agents) said(a *agent, word AgentWord) {
	switch word {
	case Hungry:
		as.s.lines.agentHungry(a)
	case Reports: // before its first #hungry
		a.reports = true
	case Locked:
		// A stop does not wait for it. If its input has not ended, something else made it leave,
		// and its end says the rest.
		if a.ended && !a.locked {
			a.locked = true
			as.stop.locked++
			if a.state == closing {
				a.ring.channel.closing-- // it may stay for long
			}
		}
	}
}

// giveUpAgent sends SIGTERM to an agent that no longer works as it should. A stop does
// not leave it behind.
func (as *agents) giveUpAgent(a *agent) {
	a.givenUp = true
	as.killAgent(a)
}

// killAgent sends SIGTERM to an agent, and SIGKILL the second time. An agent
// that is starting stays in that state, so that its death counts as a failed
// start.
func (as *agents) killAgent(a *agent) {
	as.s.agenda.do(Kill{Agent: a.id, Hard: a.signals > 0})
	if a.state == serving || a.state == idleSent {
		as.setClosing(a)
	}
	a.signals++
	a.stateSince = as.s.agenda.now
	as.planDeadline(a)
}

// dropAgent removes an agent whose process is gone.
func (as *agents) dropAgent(a *agent) {
	r := a.ring
	switch a.state {
	case idle:
		as.takeIdle(a)
	case closing:
		as.s.mail.counts.AgentsClosing--
		if !a.locked {
			r.channel.closing--
		}
	}
	as.expectSessions(a, 0)
	r.removeFree(a)
	a.state = 0 // so that nothing gives it work again
	if a.thread != nil && a.thread.lastAgent == a {
		a.thread.lastAgent = nil
	}
	as.s.agenda.plan(&a.deadlines, never)
	delete(as.byID, a.id)
	if a.locked {
		as.stop.locked--
	}
	as.s.mail.counts.Agents--
	countBusy(r.links.onProcesses(), -1)
	// Rings that wait for a process come before the threads that the agent served.
	as.s.limits.wakeAll(r.links.onProcesses())
	for i := range a.lines {
		if a.sessions > 1 || i == 0 {
			as.s.rings.endSession(a, a.lines[i])
			as.s.rings.yield(r, a.lines[i].thread)
		}
	}
	a.lines = nil
	as.s.rings.markDirty(r)
	as.s.rings.dropRingWhenEmpty(r)
}

func (ag *agenda) logAgent(severity Severity, a *agent, text string) {
	ag.do(Note{Severity: severity, Agent: a.id, Text: "agent for " + a.ring.channel.name + " " + text})
}

// agentsInOrder returns all agents by age. Decisions must not depend on the
// order of a map.
func (as *agents) agentsInOrder() []*agent {
	return slices.SortedFunc(maps.Values(as.byID), func(a, b *agent) int { return cmp.Compare(a.id, b.id) })
}
