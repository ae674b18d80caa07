package scheduler

// Reload: how a new configuration takes effect (Reloaded).

import (
	"slices"

	"zsched/scheduler/rule"
)

// reload applies a new configuration: its rules and limits take the place of those
// before, and one pass attaches all threads to them. A thread whose clauses, command
// and process attributes do not change keeps its ring, its agents and its wake
// times. New limits and intervals apply at once. The agents of a ring that no
// longer has threads finish their job lines and are closed.
func (s *Scheduler) reload(config *rule.Config) {
	s.rules.setConfig(config)
	s.limits.newLimits()
	clear(s.agents.startFailures)
	for _, t := range s.threads.threadsInOrder() {
		s.threads.attach(t)
	}
	for r := s.rings.inOrder.Head; r != nil; {
		next := s.rings.inOrder.Next(r)
		r.fair.Reweigh()
		s.rings.retire(r)
		s.rings.markDirty(r)
		r = next
	}
	for _, a := range s.agents.agentsInOrder() {
		s.agents.planDeadline(a)
	}
}

// attach attaches a thread to a new configuration.
func (ts *threads) attach(t *thread) {
	before := t.params
	ts.assignRing(t)
	t.running = t.running && t.params.QueueOnly
	if sameAgenda(before, t.params) {
		ts.updateThread(t)
	} else {
		ts.beginUpdate(t, newParams)
	}
}

// sameAgenda reports whether vertices have the same place in the queue and in
// the agenda under both parameters. If so, a long queue need not be scanned.
func sameAgenda(a, b *rule.Params) bool {
	return a.AgeOrder == b.AgeOrder && a.Share == b.Share && a.QueueOnly == b.QueueOnly && a.Expiry == b.Expiry && a.Expiry2 == b.Expiry2 &&
		slices.Equal(a.ReportTimes, b.ReportTimes)
}

// requeueVertex puts a vertex into the places, in the queue and the agenda, that new
// parameters call for.
func (ts *threads) requeueVertex(t *thread, v *vertex) {
	if v.place.Queued() || v.state == due && !t.params.QueueOnly {
		ts.fair.Remove(v.ref)
		ts.enqueueVertex(t, v)
	}
	if v.state.isWatched() {
		ts.s.notices.planWake(v)
	}
}

// retire takes a ring out of use if it has no threads and no new mail would
// belong to it.
func (rg *rings) retire(r *ring) {
	if r.members.Len > 0 {
		return
	}
	again, _ := rg.obtainRing(r.example)
	if again == r {
		return
	}
	rg.dropRingWhenEmpty(again)
	r.retired = true
	if rg.byKey[r.key] == r {
		delete(rg.byKey, r.key)
	}
	rg.dropRingWhenEmpty(r)
}
