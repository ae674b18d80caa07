package scheduler

// Invariants of what is fed next: flows, shares and jobs.

// checkQueues: each due vertex of a thread is in the flow of its share, under
// the size of its job; and picks find each that they may pick.
func (s *Scheduler) checkQueues(t *thread) {
	parked := make(map[*sizeQueue]bool)
	for _, sq := range t.parked {
		assert(sq.place == inParked && sq.flow.thread == t && !parked[sq], "thread %v has parked what is not", t.key)
		parked[sq] = true
	}
	total := 0
	for i := range t.queues {
		dq := &t.queues[i]
		n, limited := 0, 0
		for index, f := range dq.flows {
			assert(f.thread == t && int(f.index) == index && int(f.queue) == i && s.flowOf(t, uint8(i), f.share) == f && s.flows.at(f.ref) == f, "thread %v has a flow of another", t.key)
			assert(f.share.ring == t.memberOf && f.share.ring.shares[f.share.name] == f.share, "thread %v has a flow in a share that is gone", t.key)
			inFlow := 0
			for sq := range f.all {
				inFlow += sq.len()
				limited += sq.len() - sq.due.len()
				s.checkSizeQueue(t, sq)
				assert(parked[sq] == (sq.place == inParked), "thread %v has parked a queue or not", t.key)
			}
			assert(inFlow == int(f.n) && (inFlow > 0 || f.hasParked()), "thread %v: a flow of %d, kept %d", t.key, inFlow, f.n)
			n += inFlow
		}
		assert(n == dq.n && limited == dq.limited, "thread %v: %d due, kept %d; %d limited, kept %d", t.key, n, dq.n, limited, dq.limited)
		total += n
	}
	if t.records != nil {
		total += s.dueRecords(t)
	}
	assert(total == int(t.states[due]), "thread %v: %d queued of %d due", t.key, total, t.states[due])
}

func (s *Scheduler) checkSizeQueue(t *thread, sq *sizeQueue) {
	f := sq.flow
	for _, h := range []*heap[vertexRef]{&sq.due, sq.limited} {
		if h == nil {
			continue
		}
		h.each(func(key instant, ref vertexRef) {
			v := s.vertices.at(ref)
			assert(s.threadOf(v) == t && v.state == due && v.flow == f.ref && v.queue == f.queue, "a vertex of %d in the queue of %v", s.messageOf(v).id, t.key)
			assert(s.sizeOf(v) == sq.size && key == s.queueKey(t, v), "a vertex of %d has size %d and key %d, queued as %d, %d", s.messageOf(v).id, s.sizeOf(v), s.queueKey(t, v), sq.size, key)
			assert(v.aside == (h == sq.limited), "a vertex of %d is set aside: %v", s.messageOf(v).id, v.aside)
		})
	}
	if sq.due.len() == 0 || f.queue != t.active {
		assert(sq.place == inNone || sq.place == inParked, "an empty queue of %v is in place %d", t.key, sq.place)
		return
	}
	assert(sq.place != inNone, "picks do not find mail of %v", t.key)
	assert(sq.place != inParked || !t.open, "thread %v is open and its mail is parked", t.key)
	assert(sq.place != inOpen || f.share.takesTurns(), "a share with mail to pick does not take turns")
	sz := f.share.size(sq.size)
	for place, h := range map[place]*heap[*sizeQueue]{inOpen: &sz.open, inSpent: &sz.spent} {
		if sq.place == place {
			e := h.at(int(sq.index) - 1)
			assert(e.item == sq && e.key == sq.due.next(), "a queue of %v is in its share with another key", t.key)
		}
	}
}

// checkTurns: shares and jobs of a ring are counted right, and the first vertex
// of a share is the one that a look at all of them finds.
func (s *Scheduler) checkTurns(r *ring) {
	flows, dueNow := make(map[*share]int), make(map[*share]int)
	for t := r.members.head; t != nil; t = r.members.next(t) {
		for i := range t.queues {
			for _, f := range t.queues[i].flows {
				flows[f.share]++
				dueNow[f.share] += int(f.n)
			}
		}
	}
	for name, sh := range r.shares {
		assert(sh.name == name && sh.ring == r && flows[sh] == sh.flows, "share %q: %d flows, kept %d", name, flows[sh], sh.flows)
		assert(dueNow[sh] == sh.due, "share %q: %d due vertices, kept %d", name, dueNow[sh], sh.due)
		assert(sh.flows > 0 || sh.takesTurns() || sh.deficit < 0, "share %q is empty and still there", name)
		assert(sh.weight == s.config.weight(name), "share %q has weight %d", name, sh.weight)
		want, key := vertexRef(0), never
		for t := r.members.head; t != nil; t = r.members.next(t) {
			if f := s.flowOf(t, t.active, sh); f != nil && t.open && f.hasQuantum() {
				for sq := range f.all {
					sq.due.each(func(k instant, v vertexRef) {
						if sq.place == inOpen && k < key {
							want, key = v, k
						}
					})
				}
			}
		}
		got := sh.firstOpen()
		assert((got == nil) == (want == 0) && (got == nil || got.due.next() == key), "share %q: the first vertex in list order is not found", name)
		for _, j := range sh.moved {
			assert(j.share == sh && j.due > 0 && j.key&(1<<keyBits-1) != 0, "share %q has a job that has not overtaken", name)
		}
	}
}

// checkJobs: the vertices of a message are counted in its jobs.
func (s *Scheduler) checkJobs(m *message) {
	if !s.isMulti(m) {
		return
	}
	dueNow, open, sessions := make(map[*ring]int32), make(map[*ring]int32), int32(0)
	s.eachVertex(m, func(v *vertex) {
		if v.state == fed {
			sessions++
		}
		if v.thread != 0 {
			r := s.threadOf(v).memberOf
			open[r]++
			if v.state == due {
				dueNow[r]++
			}
		}
	})
	x := s.extras.at(m.extras)
	assert(x.sessions == sessions, "message %d has %d sessions, kept %d", m.id, sessions, x.sessions)
	for _, j := range x.jobs {
		s.checkJob(m, j, dueNow[j.ring], open[j.ring])
	}
}

func (s *Scheduler) checkJob(m *message, j *job, dueNow, open int32) {
	assert(j.due == dueNow && j.open == open && (j.due > 0) == (j.share != nil), "job of %d: %d due, kept %d; %d open, kept %d", m.id, dueNow, j.due, open, j.open)
	assert(j.parent == nil || j.due > 0 && j.parent.due > 0, "job of %d has preempted one that is gone", m.id)
	for _, child := range j.children {
		assert(child.parent == j, "job of %d has the child of another", m.id)
	}
}
