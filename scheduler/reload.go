package scheduler

import (
	"fmt"
	"slices"

	"zsched/scheduler/rule"
)

// reload applies a new configuration. A thread whose clauses, command
// and process attributes do not change keeps its ring, its agents and its wake
// times. New limits and intervals apply at once. The agents of a ring that no
// longer has threads finish their job lines and are closed.
func (s *Scheduler) reload(config *rule.Config) {
	s.views.interruptWalks()
	limits := s.rules.config.ActiveLimit != config.ActiveLimit || s.rules.config.RecipientLimit != config.RecipientLimit
	s.rules.config = config
	clear(s.agents.startFailures)
	s.rules.setRules(config.Replies)
	for _, c := range s.limits.channelOrder {
		c.latest = nil
		c.sessions.Clear()
		c.processes.Clear()
		s.limits.reloadRates(c)
	}
	s.limits.processes.Clear()
	lostThreads, lostRecipients := 0, 0 // for which no clause gives a command any more
	for _, t := range s.threads.threadsInOrder() {
		before, ring := t.params, t.ring
		s.rules.attachEffects(t)
		s.threads.assignRing(t)
		if ring != nil && t.ring == nil && t.recipients > 0 {
			lostThreads++
			lostRecipients += t.recipients
		}
		t.running = t.running && t.params.QueueOnly
		if !sameAgenda(before, t.params) {
			s.requeueThread(t)
			s.loads.requeueStubs(t)
		}
		if !slices.Equal(before.ReportTimes, t.params.ReportTimes) {
			s.notices.replanDelays(t)
		}
		if limits {
			s.loads.considerUnloadingThread(t)
		}
		if t.ring != nil {
			s.threads.updateThread(t)
		}
	}
	if lostThreads > 0 {
		s.agenda.do(Note{Severity: Error, Text: fmt.Sprintf("after the reload, no clause gives a command for some mail, which waits (recipients: %d, threads: %d)",
			lostRecipients, lostThreads)})
	}
	var rings []*ring
	for r := s.rings.inOrder.Head; r != nil; r = s.rings.inOrder.Next(r) {
		rings = append(rings, r)
	}
	for _, r := range rings {
		r.fair.Reweigh()
		s.retireRing(r)
		s.rings.markDirty(r)
	}
	for _, c := range s.limits.channelOrder {
		c.formerRates = nil
	}
	for _, a := range s.agents.agentsInOrder() {
		s.agents.planDeadline(a)
	}
	if !s.loads.limited() {
		s.loads.loadAll()
	}
}

// retireRing takes a ring out of use if it has no threads and no new mail would
// belong to it.
func (s *Scheduler) retireRing(r *ring) {
	if r.members.Len > 0 {
		return
	}
	again, _ := s.rings.obtainRing(r.example)
	if again == r {
		return
	}
	if again != nil {
		s.rings.dropRingWhenEmpty(again)
	}
	r.retired = true
	if s.rings.byKey[r.key] == r {
		delete(s.rings.byKey, r.key)
	}
	s.rings.dropRingWhenEmpty(r)
}

// sameAgenda reports whether vertices have the same place in the queue and in
// the agenda under both parameters. If so, a long queue need not be scanned.
func sameAgenda(a, b *rule.Params) bool {
	return a.AgeOrder == b.AgeOrder && a.Share == b.Share && a.QueueOnly == b.QueueOnly && a.Expiry == b.Expiry && a.Expiry2 == b.Expiry2
}

// requeueThread puts the vertices of the thread into the places, in the queue and
// the agenda, that the new parameters call for.
func (s *Scheduler) requeueThread(t *thread) {
	for ref := t.vertices.Head; ref != 0; {
		next := t.vertices.Next(ref)
		v := s.mail.vertices.At(ref)
		switch v.state {
		case due:
			if v.place.Queued() || !t.params.QueueOnly {
				s.threads.fair.Remove(v.ref)
				s.threads.enqueueVertex(t, v)
			}
			s.notices.planWake(v)
		case waiting, blocked:
			s.notices.planWake(v)
		}
		ref = next
	}
}
