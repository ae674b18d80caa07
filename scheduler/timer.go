package scheduler

// Timers: everything but a vertex that has something planned for a time. The owner, such as
// a thread, an agent or a rate, has a timer as a field for each such thing. The waits of
// vertices are in the heap of their thread (waiting.go), which has a timer for the first. Their
// expiries are found by passes (expiry.go).

// timer is something that happens at a time.
type timer struct {
	due   func() // called when the time has come; set by the owner
	index int32  // in agenda.timers; 0: nothing is planned
}

// isPlanned reports whether something is planned.
func (t *timer) isPlanned() bool { return t.index != 0 }

// plan plans a timer for an instant, in place of what was planned before; never: nothing.
func (ag *agenda) plan(t *timer, at instant) {
	if at == never {
		ag.timers.Remove(t)
		return
	}
	ag.timers.Put(at, t)
}

// plannedAt returns for when a timer is planned; never: it is not.
func (ag *agenda) plannedAt(t *timer) instant {
	if !t.isPlanned() {
		return never
	}
	return ag.timers.KeyOf(t)
}

// wakeSlice bounds how much work one Tick does, so that a
// million wake-ups at one moment do not delay the answers to agents. The rest stays
// overdue, and Next asks for another Tick at once.
const wakeSlice = 500

// wakeTimers does what is planned up to now.
func (ag *agenda) wakeTimers() {
	for ag.work = 0; ag.work < wakeSlice && ag.timers.Next() <= ag.now; ag.work++ {
		ag.timers.Pop().due()
	}
}
