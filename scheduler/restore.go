package scheduler

import (
	"maps"
	"slices"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Warm restart: what an earlier process knew about the mail was saved (save.go),
// and is restored when the mail is loaded. The configuration bounds all restored
// times, because clocks may have been changed in the meantime.

// restoring has the saved state of threads that have no mail yet. It is dropped
// at AllLoaded.
type restoring struct {
	threads     map[threadKey]*SavedThread
	diagnostics map[diagnostic]diagnosticRef // each with a user, so that mail of all threads shares them
}

// allLoaded drops the saved state of threads that still have no mail, and the orders on mail that
// is gone.
func (q *queue) allLoaded() {
	maps.DeleteFunc(q.savedOrders, func(id MessageID, _ []SavedOrder) bool { return q.unloaded.find(id) == 0 })
	for _, ref := range q.restoring.diagnostics {
		q.diagnostics.Release(ref)
	}
	q.restoring = restoring{}
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
func (q *queue) restore(m *message, saved []SavedRecipient) {
	if len(saved) == 0 {
		return
	}
	q.eachVertex(m, func(v *vertex) {
		var last *SavedRecipient
		for i := range q.lenOf(v) {
			r := q.recipient(v, i)
			at, found := slices.BinarySearchFunc(saved, int64(r.offset), func(s SavedRecipient, offset int64) int { return int(s.Offset - offset) })
			if !found {
				continue
			}
			known := &saved[at]
			r.attempts = uint16(min(max(0, known.Attempts), int(^uint16(0))))
			r.flags |= triedBefore
			q.threadOf(v).attempts += int(r.attempts)
			r.diagnostic = q.restoreDiagnostic(diagnostic{known.Notary, known.Text})
			if t := q.threadOf(v); t.diagnostic == 0 && r.diagnostic != 0 {
				t.diagnostic = q.diagnostics.Retain(r.diagnostic)
			}
			if last == nil || known.NextAt > last.NextAt {
				last = known
			}
		}
		if last == nil {
			return
		}
		for i := range q.lenOf(v) {
			if r := q.recipient(v, i); r.attempts == 0 {
				r.attempts = uint16(min(max(0, last.Attempts), int(^uint16(0))))
				r.flags |= triedBefore
			}
		}
		v.fedAt = secondOf(time.Unix(last.FedAt, 0))
		v.retry = uint8(min(max(0, last.Step), int(^uint8(0))))
		v.destinationFailed, v.inRetryStep = last.DestinationFailed, last.InRetryStep
		if at := q.restoredInstant(last.NextAt, q.threadOf(v).params.LongestWait(last.InRetryStep)); at > q.now {
			q.setState(v, waiting, at)
		}
	})
}

// restoreDiagnostic returns the number of a report and adds a user to it.
func (q *queue) restoreDiagnostic(d diagnostic) diagnosticRef {
	if d == (diagnostic{}) {
		return 0
	}
	ref := q.restoring.diagnostics[d]
	if ref == 0 {
		ref = q.diagnostics.Add(d)
		if q.restoring.diagnostics == nil {
			q.restoring.diagnostics = make(map[diagnostic]diagnosticRef)
		}
		q.restoring.diagnostics[d] = ref
	}
	return q.diagnostics.Retain(ref)
}

// restored keeps the saved state of a thread until the thread exists. It creates a
// suspended thread at once; any other exists when it has mail.
func (q *queue) restored(saved *SavedThread) {
	key := threadKey{saved.Channel, saved.Host}
	if q.restoring.threads == nil {
		q.restoring.threads = make(map[threadKey]*SavedThread)
	}
	q.restoring.threads[key] = saved
	if saved.Site != "" && q.siteNames.Len() < maxKnownSites {
		q.siteNames.Note(key, saved.Site, time.Duration(q.now+siteLifetime))
	}
	if t := q.threads[key]; t != nil {
		q.restoreThread(t)
		q.updateThread(t)
	} else if q.restoredInstant(saved.SuspendedUntil, rule.LongestRetry) != 0 {
		q.obtainThread(key)
	}
}

// restoreThread restores the saved state of a thread, if there is any.
func (q *queue) restoreThread(t *thread) {
	saved := q.restoring.threads[t.key]
	if saved == nil {
		return
	}
	delete(q.restoring.threads, t.key)
	t.retry, t.inRetryStep = uint8(min(max(0, saved.Step), int(^uint8(0)))), saved.InRetryStep
	t.window = limit.Window{Dead: saved.Dead}
	if till := q.restoredInstant(saved.SuspendedUntil, t.params.LongestWait(saved.InRetryStep)); till != 0 {
		q.suspend(t, till)
	}
}
