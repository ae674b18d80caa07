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
		for i := range v.len() {
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
			if last == nil || known.NextAt > last.NextAt {
				last = known
			}
		}
		if last == nil {
			return
		}
		for i := range v.len() {
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
	if till := q.restoredInstant(saved.SiteAt, time.Duration(siteLifetime)); till != 0 && saved.Site != "" {
		q.restoreSite(key, saved.Site, till)
	}
	shaped := q.restoredInstant(saved.PaidAt, rule.LongestRetry) != 0 || len(saved.Effects) > 0
	if t := q.threads[key]; t != nil {
		q.restoreThread(t)
		q.updateThread(t)
	} else if q.restoredInstant(saved.SuspendedUntil, rule.LongestRetry) != 0 {
		q.obtainThread(key)
	} else if shaped {
		q.updateThread(q.obtainThread(key)) // drops it if nothing of that is in force
	}
}

// restoreThread restores the saved state of a thread, if there is any.
func (q *queue) restoreThread(t *thread) {
	saved := q.restoring.threads[t.key]
	if saved == nil {
		return
	}
	delete(q.restoring.threads, t.key)
	p := t.params
	t.retry, t.inRetryStep = uint8(min(max(0, saved.Step), int(^uint8(0)))), saved.InRetryStep
	t.window = limit.Window{Dead: saved.Dead}
	if p.InitialConcurrency > 0 && !saved.Dead {
		t.window = limit.Window{
			Size:    min(max(0, saved.Window), max(1, p.MaxThr)),
			Success: fractionOf(saved.Success, 1), Failure: fractionOf(saved.Failure, 1),
			FailedCohorts: fractionOf(saved.FailedCohorts, p.CohortLimit),
		}
	}
	if t.diagnostic == 0 {
		t.diagnostic = q.restoreDiagnostic(diagnostic{saved.Notary, saved.Text})
	}
	q.restoreShaping(t, saved)
	if till := q.restoredInstant(saved.SuspendedUntil, p.LongestWait(saved.InRetryStep)); till != 0 {
		q.suspend(t, till)
	}
}

// restoreShaping restores the tokens of a thread and the effects of reply rules that
// are still there.
func (q *queue) restoreShaping(t *thread, saved *SavedThread) {
	if till := q.restoredInstant(saved.PaidAt, t.params.LongestWait(false)); till != 0 && len(t.params.Rate) > 0 {
		t.shaping.rate.PaidAt = time.Duration(till)
	}
	for _, e := range saved.Effects {
		st := findRule(q.replyRules, e.Rule)
		if st == nil || !st.rule.Verb.Lasts() {
			continue
		}
		till := q.restoredInstant(e.Until, st.rule.Span)
		if till == 0 {
			continue
		}
		st.effects++
		x := q.obtainShaping(t)
		x.effects = append(x.effects, effect{state: st, since: till - instant(st.rule.Span), until: till})
	}
	if t.shaping != nil {
		q.updateEffects(t)
		q.updateGate(t)
	}
}

// restoreSite restores what an earlier process knew of the site of a thread.
func (q *queue) restoreSite(key threadKey, name string, until instant) {
	if q.knownSite(key) != "" || q.siteNames.Len() >= maxKnownSites {
		return
	}
	q.siteNames.Note(key, name, time.Duration(until))
	if t := q.threads[key]; t != nil {
		q.setSite(t)
	}
}

// fractionOf returns x if it is at least 0 and below the limit, otherwise 0.
func fractionOf(x, limit float64) float64 {
	if x >= 0 && x < limit {
		return x
	}
	return 0
}
