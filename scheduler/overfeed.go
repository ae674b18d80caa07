package scheduler

// Overfeed, and how long a session stays with its thread. Overfeed is job lines
// given to an agent with one session before it has answered the line that it is
// working on.

// overfeed gives further lines to an agent with one session, so that it finds
// the next line when it has finished one (scheduler.cf(5), overfeed).
func (d *dispatch) overfeed(a *agent) {
	t := a.thread
	for len(a.lines) > 0 && t.ring == a.ring && !d.halted() && t.mayFeed() && !d.overLimit(a.ring, t) &&
		t.queue().len() > 0 && d.lineRoom(a, t) > 0 {
		d.feed(a, t)
	}
}

// overfeedThread gives mail that has just arrived to the agents that work on its
// thread.
func (d *dispatch) overfeedThread(t *thread) {
	for _, a := range t.agents {
		if a.sessions == 1 && a.state == serving && a.thread == t {
			d.overfeed(a)
			d.updateThread(t)
		}
	}
}

// lineRoom is how many more lines of its thread the agent may be given: one,
// until it has ended a line and while the thread is probed; then overfeed beyond
// the one it is working on. If the window is over 1, each session gets an equal
// part of the due lines. While
// others wait, it is at most what is left of the quantum.
func (d *dispatch) lineRoom(a *agent, t *thread) int {
	if !a.hasEndedLine || t.window.dead {
		return 1 - len(a.lines)
	}
	window := t.params.Overfeed + 1
	if sessions := t.windowSize(); sessions > 1 {
		window = min(window, (t.queue().len()+len(a.lines)+sessions-1)/sessions)
	}
	room := window - len(a.lines)
	if d.contended(a.ring, t) {
		room = min(room, t.params.Quantum-t.picks)
	}
	return room
}

// contended reports whether others wait for what a session of the thread
// occupies: another thread of the ring, or another ring at a limit. A thread that
// has used its quantum counts too, because it comes first in the next round.
func (d *dispatch) contended(r *ring, t *thread) bool {
	return r.ready.hasOther(t) || r.spent.hasOther(t) ||
		r.channel.sessionQueues.total() > 0 || r.channel.processQueues.total() > 0 || d.processQueues.total() > 0
}

// overLimit reports whether more sessions are busy than the limits allow, which
// happens after a reload.
func (d *dispatch) overLimit(r *ring, t *thread) bool {
	return !below(t.busy-1, t.windowSize()) || !below(r.busy-1, d.maxRing(r)) || !below(r.channel.busy-1, d.maxChannel(r))
}

// mayStay reports whether a session that has become free continues with its
// thread, to which its connection may still be open.
func (d *dispatch) mayStay(a *agent, t *thread) bool {
	r := a.ring
	if d.halted() || t.ring != r || !t.mayFeed() || t.queue().len() == 0 || t.freeSlots() <= 0 ||
		!below(r.busy, d.maxRing(r)) || !below(r.channel.busy, d.maxChannel(r)) {
		return false
	}
	return t.round != r.round || t.picks < t.params.Quantum || !d.contended(r, t)
}
