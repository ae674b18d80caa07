package scheduler

import (
	"slices"
	"strconv"
	"time"
)

// Times an agent is given. scheduler(8), "Agents".
const (
	firstHungry   = 5 * time.Minute  // from the start to the first #hungry
	closeGrace    = 30 * time.Second // from the empty line to SIGTERM
	killGrace     = 10 * time.Second // from SIGTERM to SIGKILL
	idleIntervals = 3                // idlemax, when it is not set
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
	firsts int
	// credit is how many sessions it could be given a line for.
	// Invariant: credit plus its busy sessions is firsts.
	credit int
	// coming is how many sessions more it is expected to offer: what it was
	// told to, until it has ended a job line without having done so.
	coming int
	lines  []line // given and not answered by #hungry, in order
	proved bool   // it has ended a job line
	thread *thread
	// kills counts the signals sent: SIGTERM, then SIGKILL.
	kills int

	startedFor *thread // until its first #hungry, or the thread is gone

	since         instant // of the state
	heardAt       instant
	hungryAt      instant // last #hungry; 0: none yet
	fedAt         instant // last job line; 0: none yet
	watchSeat     int32
	links[*agent] // in Scheduler.parked
}

type agentState uint8

const (
	starting agentState = iota + 1
	serving
	asked // #idle was sent
	parked
	departing // given no more; asked to leave once it has no job line
)

// line is a job line that an agent was given.
type line struct {
	id          MessageID
	v           *vertex // nil once the line has ended
	t           *thread
	suspensions uint32 // of the thread, when the line was given
	// awaited counts the recipients that no report has named yet.
	awaited int
	// What its reports said of the destination.
	failed  bool
	retryAt instant
}

func (l *line) ended() bool { return l.v == nil }

// busy is how many sessions of the agent are in use. Lines that wait in the
// pipe of an agent with one session share it.
func (a *agent) busy() int {
	if a.sessions == 1 {
		return min(1, len(a.lines))
	}
	return len(a.lines)
}

// start launches an agent of the ring, for a thread that wants one.
func (s *Scheduler) start(r *ring, t *thread) {
	s.lastAgent++
	a := &agent{
		id:       s.lastAgent,
		ring:     r,
		state:    starting,
		sessions: max(1, r.params.Sessions),
		since:    s.now,
		heardAt:  s.now,
	}
	s.agents[a.id] = a
	a.startedFor = t
	t.agents = append(t.agents, a)
	r.procs++
	r.channel.procs++
	s.expect(a, a.sessions)
	s.counts.Agents++
	s.counts.AgentsStarted++
	s.watch.put(s.now.after(firstHungry), a)
	s.do(Start{
		Agent: a.id, Channel: r.channel.name, Host: t.key.host,
		Command: r.command, UID: r.params.UID, GID: r.params.GID,
		Nice: r.params.Nice, Priority: r.params.Priority, PrioritySet: r.params.PrioritySet,
	})
}

func (s *Scheduler) agentStarted(e AgentStarted) {
	if a := s.agents[e.Agent]; a != nil {
		a.pid = e.PID
	}
}

func (s *Scheduler) agentFailed(e AgentFailed) {
	a := s.agents[e.Agent]
	if a == nil {
		return
	}
	s.noteAgent(Trouble, a, "cannot be started: "+e.Reason)
	s.startFailed(a.ring)
	s.dropAgent(a)
}

// settleIn ends the agent's being started for a thread.
func (a *agent) settleIn() {
	if a.startedFor != nil {
		a.startedFor.quit(a)
		a.startedFor = nil
	}
}

// ready is the first #hungry.
func (s *Scheduler) ready(a *agent) {
	a.settleIn()
	s.expect(a, a.sessions-1)
	s.recovered(a.ring.clause)
	a.state, a.since = serving, s.now
	a.firsts, a.credit = 1, 1
	a.ring.free = append(a.ring.free, a)
	s.watchFor(a)
	s.touch(a.ring)
}

// expect notes how many sessions more the agent should offer.
func (s *Scheduler) expect(a *agent, n int) {
	if n < a.coming {
		s.touch(a.ring)
	}
	a.ring.coming += n - a.coming
	a.coming = n
}

// ended notes that the agent has ended a job line. It has shown that it works,
// and that it has as many sessions as it has offered.
func (s *Scheduler) ended(a *agent) {
	a.proved = true
	s.expect(a, 0)
}

// ask sends #idle to an agent that has nothing to do.
func (s *Scheduler) ask(a *agent) {
	a.state, a.since = asked, s.now
	s.do(Idle{a.id})
	s.watchFor(a)
}

// park takes an agent that answered #idle out of work.
func (s *Scheduler) park(a *agent) {
	a.state, a.since = parked, s.now
	a.ring.idle = append(a.ring.idle, a)
	s.parked.append(a)
	s.counts.AgentsIdle++
	s.watchFor(a)
	s.touch(a.ring)
}

func (s *Scheduler) unpark(a *agent) {
	r := a.ring
	r.idle = slices.Delete(r.idle, slices.Index(r.idle, a), slices.Index(r.idle, a)+1)
	s.parked.remove(a)
	s.counts.AgentsIdle--
	a.state, a.since = serving, s.now
	s.watchFor(a)
}

