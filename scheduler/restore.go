package scheduler

import (
	"cmp"
	"slices"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// Warm restart: what an earlier process knew about the mail was saved (save.go),
// and is restored when the mail is loaded. The configuration bounds all restored
// times, because clocks may have been changed in the meantime.

// saved is what an earlier process has left.
type saved struct{ s *Scheduler }

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
// already. Of several records of one vertex, as version 0.9 saved them, that of its first
// recipient counts.
func (sa *saved) restore(m *message, saved []SavedRecipient) {
	if len(saved) == 0 {
		return
	}
	sa.s.mail.eachVertex(m, func(v *vertex) {
		for i := range sa.s.mail.lenOf(v) {
			offset := int64(sa.s.mail.recipient(v, i).offset)
			at, found := slices.BinarySearchFunc(saved, offset, func(s SavedRecipient, offset int64) int { return cmp.Compare(s.Offset, offset) })
			if found {
				sa.restoreVertex(v, &saved[at])
				return
			}
		}
	})
}

func (sa *saved) restoreVertex(v *vertex, saved *SavedRecipient) {
	t := sa.s.mail.threadOf(v)
	v.fedAt = secondOf(time.Unix(saved.FedAt, 0))
	for i := range sa.s.mail.lenOf(v) {
		r := sa.s.mail.recipient(v, i)
		r.attempts = bounded[uint16](saved.Attempts)
		r.flags |= triedBefore
		t.attempts += int32(r.attempts)
		said := &ta.Report{Notary: ta.Notary(saved.Notary).WithoutRecipient(), Text: saved.Text}
		if sa.s.mail.keepDiagnostic(v, i, said) && v.fedAt >= t.lastFedAt {
			sa.s.mail.setLastDiagnostic(v)
		}
	}
	v.retry = bounded[uint8](saved.Step)
	if at := sa.s.agenda.restoredInstant(saved.NextAt, cmp.Or(t.params.Expiry, rule.LongestRetry)); at != 0 {
		sa.s.threads.setState(v, waiting, at)
	}
}

// bounded returns the number that is nearest to n in a type.
func bounded[T uint8 | uint16](n int) T { return T(min(max(0, n), int(^T(0)))) }

// restoreOrders applies orders that an earlier process has not carried out to a message that
// arrives. It reports whether any has an effect.
func (sa *saved) restoreOrders(m *message, orders []Ordered) (any bool) {
	for i := range orders {
		o := &orders[i]
		o.recorded = true
		any = sa.s.orders.apply(o, m, sa.s.orders.targetVertices(o, m, o.Targets), new(Answer)) > 0 || any
	}
	return any
}

// restored restores the saved state of a thread. If its suspension is over, only its site is
// left: the destination is tried like any other.
func (sa *saved) restored(saved *SavedThread) {
	key := threadKey{saved.Channel, saved.Host}
	if saved.Site != "" {
		sa.s.limits.noteSite(key, saved.Site)
	}
	till := sa.s.agenda.restoredInstant(saved.SuspendedUntil, rule.LongestRetry)
	if till == 0 {
		return
	}
	t := sa.s.threads.obtainThread(key)
	t.retry = bounded[uint8](saved.Step)
	t.window = limit.Window{Dead: saved.Dead}
	sa.s.threads.suspend(t, min(till, sa.s.agenda.now.after(cmp.Or(t.params.Expiry, rule.LongestRetry))))
}
