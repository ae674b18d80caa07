package scheduler

import (
	"strconv"
	"time"
)

// Stop: nothing more is fed (SIGTERM, SIGQUIT). The input of agents that only report ends
// at once: they drop their mail, or lock it and are left behind. Other agents are closed
// when they have answered their job lines, and killed at a deadline.

// How long a stop waits. scheduler(8), "SIGNALS".
const (
	// From the beginning until agents are sent SIGTERM.
	fastStopTimeout = 5 * time.Second
	slowStopTimeout = 5 * time.Minute
	// From then until the stop ends, whatever is left.
	fastKillTimeout = time.Second
	slowKillTimeout = 30 * time.Second
)

// stopping is the state of a stop.
type stopping struct {
	locked      int // agents that have said #locked
	begun, slow bool
	killed      bool  // the first deadline has come
	done        bool  // Stopped was issued
	deadline    timer // the next one
}

// leavesBehind reports whether the end of a fast stop leaves an agent to finish its
// message. It holds however late that end comes: on a busy machine, killTimeout may be
// over before.
func (st *stopping) leavesBehind(a *agent) bool {
	return st.begun && !st.slow && a.hasOpenLine() && !a.givenUp
}

// beginStop begins a stop, or makes a slow one fast. It kills an agent that has
// not said #hungry yet: such an agent has nothing to finish, and does not read
// its input yet.
func (s *Scheduler) beginStop(slow bool) {
	if s.stop.done || s.stop.begun && (slow || !s.stop.slow) {
		return
	}
	s.stop.begun, s.stop.slow = true, slow
	switch {
	case slow:
		s.plan(&s.stop.deadline, s.now.after(slowStopTimeout))
	case s.stop.killed:
		s.plan(&s.stop.deadline, min(s.plannedAt(&s.stop.deadline), s.now.after(fastKillTimeout)))
	default:
		s.plan(&s.stop.deadline, s.now.after(fastStopTimeout))
	}
	for _, a := range s.agentsInOrder() {
		switch {
		case a.state != starting:
			s.closeAgent(a)
			if a.reports {
				s.sendClose(a)
			}
		case a.signals == 0:
			s.killAgent(a)
		}
	}
}

// stopDeadline kills the agents that are still running at the first deadline, and
// ends the stop at the second deadline.
func (s *Scheduler) stopDeadline() {
	if s.stop.killed {
		s.endStop()
		return
	}
	s.stop.killed = true
	timeout := fastKillTimeout
	if s.stop.slow {
		timeout = slowKillTimeout
	}
	s.plan(&s.stop.deadline, s.now.after(timeout))
	for _, a := range s.agentsInOrder() {
		if a.signals == 0 && !a.locked {
			s.logAgent(Warning, a, "has not exited and has "+strconv.Itoa(len(a.lines))+" job lines open, sent SIGTERM")
			s.killAgent(a)
		}
	}
}

// endStop ends a stop at its last deadline. An agent that is working on a
// message may finish it after the scheduler has exited: it has locked its
// recipients. Any other agent is sent SIGKILL, even one that was sent SIGTERM because
// it made no progress. A process or a write that hangs in the kernel is left behind.
func (s *Scheduler) endStop() {
	left := 0
	for _, a := range s.agentsInOrder() {
		if a.signals > 1 || a.hasOpenLine() && !a.givenUp {
			left++
			continue
		}
		what := "has no open job line"
		if a.givenUp {
			what = "was sent SIGTERM before the stop"
		}
		s.logAgent(Warning, a, what+" and does not exit, sent SIGKILL")
		s.do(Kill{Agent: a.id, Hard: true})
		a.signals = 2
	}
	s.stop.done = true
	if writes := len(s.store.pending); left > 0 || writes > 0 {
		s.do(Note{Severity: Error, Text: "stopped with " + strconv.Itoa(left) + " agents running and " +
			strconv.Itoa(writes) + " file operations unfinished"})
	}
	s.do(Stopped{})
}

// agentReports handles #reports, which an agent says before its first #hungry.
func (dv *delivery) agentReports(id AgentID) {
	if a := dv.agents[id]; a != nil {
		a.reports = true
	}
}

// agentLocked handles #locked: a stop does not wait for the agent. If it is not stopping,
// the agent has been sent a signal by somebody else, and its end says the rest.
func (s *Scheduler) agentLocked(id AgentID) {
	if a := s.agents[id]; a != nil && s.stop.begun && !a.locked {
		a.locked = true
		s.stop.locked++
	}
}

// stopWhenDone issues Stopped when no agent and no write is left. It does not wait for
// agents that have locked their mail, and for writes that fail: the control files say what
// is still to be done.
func (dv *delivery) stopWhenDone() {
	if !dv.stop.begun || dv.stop.done || len(dv.agents) > dv.stop.locked ||
		len(dv.store.pending) > len(dv.store.failed) {
		return
	}
	if dv.stop.locked > 0 {
		dv.do(Note{Severity: Warning, Text: strconv.Itoa(dv.stop.locked) + " agents finish the messages that they have locked"})
	}
	dv.stop.done = true
	dv.plan(&dv.stop.deadline, never)
	dv.do(Stopped{})
}

// Stopping reports whether the scheduler has been told to stop.
func (s *Scheduler) Stopping() bool { return s.stop.begun }
