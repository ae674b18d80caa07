package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Warm restart: what an earlier process knew about the mail was saved (save.go),
// and is restored when the mail is loaded. The configuration bounds all restored
// times, because clocks may have been changed in the meantime.

// saved is what an earlier process has left.
type saved struct {
	s *Scheduler

	restoring restoring
}

// restoring has the saved state of threads that have no mail yet. It is dropped
// at AllLoaded.
type restoring struct {
	threads     map[threadKey]*SavedThread
	diagnostics map[diagnostic]diagnosticRef // each with a user, so that mail of all threads shares them
}

// allLoaded drops the saved state of threads that still have no mail, and the orders on mail that
// is gone.
func (sa *saved) allLoaded() {
	maps.DeleteFunc(sa.s.orders.savedOrders, func(id MessageID, _ []SavedOrder) bool { return sa.s.mail.message(id) == nil })
	for _, ref := range sa.restoring.diagnostics {
		sa.s.mail.diagnostics.Release(ref)
	}
	sa.restoring = restoring{}
}

// restoredInstant converts a saved time. It returns 0 for a time that is not after
// now, and never a time more than limit after now.
func (ag *agenda) restoredInstant(seconds int64, limit time.Duration) instant {
	till := min(ag.instantAt(dateOf(time.Unix(seconds, 0))), ag.now.after(limit))
	if seconds <= 0 || till <= ag.now {
		return 0
	}
	return till
}

// restore restores the saved state of the recipients of a message that was just
// created. The vertices are not in the queue yet; those that are to wait do so
// already. What was saved of one recipient also counts for those of its vertex of
// which nothing was saved.
func (sa *saved) restore(m *message, saved []SavedRecipient) {
	if len(saved) == 0 {
		return
	}
	sa.s.mail.eachVertex(m, func(v *vertex) { sa.restoreVertex(v, saved) })
}

func (sa *saved) restoreVertex(v *vertex, saved []SavedRecipient) {
	t := sa.s.mail.threadOf(v)
	var last *SavedRecipient
	for i := range sa.s.mail.lenOf(v) {
		r := sa.s.mail.recipient(v, i)
		at, found := slices.BinarySearchFunc(saved, int64(r.offset), func(s SavedRecipient, offset int64) int { return int(s.Offset - offset) })
		if !found {
			continue
		}
		known := &saved[at]
		r.attempts = bounded[uint16](known.Attempts)
		r.flags |= triedBefore
		t.attempts += int(r.attempts)
		r.diagnostic = sa.restoreDiagnostic(diagnostic{known.Notary, known.Text})
		if t.diagnostic == 0 && r.diagnostic != 0 {
			t.diagnostic = sa.s.mail.diagnostics.Retain(r.diagnostic)
		}
		if last == nil || known.NextAt > last.NextAt {
			last = known
		}
	}
	if last == nil {
		return
	}
	for i := range sa.s.mail.lenOf(v) {
		if r := sa.s.mail.recipient(v, i); r.flags&triedBefore == 0 {
			r.attempts = bounded[uint16](last.Attempts)
			r.flags |= triedBefore
		}
	}
	v.fedAt = secondOf(time.Unix(last.FedAt, 0))
	v.retry = bounded[uint8](last.Step)
	if at := sa.s.agenda.restoredInstant(last.NextAt, cmp.Or(t.params.Expiry, rule.LongestRetry)); at != 0 {
		sa.s.threads.setState(v, waiting, at)
	}
}

// bounded returns the number that is nearest to n in a type.
func bounded[T uint8 | uint16](n int) T { return T(min(max(0, n), int(^T(0)))) }

// restoreDiagnostic returns the number of a report and adds a user to it.
func (sa *saved) restoreDiagnostic(d diagnostic) diagnosticRef {
	if d == (diagnostic{}) {
		return 0
	}
	ref := sa.restoring.diagnostics[d]
	if ref == 0 {
		ref = sa.s.mail.diagnostics.Add(d)
		if sa.restoring.diagnostics == nil {
			sa.restoring.diagnostics = make(map[diagnostic]diagnosticRef)
		}
		sa.restoring.diagnostics[d] = ref
	}
	return sa.s.mail.diagnostics.Retain(ref)
}

// restored keeps the saved state of a thread until the thread exists. It creates a
// suspended thread at once; any other exists when it has mail.
func (sa *saved) restored(saved *SavedThread) {
	key := threadKey{saved.Channel, saved.Host}
	if sa.restoring.threads == nil {
		sa.restoring.threads = make(map[threadKey]*SavedThread)
	}
	sa.restoring.threads[key] = saved
	if saved.Site != "" && len(sa.s.limits.knownSites) < maxKnownSites {
		sa.s.limits.noteSite(key, saved.Site)
	}
	if t := sa.s.threads.byKey[key]; t != nil {
		sa.restoreThread(t)
		sa.s.threads.updateThread(t)
	} else if sa.s.agenda.restoredInstant(saved.SuspendedUntil, rule.LongestRetry) != 0 {
		sa.s.threads.obtainThread(key)
	}
}

// restoreThread restores the saved state of a thread, if there is any.
func (sa *saved) restoreThread(t *thread) {
	saved := sa.restoring.threads[t.key]
	if saved == nil {
		return
	}
	delete(sa.restoring.threads, t.key)
	t.retry = bounded[uint8](saved.Step)
	t.window = limit.Window{Dead: saved.Dead}
	if till := sa.s.agenda.restoredInstant(saved.SuspendedUntil, cmp.Or(t.params.Expiry, rule.LongestRetry)); till != 0 {
		sa.s.threads.suspend(t, till)
	}
}
