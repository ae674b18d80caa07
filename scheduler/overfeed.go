package scheduler

// Overfeed, and how long a session stays with its thread. Overfeeding gives an
// agent with one session more job lines before it has answered the line that it
// is working on.

// overfeed gives more lines to an agent with one session, so that the next line
// is already there when it has finished one (scheduler.cf(5), overfeed). These
// lines ride on its session, even if the thread may not take another.
func (d *dispatch) overfeed(a *agent) {
	t := a.thread
	for len(a.lines) > 0 && t.ring == a.ring && !d.halted() && t.mayFeed() && !d.overLimit(a.ring, t) &&
		t.queue().len() > 0 && d.lineRoom(a, t) > 0 && t.threadGate() > 0 && d.ringGate(a.ring) > 0 && d.mayRideSite(t) {
		d.setOpen(t, true)
		p, ok := d.stayingPick(t)
		if !ok {
			break
		}
		d.feed(a, p)
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

// lineRoom is how many more lines of its thread the agent may be given. Until
// the agent has ended a line, and while the thread is probed, it may have one;
// otherwise overfeed lines besides the one that it is working on. If the window
// is over 1, each session gets an equal part of the due lines. While others
// wait, the agent gets at most the rest of its quantum.
func (d *dispatch) lineRoom(a *agent, t *thread) int {
	if !a.hasEndedLine || t.window.dead {
		return 1 - len(a.lines)
	}
	window := t.params.Overfeed + 1
	if sessions := t.sessionLimit(); sessions > 1 {
		window = min(window, (t.queue().len()+len(a.lines)+sessions-1)/sessions)
	}
	room := window - len(a.lines)
	if d.contended(a.ring, t) {
		room = min(room, t.params.Quantum-a.picks)
	}
	return room
}

// contended reports whether others wait for what a session of the thread
// occupies: another thread of the ring, or another ring at a limit.
func (d *dispatch) contended(r *ring, t *thread) bool {
	return r.wants > t.wants || d.othersWait(r)
}

// othersWait reports whether other rings wait for a session or a process.
func (d *dispatch) othersWait(r *ring) bool {
	return r.channel.sessionQueues.total() > 0 || r.channel.processQueues.total() > 0 || d.processQueues.total() > 0
}

// overLimit reports whether more sessions are busy than the limits allow, which
// happens after a reload.
func (d *dispatch) overLimit(r *ring, t *thread) bool {
	return t.roomInShare() < 0 || !below(t.busy-1, t.sessionLimit()) || !below(r.busy-1, d.maxRing(r)) || !below(r.channel.busy-1, d.maxChannel(r))
}

// stay returns the pick with which a session that has become free continues on
// its thread, whose connection may still be open. It reports whether the session
// may stay.
func (d *dispatch) stay(a *agent, t *thread) (pick, bool) {
	r := a.ring
	if d.halted() || t.ring != r || !t.mayFeed() || t.queue().len() == 0 || t.freeSlots() <= 0 ||
		!below(r.busy, d.maxRing(r)) || !below(r.channel.busy, d.maxChannel(r)) ||
		a.picks >= t.params.Quantum && d.othersWait(r) || d.ringGate(r) == 0 ||
		!d.admitsSite(t) || a.picks >= t.params.Quantum && t.siteContended() {
		return pick{}, false
	}
	d.setOpen(t, true)
	return d.stayingPick(t)
}