// dismiss has an agent leave, when it has answered its job lines; its place
// counts as taken until the process is gone.
func (s *Scheduler) dismiss(a *agent) {
	switch a.state {
	case departing:
		return
	case parked:
		s.unpark(a)
	}
	s.depart(a)
	if len(a.lines) == 0 {
		s.letGo(a)
		return
	}
	s.watchFor(a)
}

// letGo asks an agent to leave that has answered all its job lines. Before, the
// end of file might cut short one that reads ahead.
func (s *Scheduler) letGo(a *agent) {
	s.do(Close{a.id})
	if a.kills == 0 {
		a.since = s.now // its grace begins
	}
	s.watchFor(a)
}

// atWork reports whether the agent has a message in hand.
func (a *agent) atWork() bool {
	return slices.ContainsFunc(a.lines, func(l line) bool { return !l.ended() })
}

func (r *ring) unfree(a *agent) {
	if i := slices.Index(r.free, a); i >= 0 {
		r.free = slices.Delete(r.free, i, i+1)
	}
}

// depart turns an agent into one that is given no more job lines.
func (s *Scheduler) depart(a *agent) {
	a.ring.unfree(a)
	s.expect(a, 0)
	a.state, a.since = departing, s.now
	s.counts.AgentsLeaving++
	a.ring.channel.leaving++
}

// agentExited takes a dead agent's job lines back. The line it was on, if that
// is still open, pays with one attempt; before any of its recipients is fed
// again the files are read, because the agent may have marked what it never
// reported.
func (s *Scheduler) agentExited(e AgentExited) {
	a := s.agents[e.Agent]
	if a == nil {
		return
	}
	expected := a.state == departing && len(a.lines) == 0
	if !expected {
		s.noteAgent(Warning, a, "is gone: "+e.Status)
	}
	if a.state == starting {
		s.startFailed(a.ring)
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
		if culprit && !s.stop.begun {
			why = killedAgent
		}
		culprit = false
		s.takeBack(l, why, a.pid)
	}
	s.dropAgent(a)
}

// dropAgent gives back the places of an agent that is no more.
func (s *Scheduler) dropAgent(a *agent) {
	r := a.ring
	switch a.state {
	case parked:
		s.unpark(a)
	case departing:
		s.counts.AgentsLeaving--
		r.channel.leaving--
	}
	a.settleIn()
	s.expect(a, 0)
	r.unfree(a)
	a.state = 0 // so that nothing gives it work again
	if a.thread != nil && a.thread.last == a {
		a.thread.last = nil
	}
	s.watch.remove(a)
	delete(s.agents, a.id)
	s.counts.Agents--
	r.procs--
	r.channel.procs--
	// Who waits for the place comes before the threads that it served.
	s.release(s.places, len(s.agents))
	s.release(r.channel.processes, r.channel.procs)
	for i := range a.lines {
		if a.sessions > 1 || i == 0 {
			s.endSession(a, a.lines[i].t)
			s.yield(r, a.lines[i].t)
		}
	}
	a.lines = nil
	s.touch(r)
	s.dropRingWhenEmpty(r)
}

// deadline is when something is to be done about an agent that goes on as it
// does.
func (s *Scheduler) deadline(a *agent) instant {
	switch {
	case a.kills == 1:
		return a.since.after(killGrace)
	case a.kills > 1: // the kernel sees to it
		return never
	case a.state == starting:
		return a.since.after(firstHungry)
	case a.state == parked:
		idle := a.ring.params.IdleMax
		if idle == 0 {
			idle = idleIntervals * a.ring.params.Interval
		}
		return a.since.after(idle)
	case a.state == departing && len(a.lines) == 0:
		return a.since.after(closeGrace)
	case a.state == departing && s.stop.begun: // a stop has its own bound
		return never
	case s.config.AgentTimeout == 0 || len(a.lines) == 0 && a.state != asked:
		return never
	}
	return a.heardAt.after(s.config.AgentTimeout)
}

// watchFor plans the next look at an agent. A look that comes too early only
// plans the next one, so a talking agent costs nothing.
func (s *Scheduler) watchFor(a *agent) {
	if d := s.deadline(a); d != never {
		if !s.watch.holds(a) || d < s.watch.at(int(a.watchSeat)-1).key {
			s.watch.put(d, a)
		}
	}
}

func (s *Scheduler) watchAgent(a *agent) {
	if d := s.deadline(a); d > s.now {
		s.watchFor(a)
		return
	}
	switch {
	case a.kills > 0 || a.state == departing:
		s.kill(a)
	case a.state == parked:
		s.dismiss(a)
	case a.state == starting:
		s.noteAgent(Trouble, a, "has not said #hungry in "+firstHungry.String()+", killed")
		s.kill(a)
	default:
		silence := s.now.since(a.heardAt).Round(time.Second)
		s.noteAgent(Trouble, a, "has said nothing for "+silence.String()+" with "+strconv.Itoa(len(a.lines))+" job lines, killed")
		s.kill(a)
	}
}

// kill ends an agent, the second time for good. One that is starting keeps
// that state, so that its death counts as a failed start.
func (s *Scheduler) kill(a *agent) {
	s.do(Kill{Agent: a.id, Hard: a.kills > 0})
	if a.state == serving || a.state == asked {
		s.depart(a)
	}
	a.kills++
	a.since = s.now
	s.watchFor(a)
}

func (s *Scheduler) noteAgent(severity Severity, a *agent, text string) {
	s.do(Note{Severity: severity, Agent: a.id, Text: "agent for " + a.ring.channel.name + " " + text})
}
