package scheduler

// Looks: when something must be written about mail that is not loaded, because it expires or a notice
// is due. Then it is loaded.

// planLook plans when something must be written about a stub.
func (q *queue) planLook(n stubRef) {
	s := q.unloaded.stubs.At(n)
	t := q.stubThread(s)
	look := q.nextLookAt(t, s.modifiedAt, s.flags&stubMustAttempt == 0, q.stubOverdue(s, t))
	if p, found := q.unloaded.plans[s.id]; found {
		if p.loadAt != 0 {
			look = min(look, p.loadAt)
		}
		if p.noticeAt != 0 {
			look = min(look, q.dateAt(p.noticeAt))
		}
	}
	if s.flags&stubWantsDelays != 0 {
		for _, age := range t.params.ReportTimes {
			if at := s.modifiedAt.after(age); at > q.date {
				look = min(look, at)
			}
		}
	}
	if q.mustWrite(s, t) {
		look = q.date
	}
	q.unloaded.looks.set(n, look)
}

// mustWrite reports whether something must be written about a message that is not loaded.
func (q *queue) mustWrite(s *stub, t *thread) bool {
	p := q.unloaded.plans[s.id]
	return p.loadAt != 0 && p.loadAt <= q.date || p.noticeAt != 0 && p.noticeAt <= q.now || q.stubOverdue(s, t) ||
		s.flags&stubWantsDelays != 0 && q.reportTimesPassed(t, s.modifiedAt) > int(s.told)
}

// stubOverdue reports whether the recipients of a stub have expired, as overdue does for a
// vertex.
func (q *queue) stubOverdue(s *stub, t *thread) bool {
	primary, secondary := q.expiryOf(t.params, s.modifiedAt)
	if q.date < primary || t.held || t.updates&releaseHeld != 0 || s.flags&stubMustAttempt != 0 {
		return false
	}
	return q.date >= secondary || s.flags&stubTried != 0 || q.isDead(t, primary)
}

// replanStubs plans the looks at the stubs of a thread whose parameters have changed. Mail that
// is older than a new one of reporttimes is reported at once.
func (q *queue) replanStubs(t *thread) {
	if t.stubs == nil {
		return
	}
	for n := t.stubs.all.Head; n != 0; n = t.stubs.all.Next(n) {
		s := q.unloaded.stubs.At(n)
		s.told = min(s.told, uint8(min(q.reportTimesPassed(t, s.modifiedAt), 255)))
		if q.unloaded.loading[s.id] == nil {
			q.planLook(n)
		}
	}
}

// lookAtStubs finds the mail about which something must be written now.
func (q *queue) lookAtStubs() {
	u := &q.unloaded
	if !q.looksNow() || u.looks.next() > q.date {
		return
	}
	for _, n := range u.looks.take(q.date, maxUrgent) {
		s := u.stubs.At(n)
		if s.id == 0 {
			continue
		}
		if q.mustWrite(s, q.stubThread(s)) {
			q.loadSoon(s.id)
		} else {
			q.planLook(n)
		}
	}
}

// maxUrgent bounds the mail that waits to be loaded because its time has come. What orders
// concern is not bounded.
const maxUrgent = 1000

// looksNow reports whether lookAtStubs looks for more.
func (q *queue) looksNow() bool { return len(q.unloaded.urgent) < maxUrgent }
