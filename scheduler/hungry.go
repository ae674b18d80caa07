package scheduler

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"zsched/scheduler/store"
)

// #hungry: how job lines end and sessions become free.

// lines is what job lines lead to: sessions that become free, outcomes, and retries.
type lines struct {
	s *Scheduler

	rand  *rand.Rand
	spare store.Spare[line]
}

// agentHungry handles an agent's #hungry. The first of these meanings that is
// possible applies: the agent is ready; it has read #idle; it has ended a job
// line on which it has reported completely; it offers one of its first sessions;
// it ends its oldest open line, and the unreported recipients of that line take
// one retry step. If it has no open line either, the #hungry is ignored.
func (li *lines) agentHungry(a *agent) {
	a.hungryAt = li.s.agenda.now
	progress := true
	switch {
	case a.state == starting && a.signals == 0:
		li.s.agents.agentReady(a)
	case a.state == idleSent:
		li.s.agents.agentIdle(a)
	case li.finishLine(a):
	case a.offered > 0 && a.offered < a.sessions:
		li.addSession(a)
	case len(a.lines) > 0:
		li.endLine(a, a.lines[0].vertex)
		li.finishLine(a)
	default:
		progress = false
		li.s.agenda.logAgent(Info, a, "said #hungry without a job line to answer")
	}
	if progress {
		a.progressAt = li.s.agenda.now
	}
}

// addSession handles a #hungry, other than the very first, with which an agent
// offers one of its sessions. An agent that is closing gets no job line for it.
func (li *lines) addSession(a *agent) {
	a.offered++
	a.freeSessions++
	li.s.agents.expectSessions(a, max(0, a.expected-1))
	if a.state == serving && a.freeSessions == 1 {
		a.ring.free = append(a.ring.free, a)
	}
	li.s.rings.markDirty(a.ring)
}

// finishLine takes an ended line off the agent and finds work for its session:
// on the same thread if it may stay there, otherwise wherever the ring has
// some. It reports whether there was an ended line.
func (li *lines) finishLine(a *agent) bool {
	i := slices.IndexFunc(a.lines, (*line).ended)
	if i >= 0 {
		li.removeLine(a, i)
	}
	return i >= 0
}

// removeLine takes a line off an agent, and finds work for its session.
func (li *lines) removeLine(a *agent, i int) {
	l := a.lines[i]
	a.lines = store.Delete(a.lines, i)
	goesOn := a.sessions == 1 && len(a.lines) > 0
	if goesOn {
		a.lines[0].share = cmp.Or(l.share, a.lines[0].share)
	} else {
		li.s.rings.endSession(a, l)
	}
	li.s.agents.closeIfKilled(a)
	t := l.thread
	li.spare.Put(l)
	if goesOn {
		if a.state == serving {
			li.s.rings.overfeed(a)
			li.s.threads.updateThread(t)
		}
		return
	}
	if a.state == serving {
		if p, ok := li.s.rings.stay(a, t); ok {
			li.s.rings.serve(a, t, p)
			return
		}
	}
	switch {
	case a.state == serving && li.s.limits.needProcesses(a.ring.channel):
		li.s.agents.closeAgent(a)
	case a.state == closing && len(a.lines) == 0:
		li.s.agents.sendClose(a)
	}
	li.s.rings.yield(a.ring, t)
}

// endSession gives back what a session occupied, whose last line that was.
func (rg *rings) endSession(a *agent, l *line) {
	r, t := a.ring, l.thread
	l.share.EndSession()
	for _, o := range r.channel.asideShares {
		rg.markDirty(o)
	}
	r.channel.asideShares = r.channel.asideShares[:0]
	t.agents = store.Delete(t.agents, slices.Index(t.agents, a))
	if l := t.siteLink(); l != nil {
		l.at.Busy--
	}
	countBusy(r.links.onSessions(), -1)
	rg.s.mail.counts.Sessions--
	a.freeSessions++
	if a.freeSessions == 1 && a.state == serving {
		r.free = append(r.free, a)
	}
	if t.movesToSite() {
		rg.s.limits.setSite(t)
	}
}

// yield offers a session that was given back to other rings first, then to the
// thread and its ring.
func (rg *rings) yield(r *ring, t *thread) {
	rg.yielding = r
	rg.s.limits.wakeAll(r.links.onSessions())
	rg.s.threads.updateThread(t)
	if l := t.siteLink(); l != nil {
		rg.s.limits.wake(l.at)
	}
	rg.markDirty(r)
}

// endLine ends the agent's job line for the vertex and applies its results: the
// thread gets its feedback, and what is still open in the vertex takes one retry
// step.
func (li *lines) endLine(a *agent, v *vertex) {
	l := a.lines[slices.IndexFunc(a.lines, func(l *line) bool { return l.vertex == v })]
	l.vertex = nil
	li.s.agents.lineEnded(a)
	li.applyOutcome(l, l.thread)
	rule := l.rule    // l is gone when the vertex is fed again
	if v.state == 0 { // removed: its last recipient is done
		return
	}
	defer li.s.orders.resume(v)
	if rule == nil && l.retryAt != 0 {
		li.postpone(v, l.retryAt)
		return
	}
	li.takeRetryStep(v, noReport, rule)
}
