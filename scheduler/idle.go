package scheduler

import (
	"slices"

	"zsched/scheduler/store"
)

// Idle agents: #idle is sent to an agent for which there is no work. Its stay
// ends after idlemax (agent.go).

// agentIdle handles the #hungry that answers #idle.
func (as *agents) agentIdle(a *agent) {
	a.state, a.stateSince = idle, as.s.agenda.now
	a.ring.idle = append(a.ring.idle, a)
	as.idleAgents.Append(a)
	as.s.mail.counts.AgentsIdle++
	as.planDeadline(a)
	as.s.rings.markDirty(a.ring)
}

// takeIdle takes an agent out of the idle ones.
func (as *agents) takeIdle(a *agent) {
	r := a.ring
	r.idle = store.Delete(r.idle, slices.Index(r.idle, a))
	as.idleAgents.Remove(a)
	as.s.mail.counts.AgentsIdle--
	a.state, a.stateSince = serving, as.s.agenda.now
	as.planDeadline(a)
}

// idleUnused sends #idle to the agents of the ring that have a free session and
// no open line. If another ring waits for their process, or if no work will come for them,
// it closes them instead.
func (as *agents) idleUnused(r *ring) {
	for i := len(r.free) - 1; i >= 0; i-- {
		a := r.free[i]
		if len(a.lines) > 0 {
			continue
		}
		if as.stop.begun || r.retired || as.s.limits.needProcesses(r.channel) && !as.s.limits.needsAgents(r) {
			as.closeAgent(a)
			continue
		}
		r.removeFree(a)
		a.state, a.stateSince = idleSent, as.s.agenda.now
		as.s.agenda.do(Idle{a.id})
		as.planDeadline(a)
	}
	for len(r.idle) > 0 && (r.retired || as.stop.begun) {
		as.closeAgent(r.idle[0])
	}
}

// rebindAgent gives a new thread the idle agent that last served a thread with
// the same channel and host: its connection may still be open.
func (r *ring) rebindAgent(t *thread) {
	for _, a := range slices.Backward(r.idle) {
		if a.thread != nil && a.thread.key == t.key {
			t.lastAgent, a.thread = a, t
			return
		}
	}
}
