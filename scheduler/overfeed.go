package scheduler

import "zsched/scheduler/fair"

// Overfeed, and how long a session stays with its thread. Overfeeding gives an
// agent with one session more job lines before it has answered the line that it
// is working on.

// overfeed gives more lines to an agent with one session, so that the next line
// is already there when it has finished one (scheduler.cf(5), overfeed). These
// lines ride on its session, even if the thread may not take another.
func (rg *rings) overfeed(a *agent) {
	t := a.thread
	for len(a.lines) > 0 && t.ring == a.ring && !rg.halted() && t.mayFeed() &&
		t.fair.Len() > 0 && rg.lineRoom(a, t) > 0 && rg.s.limits.mayAddSessions(t, 0) {
		t.fair.SetOpen(true)
		p, ok := t.fair.Stay()
		if !ok {
			break
		}
		rg.feed(a, p)
	}
}

// overfeedThread gives mail that has just arrived to the agents that work on its
// thread.
func (rg *rings) overfeedThread(t *thread) {
	for _, a := range t.agents {
		if a.sessions == 1 && a.state == serving && a.thread == t {
			rg.overfeed(a)
			rg.s.threads.updateThread(t)
		}
	}
}

// lineRoom is how many more lines of its thread the agent may be given. Until
// the agent has ended a line, and while the thread is probed, it may have one;
// otherwise overfeed lines besides the one that it is working on. If the window
// is over 1, each session gets an equal part of the due lines. While others
// wait, the agent gets at most the rest of its quantum.
func (rg *rings) lineRoom(a *agent, t *thread) int {
	if !a.hasEndedLine || t.window.Dead {
		return 1 - len(a.lines)
	}
	window := t.params.Overfeed + 1
	if sessions := t.windowSize(); sessions > 1 {
		window = min(window, (t.fair.Len()+len(a.lines)+sessions-1)/sessions)
	}
	room := window - len(a.lines)
	if a.ring.wants > t.wants || rg.s.limits.othersWait(a.ring, t) {
		room = min(room, t.params.Quantum-a.picks)
	}
	return room
}

// stay returns the pick with which a session that has become free continues on
// its thread, whose connection may still be open. It reports whether the session
// may stay.
func (rg *rings) stay(a *agent, t *thread) (fair.Pick, bool) {
	if rg.halted() || t.ring != a.ring || !t.mayFeed() || t.fair.Len() == 0 ||
		a.picks >= t.params.Quantum && rg.s.limits.othersWait(a.ring, t) {
		return fair.Pick{}, false
	}
	t.fair.SetOpen(true)
	p, ok := t.fair.Stay()
	return p, ok && rg.s.limits.mayAddSessions(t, 1)
}
