package scheduler

// reload puts a new configuration in force. A thread whose clauses, command
// and process attributes come out as before keeps its ring, its agents and
// its wake-ups; limits and intervals hold at once. Agents of a ring that no
// thread belongs to any more finish their job lines and leave. What was put
// aside because agents died on it gets another chance.
func (s *Scheduler) reload(config *Config) {
	remaining := make([]map[walkStep]bool, len(s.walks))
	for i, w := range s.walks {
		if w.depth > Rings {
			remaining[i] = w.remaining()
		}
	}
	s.config = config
	clear(s.startFailures)
	for _, c := range s.channelOrder {
		c.latest = nil
		c.sessionQueues.clear()
		c.processQueues.clear()
	}
	s.processQueues.clear()
	for _, t := range s.threadsInOrder() {
		before := t.params
		s.assignRing(t)
		t.running = t.running && t.params.QueueOnly
		if s.states[poisoned] > 0 || !sameAgenda(before, t.params) {
			s.requeueThread(t)
		}
		if t.ring != nil {
			s.updateThread(t)
		}
	}
	var rings []*ring
	for r := s.order.head; r != nil; r = s.order.next(r) {
		rings = append(rings, r)
	}
	for _, r := range rings {
		s.retireRing(r)
		s.markDirty(r)
	}
	for _, a := range s.agentsInOrder() {
		s.planDeadline(a)
	}
	for i, w := range s.walks {
		if w.ring != nil && w.depth > Rings || len(w.steps) > 0 {
			w.replan(remaining[i])
		}
	}
}

// retire takes a ring out of use that no mail would come to any more.
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

// sameAgenda reports whether vertices have the same place in line and in the
// agenda under both parameters. Then a long queue need not be walked.
func sameAgenda(a, b *Params) bool {
	return a.AgeOrder == b.AgeOrder && a.QueueOnly == b.QueueOnly && a.Expiry == b.Expiry && a.Expiry2 == b.Expiry2
}

// requeue puts the thread's vertices where the new parameters want them.
func (s *Scheduler) requeueThread(t *thread) {
	for v := s.vertices.get(t.vertices.head); v != nil; {
		next := s.vertices.get(v.next)
		switch v.state {
		case poisoned:
			v.crashes = 0
			s.makeDue(v)
		case due:
			nextRun := v.queue != t.active && t.params.QueueOnly
			t.dequeueVertex(v)
			s.enqueueVertex(t, v, nextRun)
			s.planWake(v)
		case waiting, blocked:
			s.planWake(v)
		}
		v = next
	}
}

// clear lets all rings out of the lines; who still has to wait comes back.
func (p *limitQueues) clear() {
	for _, line := range *p {
		for line.head != nil {
			line.head.dequeue()
		}
	}
	*p = nil
}
