package scheduler

// Reload: how a new configuration takes effect (Reloaded).

import (
	"fmt"
	"slices"
	"strings"
)

// reload applies a new configuration. A thread whose clauses, command
// and process attributes do not change keeps its ring, its agents and its wake
// times. New limits and intervals apply at once. The agents of a ring that no
// longer has threads finish their job lines and are closed. Poisoned vertices
// are due again.
func (s *Scheduler) reload(config *Config) {
	remaining := make([]map[walkStep]bool, len(s.walks))
	for i, w := range s.walks {
		if w.depth > Rings {
			remaining[i] = w.remaining()
		}
	}
	limits := s.config.ActiveLimit != config.ActiveLimit || s.config.RecipientLimit != config.RecipientLimit
	s.config = config
	clear(s.startFailures)
	s.setRules(config.Replies)
	for _, c := range s.channelOrder {
		c.latest = nil
		c.sessions.Clear()
		c.processes.Clear()
		s.reloadRates(c)
	}
	s.processes.Clear()
	var lost lostCommands
	for _, t := range s.threadsInOrder() {
		before, ring := t.params, t.ring
		s.attachEffects(t)
		s.assignRing(t)
		if ring != nil && t.ring == nil && t.recipients > 0 {
			lost.add(ring, t)
		}
		t.running = t.running && t.params.QueueOnly
		if s.states[poisoned] > 0 || !sameAgenda(before, t.params) {
			s.requeueThread(t)
			s.requeueStubs(t)
			s.replanStubs(t)
		}
		if !slices.Equal(before.ReportTimes, t.params.ReportTimes) {
			s.replanDelays(t)
		}
		if limits {
			s.considerUnloadingThread(t)
		}
		if t.ring != nil {
			s.updateThread(t)
		}
	}
	lost.note(s)
	var rings []*ring
	for r := s.ringOrder.head; r != nil; r = s.ringOrder.next(r) {
		rings = append(rings, r)
	}
	for _, r := range rings {
		s.reweigh(r)
		s.retireRing(r)
		s.markDirty(r)
	}
	for _, c := range s.channelOrder {
		c.formerRates = nil
	}
	for _, a := range s.agentsInOrder() {
		s.planDeadline(a)
	}
	if !s.limited() {
		s.loadAll()
	}
	for i, w := range s.walks {
		if w.ring != nil && w.depth > Rings || len(w.steps) > 0 {
			w.replan(remaining[i])
		}
	}
}

// lostCommands counts the mail for which a reload leaves no command.
type lostCommands struct {
	threads, recipients int
	clauses             []string // that gave the commands before, each once; some of them
}

// maxLostClauses bounds the clauses that are named.
const maxLostClauses = 5

// add counts the mail of a thread that was in a ring.
func (l *lostCommands) add(before *ring, t *thread) {
	l.threads++
	l.recipients += t.recipients
	if !slices.Contains(l.clauses, before.clause) && len(l.clauses) <= maxLostClauses {
		l.clauses = append(l.clauses, before.clause)
	}
}

// note asks for one line about all of it, because there may be thousands of threads.
func (l *lostCommands) note(s *Scheduler) {
	if l.threads == 0 {
		return
	}
	clauses := strings.Join(l.clauses[:min(len(l.clauses), maxLostClauses)], ", ")
	if len(l.clauses) > maxLostClauses {
		clauses += " and others"
	}
	s.do(Note{Severity: Error, Text: fmt.Sprintf("after the reload, no clause gives a command for some mail, which waits (recipients: %d, threads: %d); before, these did: %s",
		l.recipients, l.threads, clauses)})
}

// retireRing takes a ring out of use if it has no threads and no new mail would
// belong to it.
func (s *Scheduler) retireRing(r *ring) {
	if r.members.len > 0 {
		return
	}
	again, _ := s.obtainRing(r.example)
	if again == r {
		return
	}
	if again != nil {
		s.dropRingWhenEmpty(again)
	}
	r.retired = true
	if s.rings[r.key] == r {
		delete(s.rings, r.key)
	}
	s.dropRingWhenEmpty(r)
}

// sameAgenda reports whether vertices have the same place in the queue and in
// the agenda under both parameters. If so, a long queue need not be scanned.
func sameAgenda(a, b *Params) bool {
	return a.AgeOrder == b.AgeOrder && a.Share == b.Share && a.QueueOnly == b.QueueOnly && a.Expiry == b.Expiry && a.Expiry2 == b.Expiry2
}

// requeueThread puts the vertices of the thread into the places, in the queue and
// the agenda, that the new parameters call for.
func (s *Scheduler) requeueThread(t *thread) {
	for ref := t.vertices.head; ref != 0; {
		next := t.vertices.next(ref)
		v := s.vertices.at(ref)
		switch v.state {
		case poisoned:
			v.crashes = 0
			s.makeDue(v)
		case due:
			nextRun := v.queue != t.active && t.params.QueueOnly
			s.dequeueVertex(v)
			s.enqueueVertex(t, v, nextRun)
			s.planWake(v)
		case waiting, blocked:
			s.planWake(v)
		}
		ref = next
	}
}
