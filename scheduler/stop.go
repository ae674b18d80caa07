package scheduler

import (
	"strconv"
	"time"
)

// Bounds of a stop: from its begin until agents are killed, and from then
// until nothing is waited for any more.
const (
	fastStop = 5 * time.Second
	slowStop = 5 * time.Minute
	lastStop = 30 * time.Second
)

// stopping is the end of the scheduler: nothing is fed any more, idle agents
// leave, open job lines are drained within a bound, then agents are killed.
type stopping struct {
	begun, slow, told bool
	killed            bool    // what was left at the bound
	bound             instant // 0: none to come
}

func (st *stopping) next() instant {
	if st.bound == 0 {
		return never
	}
	return st.bound
}

// beginStop starts a stop, or hastens a slow one.
func (s *Scheduler) beginStop(slow bool) {
	if s.stop.begun && (slow || !s.stop.slow) {
		return
	}
	s.stop.begun, s.stop.slow = true, slow
	s.stop.bound = s.now.after(fastStop)
	if slow {
		s.stop.bound = s.now.after(slowStop)
	}
	for _, a := range s.agentsInOrder() {
		switch a.state {
		case starting:
			s.kill(a)
		case departing:
		default:
			s.dismiss(a)
		}
	}
}

// wakeStop kills the agents that are still there at the bound. What is there
// even at the last one, a process or a write that hangs in the kernel, is left.
func (s *Scheduler) wakeStop() {
	if s.stop.next() > s.now {
		return
	}
	if s.stop.killed {
		s.stop.bound, s.stop.told = 0, true
		s.do(Note{Severity: Trouble, Text: "stopped with " + strconv.Itoa(len(s.agents)) + " agents and " +
			strconv.Itoa(len(s.store.pending)) + " answers of the spool missing"})
		s.do(Stopped{})
		return
	}
	s.stop.killed = true
	s.stop.bound = s.now.after(lastStop)
	for _, a := range s.agentsInOrder() {
		if a.kills == 0 {
			s.do(Note{Severity: Warning, Agent: a.id, Text: "agent for " + a.ring.channel.name + " has not left with " +
				strconv.Itoa(len(a.lines)) + " job lines, killed"})
			s.kill(a)
		}
	}
}

// stopWhenDone says Stopped once no agent and no write is left. Writes that
// fail are not waited for: the control files say what is still to be done.
func (s *Scheduler) stopWhenDone() {
	if !s.stop.begun || s.stop.told || len(s.agents) > 0 ||
		len(s.store.pending) > len(s.store.unstored) {
		return
	}
	s.stop.bound, s.stop.told = 0, true
	s.do(Stopped{})
}
