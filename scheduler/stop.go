package scheduler

import (
	"strconv"
	"time"
)

// Bounds of a stop: from its begin until agents are sent signals, and from then
// until nothing is waited for any more. scheduler(8), "SIGNALS".
const (
	fastStopTimeout = 5 * time.Second
	slowStopTimeout = 5 * time.Minute
	fastKillTimeout = time.Second
	slowKillTimeout = 30 * time.Second
)

// stopping is the end of the scheduler: nothing is fed any more, agents leave
// when they have answered their job lines, and at a bound they are killed.
type stopping struct {
	begun, slow, done bool
	killed            bool    // what was left at the bound
	deadline          instant // 0: none to come
}

func (st *stopping) next() instant {
	if st.deadline == 0 {
		return never
	}
	return st.deadline
}

// beginStop starts a stop, or hastens a slow one. An agent that has not said
// #hungry has nothing to finish, and does not read yet what it is told.
func (s *Scheduler) beginStop(slow bool) {
	if s.stop.done || s.stop.begun && (slow || !s.stop.slow) {
		return
	}
	s.stop.begun, s.stop.slow = true, slow
	switch {
	case slow:
		s.stop.deadline = s.now.after(slowStopTimeout)
	case s.stop.killed:
		s.stop.deadline = min(s.stop.deadline, s.now.after(fastKillTimeout))
	default:
		s.stop.deadline = s.now.after(fastStopTimeout)
	}
	for _, a := range s.agentsInOrder() {
		switch {
		case a.state != starting:
			s.closeAgent(a)
		case a.signals == 0:
			s.killAgent(a)
		}
	}
}

// wakeStop kills the agents that are still there at the bound, and ends the
// stop at the last one.
func (s *Scheduler) wakeStop() {
	if s.stop.next() > s.now {
		return
	}
	if s.stop.killed {
		s.endStop()
		return
	}
	s.stop.killed = true
	s.stop.deadline = s.now.after(fastKillTimeout)
	if s.stop.slow {
		s.stop.deadline = s.now.after(slowKillTimeout)
	}
	for _, a := range s.agentsInOrder() {
		if a.signals == 0 {
			s.noteAgent(Warning, a, "has not left with "+strconv.Itoa(len(a.lines))+" job lines, sent SIGTERM")
			s.killAgent(a)
		}
	}
}

// endStop ends a stop that has come to its last bound. An agent with a message
// in hand may finish that without us: its recipients are locked in its name.
// Any other would stay for nothing and is killed for good. What even that does
// not end, a process or a write that hangs in the kernel, is left.
func (s *Scheduler) endStop() {
	left := 0
	for _, a := range s.agentsInOrder() {
		if a.signals > 1 || a.hasOpenLine() {
			left++
			continue
		}
		s.noteAgent(Warning, a, "has no message in hand and does not leave, killed for good")
		s.do(Kill{Agent: a.id, Hard: true})
		a.signals = 2
	}
	s.stop.deadline, s.stop.done = 0, true
	if writes := len(s.store.pending); left > 0 || writes > 0 {
		s.do(Note{Severity: Error, Text: "stopped with " + strconv.Itoa(left) + " agents and " +
			strconv.Itoa(writes) + " answers of the spool missing"})
	}
	s.do(Stopped{})
}

// stopWhenDone says Stopped once no agent and no write is left. Writes that
// fail are not waited for: the control files say what is still to be done.
func (dv *delivery) stopWhenDone() {
	if !dv.stop.begun || dv.stop.done || len(dv.agents) > 0 ||
		len(dv.store.pending) > len(dv.store.failed) {
		return
	}
	dv.stop.deadline, dv.stop.done = 0, true
	dv.do(Stopped{})
}
