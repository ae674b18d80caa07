package scheduler

import (
	"zsched/scheduler/limit"
	"zsched/scheduler/view"
)

// Waits: why due mail of a thread is not fed now.

// waitOf returns why due mail of a thread is not fed now. It is the first
// reason found; when an administrator removes it, there may be another. A held
// thread has its reason even if no mail is due.
func (vi *views) waitOf(t *thread) view.Wait {
	switch {
	case t.isHeld():
		return view.WaitHeld
	case t.states[due] == 0:
		return view.NoWait
	}
	if why := vi.barrier(t); why != view.NoWait {
		return why
	}
	if k, why := vi.s.limits.threadRefusal(t, 1); why != limit.None {
		return vi.s.limits.waitName(t, k, why)
	}
	return vi.waitForAgent(t)
}

// waitOfMail is waitOf for all mail of a thread: if none is due, it says why all of it
// waits.
func (vi *views) waitOfMail(t *thread) view.Wait {
	why, retry := vi.waitOf(t), t.nextWake()
	if why != view.NoWait || t.states[due] > 0 || retry == never {
		return why
	}
	if why := vi.waitBeyond(t, retry); why != view.NoWait {
		return why
	}
	return view.WaitRetry
}

// waitBeyond returns why mail of a thread will not be fed when its retry comes; NoWait: it will.
func (vi *views) waitBeyond(t *thread, retry instant) view.Wait {
	why := vi.barrier(t)
	isSuspended := why == view.WaitRule || why == view.WaitSuspend
	if isSuspended && t.suspendedUntil < retry || why == view.WaitProbe {
		return view.NoWait
	}
	return why
}

// barrier returns why the due mail of a thread is blocked: nothing of it is fed, whatever the limits
// allow. NoWait: it may be fed.
func (vi *views) barrier(t *thread) view.Wait {
	for _, reason := range [...]struct {
		wait  view.Wait
		holds bool
	}{
		{view.WaitHeld, t.held}, {view.WaitCommand, t.ring.isBlocked()}, {view.WaitSelect, !t.selected},
		{view.WaitRule, t.suspendingRule() != nil},
		{view.WaitSuspend, t.suspendedUntil != 0}, {view.WaitTrigger, t.params.QueueOnly && !t.running},
		{view.WaitProbe, t.isProbed()},
		{view.WaitStopping, vi.s.agents.stop.begun}, {view.WaitSpool, vi.s.writes.spoolDown}, {view.WaitFrozen, vi.s.rules.config.Frozen},
	} {
		if reason.holds {
			return reason.wait
		}
	}
	return view.NoWait
}

// waitForAgent says why due mail of a thread whose sessions no limit refuses has no session.
func (vi *views) waitForAgent(t *thread) view.Wait {
	r := t.ring
	switch failures := vi.s.agents.startFailures[r.clause]; {
	case t.fair.Len() > 0 && t.fair.Pickable() == 0:
		return view.WaitMessage
	case r.fair.OnlyAsideShares():
		return view.WaitShare
	case r.expected > 0 || r.sessionFor(t) != nil:
		return view.WaitAgent
	case failures != nil && failures.until > vi.s.agenda.now:
		return view.WaitStart
	}
	if l, why := vi.s.limits.refusal(r.links.onProcesses(), 1); l != nil {
		return waits[l.kind][why]
	}
	return view.WaitAgent
}

// waitEnd returns when a thread stops waiting for something, without outside action; never
// if it does not, or the time is not known.
func (vi *views) waitEnd(t *thread, why view.Wait) instant {
	switch why {
	case view.WaitHeld:
		if o := vi.s.orders.heldThreads[t.key]; o != nil {
			return vi.s.agenda.instantAt(endOf(o))
		}
	case view.WaitRetry:
		return t.nextWake()
	case view.WaitRule, view.WaitSuspend:
		return t.suspendedUntil
	case view.WaitRate, view.WaitChannelRate, view.WaitClusterRate, view.WaitSiteRate:
		return vi.s.limits.tokenAt(t, why)
	case view.WaitStart:
		return vi.s.agents.startFailures[t.ring.clause].until
	case view.WaitForks:
		return vi.s.limits.nextToken(vi.s.limits.forkRate)
	case view.WaitSpool:
		return vi.s.agenda.plannedAt(&vi.s.writes.retry)
	}
	return never
}

// windowWait returns why a thread that has as many sessions as it may have is
// not given more.
func (t *thread) windowWait() view.Wait {
	if t.windowSize() < max(1, t.params.MaxThr) {
		return view.WaitWindow
	}
	return view.WaitThread
}
