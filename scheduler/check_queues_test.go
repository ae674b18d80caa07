package scheduler

import "zsched/scheduler/store"

// Invariants of what is fed next: flows, shares and jobs.

// checkQueues: each due vertex of a thread is in the flow of its share, under
// the size of its job; and picks find each that they may pick.
func (s *Scheduler) checkQueues(t *thread) {
	parked := make(map[*flow]bool)
	for _, f := range t.parked {
		assert(f.place == inParked && f.thread == t && !parked[f], "thread %v has parked what is not", t)
		parked[f] = true
	}
	total := 0
	for i := range t.queues {
		dq := &t.queues[i]
		n, limited, shares := 0, 0, 0
		for f := range s.eachFlow(dq) {
			assert(f.thread == t && int(f.queue) == i && s.flows.At(f.ref) == f, "thread %v has a flow of another", t)
			assert(f.share.ring == t.memberOf && f.share.ring.shares[f.share.name] == f.share, "thread %v has a flow in a share that is gone", t)
			assert(parked[f] == (f.place == inParked), "thread %v has parked a flow or not", t)
			assert(f.len() > 0 || f.place == inParked, "thread %v has an empty flow", t)
			s.checkFlow(t, f)
			s.checkSiblings(f)
			n += f.len()
			if f.extras != nil {
				limited += f.extras.limited.Len()
			}
		}
		for ref := range dq.flows.all {
			shares++
			assert(dq.flows.find(s.flows.At(ref).share.ref) == ref, "thread %v: a flow is not found by its share", t)
		}
		assert(shares == dq.flows.len(), "thread %v has mail of %d shares, kept %d", t, shares, dq.flows.len())
		assert(n == dq.len() && n-limited == dq.pickable(), "thread %v: %d due, kept %d; %d limited, kept %d", t, n, dq.n, limited, dq.limited)
		total += n
	}
	if t.stubs != nil {
		for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
			if state, _ := s.stateOf(n); state == due {
				total++
			}
		}
	}
	assert(total == int(t.states[due]), "thread %v: %d queued of %d due", t, total, t.states[due])
}

// eachDue calls do with each vertex of the flow that is not limited.
func (f *flow) eachDue(do func(key instant, v vertexRef)) {
	switch {
	case f.extras != nil:
		f.extras.due.Each(do)
	case f.vertex != 0:
		do(f.key, f.vertex)
	}
}

func (s *Scheduler) checkFlow(t *thread, f *flow) {
	checkVertex := func(key instant, ref vertexRef, aside bool) {
		v := s.vertices.At(ref)
		assert(s.threadOf(v) == t && v.state == due && v.flow == f.ref && v.queue == f.queue, "a vertex of %d in the queue of %v", s.messageOf(v).id, t)
		assert(s.sizeOf(v) == f.size && key == s.queueKey(t, v) && key == s.keyOf(v), "a vertex of %d has size %d and key %d, queued as %d, %d", s.messageOf(v).id, s.sizeOf(v), s.queueKey(t, v), f.size, key)
		assert(v.aside == aside, "a vertex of %d is set aside: %v", s.messageOf(v).id, v.aside)
	}
	first, least := vertexRef(0), never
	f.eachDue(func(key instant, v vertexRef) {
		checkVertex(key, v, false)
		if key < least {
			first, least = v, key
		}
	})
	assert(f.key == least && (f.vertex == 0) == (first == 0) && (first == 0 || s.keyOf(s.vertices.At(f.vertex)) == least), "a flow of %v has the wrong first vertex", t)
	if f.extras != nil {
		f.extras.limited.Each(func(key instant, v vertexRef) { checkVertex(key, v, true) })
	}
	if f.vertex == 0 || f.queue != t.active {
		assert(f.place == inNone || f.place == inParked, "an empty flow of %v is in place %d", t, f.place)
		return
	}
	assert(f.place != inNone, "picks do not find mail of %v", t)
	assert(f.place != inParked || !t.open, "thread %v is open and its mail is parked", t)
	assert(f.place != inOpen || f.share.takesTurns(), "a share with mail to pick does not take turns")
	sz := f.share.size(f.size)
	for place, h := range map[place]*store.Heap[instant, flowRef]{inOpen: &sz.open, inSpent: &sz.spent} {
		if f.place == place {
			assert(h.Contains(f.ref) && h.KeyOf(f.ref) == f.key, "a flow of %v is in its share with another key", t)
		}
	}
}

// checkSiblings: siblings have the same thread and share, and other sizes.
func (s *Scheduler) checkSiblings(f *flow) {
	sizes := make(map[int32]bool)
	for g := range f.siblings {
		assert(g.thread == f.thread && g.share == f.share && g.queue == f.queue && !sizes[g.size], "a flow of %v has a sibling of another", f.thread)
		assert(g.round == f.round && g.picks == f.picks, "siblings of %v have %d and %d picks", f.thread, g.picks, f.picks)
		sizes[g.size] = true
	}
}

// checkTurns: shares and jobs of a ring are counted right, and the first vertex
// of a share is the one that a look at all of them finds.
func (s *Scheduler) checkTurns(r *ring) {
	flows, dueNow := make(map[*share]int), make(map[*share]int)
	for t := r.members.Head; t != nil; t = r.members.Next(t) {
		for i := range t.queues {
			for ref := range t.queues[i].flows.all {
				flows[s.flows.At(ref).share]++
			}
			for f := range s.eachFlow(&t.queues[i]) {
				dueNow[f.share] += f.len()
			}
		}
	}
	for name, sh := range r.shares {
		assert(sh.name == name && sh.ring == r && flows[sh] == sh.flows, "share %q: %d flows, kept %d", name, flows[sh], sh.flows)
		assert(dueNow[sh] == sh.due, "share %q: %d due vertices, kept %d", name, dueNow[sh], sh.due)
		assert(sh.flows > 0 || sh.takesTurns() || sh.deficit < 0, "share %q is empty and still there", name)
		assert(sh.weight == s.config.Weight(name), "share %q has weight %d", name, sh.weight)
		want, key := vertexRef(0), never
		for t := r.members.Head; t != nil; t = r.members.Next(t) {
			if f := s.flowOf(t, t.active, sh); f != nil && t.open && f.hasQuantum() {
				for g := range f.siblings {
					g.eachDue(func(k instant, v vertexRef) {
						if g.place == inOpen && k < key {
							want, key = v, k
						}
					})
				}
			}
		}
		got := sh.firstOpen()
		assert((got == nil) == (want == 0) && (got == nil || got.key == key), "share %q: the first vertex in list order is not found", name)
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
	x := s.extrasOf(m)
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
