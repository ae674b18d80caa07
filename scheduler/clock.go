package scheduler

import (
	"math"
	"time"
)

// The wall clock: what happens when it is set. Waits are as long as they would have
// been; expiry, deadlines of senders, reporttimes, rates by date and suspensions by
// an administrator follow the clock.

// clockSet is called before the time of a Step takes effect. by is how far the clock
// was set forward; below 0: back. All times that are relative to an event in the queue
// move with the clock. Message files keep their times.
func (s *Scheduler) clockSet(by time.Duration) {
	by = by.Round(time.Second)
	s.now, s.startedAt = s.now.shifted(by), s.startedAt.shifted(by)
	for _, t := range s.threadsInOrder() {
		s.shiftThread(t, by)
	}
	for _, a := range s.agents {
		a.shift(by)
	}
	for _, t := range s.startFailures {
		t.until = t.until.shifted(by)
	}
	s.forks.second += instant(by / time.Second)
	s.store.retryAt = s.store.retryAt.shifted(by)
	s.stop.deadline = s.stop.deadline.shifted(by)
	for _, p := range s.noticePlans {
		p.at = p.at.shifted(by)
	}
	for _, x := range s.records.extras {
		x.noticeAt = x.noticeAt.shifted(by)
	}
	s.eachShared(func(b *bucket) {
		b.shift(by)
		s.noteRateChange(b)
	})
	for key, paidAt := range s.savedRates {
		s.savedRates[key] = paidAt.shifted(by)
	}
	for k := s.siteOrder.head; k != nil; k = s.siteOrder.next(k) {
		k.until = k.until.shifted(by)
	}
	s.resumes.rekey(func(key instant) instant { return key.shifted(by) })
	s.deadlines.rekey(func(key instant) instant { return key.shifted(by) })
	s.backoffs.rekey(func(key instant) instant { return key.shifted(by) })
	s.siteDoubts.rekey(func(key instant) instant { return key.shifted(by) })
	s.notices.rekey(func(key instant) instant { return key.shifted(by) })
	// These depend on dates, too. When they are due they are planned again.
	s.tokens.rekey(func(instant) instant { return s.now })
	s.effectEnds.rekey(func(instant) instant { return s.now })
}

// shiftThread shifts the waits of a thread and of its mail.
func (s *Scheduler) shiftThread(t *thread, by time.Duration) {
	s.noteThreadChange(t)
	t.suspendedUntil = t.suspendedUntil.shifted(by)
	t.completions.at = t.completions.at.shifted(by)
	t.wakeTimes.shift(by)
	if x := t.shaping; x != nil {
		x.rate.shift(by)
		x.notedAt = x.notedAt.shifted(by)
		for i := range x.effects {
			e := &x.effects[i]
			e.since, e.until = e.since.shifted(by), e.until.shifted(by)
		}
	}
	// If the clock was set back, the saved time of mail that is due may be in the
	// future again.
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		if ref.isRecord() {
			rec := s.records.items.at(ref.record())
			if rec.wakeAt != 0 {
				rec.wakeAt = rec.wakeAt.instant().shifted(by).second()
			}
			if rec.wakeAt != 0 || by < 0 {
				s.noteRecordChange(ref.record())
			}
		} else {
			v := s.vertices.at(ref)
			if v.wakeAt = v.wakeAt.shifted(by); v.state == waiting || by < 0 {
				s.noteChange(v)
			}
		}
	}
}

// replanMail plans all mail again, after the clock was set: what expires, and when
// senders are told of delays, depends on the clock.
func (s *Scheduler) replanMail() {
	for _, t := range s.threadsInOrder() {
		for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
			if ref.isRecord() {
				s.planLook(ref.record())
				continue
			}
			switch v := s.vertices.at(ref); v.state {
			case due, waiting, blocked, poisoned:
				s.planWake(v)
			default:
				s.planDelay(v)
			}
		}
	}
}

// shift shifts the times from which the limits of an agent count.
func (a *agent) shift(by time.Duration) {
	for _, at := range []*instant{&a.stateSince, &a.progressAt, &a.hungryAt, &a.fedAt} {
		*at = at.shifted(by)
	}
	for i := range a.lines {
		l := &a.lines[i]
		l.startedAt, l.retryAt = l.startedAt.shifted(by), l.retryAt.shifted(by)
	}
}

// shift shifts what has been fed. The table of rates keeps its dates.
func (b *bucket) shift(by time.Duration) { b.paidAt, b.changeAt = b.paidAt.shifted(by), 0 }

// shift adds a number of seconds to all times.
func (m *timeMultiset) shift(by time.Duration) {
	for i := range m.counts {
		if at := &m.counts[i].at; *at != math.MaxUint32 {
			*at = at.instant().shifted(by).second()
		}
	}
}

// shifted adds by to a time, unless it is none or never.
func (i instant) shifted(by time.Duration) instant {
	if i == 0 || i == never {
		return i
	}
	return max(1, i.after(by))
}

// rekey changes all keys. It must keep their order.
func (h *heap[T]) rekey(change func(key instant) instant) {
	for i := range h.n {
		e := h.at(i)
		e.key = change(e.key)
	}
}
