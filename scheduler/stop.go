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
	// From then for what is being written.
	lastWriteTimeout = time.Second
)

// stopping is the state of a stop.
type stopping struct {
	locked      int // agents that have said #locked
	begun, slow bool
	repeated    bool  // failed writes were issued once more
	killed      bool  // the first deadline has come
	late        bool  // so has the last, and a second more is left for writes
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
func (as *agents) beginStop(slow bool) {
	if as.stop.done || as.stop.begun && (slow || !as.stop.slow) {
		return
	}
	as.stop.begun, as.stop.slow = true, slow
	switch {
	case slow:
		as.s.agenda.plan(&as.stop.deadline, as.s.agenda.now.after(slowStopTimeout))
	default:
		as.s.agenda.plan(&as.stop.deadline, as.s.agenda.now.after(fastStopTimeout))
	}
	for _, a := range as.agentsInOrder() {
		switch {
		case a.state != starting:
			as.closeAgent(a)
			if a.reports {
				as.sendClose(a)
			}
		case a.signals == 0:
			as.killAgent(a)
		}
	}
}

// stopDeadline kills the agents that are still running at the first deadline, and
// ends the stop at the second deadline. What an agent has said just before that, or an order that has
// waited for it, has a second more to be written.
func (as *agents) stopDeadline() {
	switch {
	case as.stop.killed && !as.stop.late && as.s.writes.unanswered() > 0:
		as.stop.late = true
		as.s.agenda.plan(&as.stop.deadline, as.s.agenda.now.after(lastWriteTimeout))
		return
	case as.stop.killed:
		as.endStop()
		return
	}
	as.stop.killed = true
	timeout := fastKillTimeout
	if as.stop.slow {
		timeout = slowKillTimeout
	}
	as.s.agenda.plan(&as.stop.deadline, as.s.agenda.now.after(timeout))
	for _, a := range as.agentsInOrder() {
		if a.signals == 0 && !a.locked {
			as.s.agenda.logAgent(Warning, a, "has not exited and has "+strconv.Itoa(len(a.lines))+" job lines open, sent SIGTERM")
			as.killAgent(a)
		}
	}
}

// endStop ends a stop at its last deadline. An agent that is working on a
// message may finish it after the scheduler has exited: it has locked its
// recipients. Any other agent is sent SIGKILL, even one that was sent SIGTERM because
// it made no progress. A process or a write that hangs in the kernel is left behind.
func (as *agents) endStop() {
	left := 0
	for _, a := range as.agentsInOrder() {
		if a.signals > 1 || a.hasOpenLine() && !a.givenUp {
			left++
			continue
		}
		what := "has no open job line"
		if a.givenUp {
			what = "was sent SIGTERM before the stop"
		}
		as.s.agenda.logAgent(Warning, a, what+" and does not exit, sent SIGKILL")
		as.s.agenda.do(Kill{Agent: a.id, Hard: true})
		a.signals = 2
	}
	as.stop.done = true
	if writes := as.s.writes.unanswered(); left > 0 || writes > 0 {
		as.s.agenda.do(Note{Severity: Error, Text: "stopped with " + strconv.Itoa(left) + " agents running and " +
			strconv.Itoa(writes) + " file operations unfinished" + unwritten(writes)})
	}
	as.s.agenda.do(Stopped{})
}

// unwritten says what changes that are not written may cost.
func unwritten(changes int) string {
	if changes == 0 {
		return ""
	}
	return ". The next start may deliver that mail again, and may not know a KILL or EXPIRE of it"
}

// stopWhenDone issues Stopped when no agent and no write is left. It does not wait for
// agents that have locked their mail. Writes that have failed are issued once more: the next
// scheduler knows only what the control files say.
func (s *Scheduler) stopWhenDone() {
	areLeft := func() bool {
		return len(s.agents.byID) > s.agents.stop.locked || s.writes.unanswered() > len(s.writes.failed)
	}
	if s.agents.stop.done || areLeft() {
		return
	}
	if !s.agents.stop.repeated && len(s.writes.failed) > 0 {
		s.agents.stop.repeated = true
		if s.writes.reissueFailed(true); areLeft() {
			return
		}
	}
	if n := len(s.writes.failed); n > 0 {
		s.agenda.do(Note{Severity: Error, Text: "changes of control files that could not be written: " + strconv.Itoa(n) + unwritten(n)})
	}
	if s.agents.stop.locked > 0 {
		s.agenda.do(Note{Severity: Warning, Text: strconv.Itoa(s.agents.stop.locked) + " agents finish the messages that they have locked"})
	}
	s.agents.stop.done = true
	s.agenda.plan(&s.agents.stop.deadline, never)
	s.agenda.do(Stopped{})
}

// Stopping reports whether the scheduler has been told to stop.
func (s *Scheduler) Stopping() bool { return s.agents.stop.begun }
