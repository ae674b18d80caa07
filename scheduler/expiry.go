package scheduler

import (
	"cmp"
	"time"
)

// Expiry: recipients that are too old fail with a notice (scheduler.cf(5),
// expiry and expiry2). Also the wake time of a vertex, which depends on expiry.

// defaultExpiry2 is how long a recipient that was never attempted is kept after
// its expiry, if expiry2 is not set.
const defaultExpiry2 = 24 * time.Hour

// expired reports whether a recipient's time is over: it is past expiry and had
// an attempt since this process was started, or it is past expiry2 too. A
// recipient of a held thread does not expire.
func (no *notices) expired(v *vertex, r *recipient) bool {
	if !r.mayExpire() || no.isKeptBack(v) || no.s.mail.threadOf(v).updates&releaseHeld != 0 {
		return false
	}
	primary, secondary := no.expiry(v)
	// A dead destination counts as an attempt at all of its mail. Mail of before a standstill,
	// which had its expiry then, needs an attempt of its own: a network that comes up later than
	// the scheduler must not end all of it.
	isDead := no.s.mail.threadOf(v).window.Dead && primary > no.s.agenda.dateAt(no.s.agenda.startedAt)
	return no.s.agenda.date >= primary && (r.tried() || isDead) || no.s.agenda.date >= secondary
}

// isKeptBack reports whether a vertex is held, with its message or with its thread.
func (no *notices) isKeptBack(v *vertex) bool {
	return no.s.mail.threadOf(v).held || v.state == held || no.s.orders.isHeldOrToBe(v)
}

// mayExpire reports whether a recipient may fail and needs no attempt first. One that was held
// needs one.
func (r *recipient) mayExpire() bool { return r.mayFail() && r.flags&mustAttempt == 0 }

// expiry returns when the vertex's recipients expire if they had an attempt
// (primary), and if they had none (secondary). Both are noDate if the
// recipients do not expire. Expiry2 counts from the first expiry, or from the start of the
// scheduler if that was later, so that mail of before a standstill can have an attempt.
func (no *notices) expiry(v *vertex) (primary, secondary date) {
	p := no.s.mail.threadOf(v).params
	if p.Expiry == 0 {
		return noDate, noDate
	}
	primary = no.s.mail.messageOf(v).modifiedAt.after(p.Expiry)
	start := no.s.agenda.dateAt(no.s.agenda.startedAt)
	return primary, max(primary, start).after(cmp.Or(p.Expiry2, defaultExpiry2))
}

// nextExpiry returns when recipients of a vertex expire next: at the first expiry, and after that
// at the second.
func (no *notices) nextExpiry(v *vertex) date {
	primary, secondary := no.expiry(v)
	if primary > no.s.agenda.date {
		return primary
	}
	return secondary
}

// planWake plans when something must be written about a vertex: it expires, or its sender is told
// of a delay.
func (no *notices) planWake(v *vertex) {
	earliest := no.s.mail.messageOf(v).modifiedAt.after(no.s.mail.threadOf(v).params.Expiry)
	if earliest < no.lookAt || len(no.delays) > 0 { // which few need
		no.lookAt = min(no.lookAt, no.nextLookAt(v))
	}
}

// nextLookAt returns when something must be written about a vertex; noDate: nothing is planned.
func (no *notices) nextLookAt(v *vertex) date {
	return min(no.nextLookAtExpiry(v), no.nextDelay(v))
}

// isWatched reports whether that is done while it is in a state: no agent has it, its
// file is not being read, and it is not being moved.
func (s vertexState) isWatched() bool {
	return s == due || s == waiting || s == blocked
}

// nextLook returns when the next pass begins, or goes on.
func (no *notices) nextLook() instant {
	if no.next != 0 {
		return no.s.agenda.now
	}
	first := no.reportAt
	if no.s.mail.states[due]+no.s.mail.states[waiting]+no.s.mail.states[blocked] > 0 {
		first = min(first, no.s.agenda.showing(no.lookAt))
	}
	if first == never {
		return never
	}
	return max(no.passAt, first)
}

// passInterval is the time between passes, so that they take little time however much mail there
// is. lookSlice is how many vertices a Tick looks at.
const (
	passInterval = 10 * time.Second
	lookSlice    = 5000
)

// look writes what must be written about vertices by now. It goes through all of them, because
// nearly all are fed long before, and need not be in order for that.
func (no *notices) look() {
	if no.next == 0 {
		no.next, no.lookAt, no.passAt = 1, noDate, no.s.agenda.now.after(passInterval)
		if no.reporting = no.reportAt <= no.s.agenda.now; no.reporting {
			no.reportAt = never
		}
	}
	for last := no.next + lookSlice; no.next < last; no.next++ {
		if no.next > no.s.mail.vertices.Last {
			no.next = 0
			return
		}
		v := no.s.mail.vertices.At(no.next)
		if v.state != 0 {
			no.interimNotice(no.s.mail.messageOf(v))
		}
		switch {
		case !v.state.isWatched():
		case no.nextLookAt(v) <= no.s.agenda.date:
			no.s.lines.wakeVertex(v)
		default:
			no.planWake(v)
		}
	}
}

// nextLookAtExpiry returns when to look whether a vertex has expired; noDate: it cannot
// expire.
func (no *notices) nextLookAtExpiry(v *vertex) date {
	primary, secondary := no.expiry(v)
	switch {
	case no.isKeptBack(v):
		return noDate
	case primary > no.s.agenda.date:
		return primary
	case !no.s.mail.anyOf(v, (*recipient).mayExpire):
		return noDate
	case no.s.mail.anyOf(v, func(r *recipient) bool { return no.expired(v, r) }):
		return no.s.agenda.date
	}
	return secondary
}

// expire fails the recipients of a vertex that have expired. The vertex must
// not be with an agent.
func (no *notices) expire(v *vertex) {
	if primary, _ := no.expiry(v); no.s.agenda.date < primary || no.s.orders.waiting[v.ref] != nil {
		return
	}
	no.s.lines.fail(v, "expired after "+inWords(no.s.mail.threadOf(v).params.Expiry), "4.4.7 (delivery time expired)",
		func(r *recipient) bool { return no.expired(v, r) })
}
