package scheduler

import "zsched/scheduler/limit"

// Waits: why due mail of a thread is not fed now.

// Wait is why due mail of a thread is not fed now.
type Wait string

const (
	NoWait       Wait = ""               // nothing is due, or it is being fed
	WaitTA       Wait = "maxta"          // the limit on processes
	WaitChannel  Wait = "maxchannel"     // the limit of the channel
	WaitRing     Wait = "maxring"        // the limit of the ring
	WaitThread   Wait = "maxthr"         // the limit of the thread
	WaitWindow   Wait = "window"         // it is below maxthr: reduced by failures, or not grown yet
	WaitProbe    Wait = "probe"          // one session tries a dead destination
	WaitMessage  Wait = "msgsessions"    // the message has as many sessions as it may have
	WaitFrozen   Wait = "frozen"         // option -F
	WaitForks    Wait = "fork rate"      // option -R
	WaitCommand  Wait = "no command"     // no clause gives one
	WaitStart    Wait = "agents fail"    // they cannot be started, or die at once
	WaitHeld     Wait = "held"           // HeldThread, or all mail of the thread is held
	WaitTrigger  Wait = "queueonly"      // an ETRN is needed
	WaitSpool    Wait = "spool down"     // it cannot be written
	WaitSuspend  Wait = "suspended"      // the destination has failed
	WaitSelect   Wait = "not selected"   // option -p
	WaitStopping Wait = "stopping"       // the scheduler stops
	WaitAgent    Wait = "agent expected" // one is starting, or will be free

	WaitRule        Wait = "reply rule"     // suspended by one
	WaitRate        Wait = "rate"           // the thread has no token
	WaitSite        Wait = "sitemax"        // its site has as many sessions as it may have
	WaitSiteRate    Wait = "siterate"       // its site has no token
	WaitChannelRate Wait = "channelrate"    // the channel has no token
	WaitClusterMax  Wait = "clustermax"     // this node's share of it is used
	WaitClusterSite Wait = "clustersitemax" // this node's share of the site's limit is used
	WaitClusterRate Wait = "clusterrate"    // no token has been drawn from it

	WaitRetry Wait = "retry" // of an Explanation: no mail is due yet
)

// waitOf returns why due mail of a thread is not fed now. It is the first
// reason found; when an administrator removes it, there may be another. A held
// thread has its reason even if no mail is due.
func (vi *views) waitOf(t *thread) Wait {
	switch {
	case t.isHeld():
		return WaitHeld
	case t.states[due] == 0:
		return NoWait
	}
	if why := vi.barrier(t); why != NoWait {
		return why
	}
	if why := vi.limits.refusal(t); why != NoWait {
		return why
	}
	return vi.waitForAgent(t)
}

// waitOfMail is waitOf for all mail of a thread: if none is due, it says why all of it
// waits. Mail that is due again before a suspension ends waits for that end.
func (vi *views) waitOfMail(t *thread) Wait {
	why, retry := vi.waitOf(t), t.nextWake()
	if why != NoWait || t.states[due] > 0 || retry == never {
		return why
	}
	switch why := vi.barrier(t); why {
	case WaitRule, WaitSuspend:
		if vi.rules.suspensionEnd(t) < retry {
			return WaitRetry
		}
		return why
	case NoWait:
		return WaitRetry
	default:
		return why
	}
}

// barrier returns why nothing of a thread is fed that no limit keeps waiting.
func (vi *views) barrier(t *thread) Wait {
	x := t.shaping
	for _, reason := range [...]struct {
		wait  Wait
		holds bool
	}{
		{WaitCommand, t.ring == nil}, {WaitSelect, !t.selected},
		{WaitRule, x != nil && x.suspendingRule() != nil},
		{WaitSuspend, t.suspendedUntil != 0}, {WaitTrigger, t.params.QueueOnly && !t.running},
		{WaitStopping, vi.agents.stop.begun}, {WaitSpool, vi.writes.spoolDown}, {WaitFrozen, vi.rules.config.Frozen},
	} {
		if reason.holds {
			return reason.wait
		}
	}
	return NoWait
}

// processWaits says what due mail waits for if a link refuses a process.
var processWaits = [processLinks]Wait{ofAllProcesses: WaitTA, ofChannelProcesses: WaitChannel, ofRingProcesses: WaitRing}

// waitForAgent says why due mail of a thread whose sessions no limit refuses has no session.
func (vi *views) waitForAgent(t *thread) Wait {
	r := t.ring
	switch failures := vi.agents.startFailures[r.clause]; {
	case t.fair.Len() > 0 && t.fair.Pickable() == 0:
		return WaitMessage
	case r.expected > 0 || r.sessionFor(t) != nil:
		return WaitAgent
	case failures != nil && failures.until > vi.agenda.now:
		return WaitStart
	}
	links := vi.limits.processLinks(r)
	if at, why := limit.Chain(links[:]).Refusal(1); why != limit.None {
		return processWaits[at]
	}
	if r.place.WaitsIn(&vi.agents.forks.Queue) {
		return WaitForks
	}
	return WaitAgent
}

// waitEnd returns when a thread stops waiting for something, without outside action; never
// if it does not, or the time is not known.
func (vi *views) waitEnd(t *thread, why Wait) instant {
	switch why {
	case WaitHeld:
		if o := vi.orders.holdOrders.threads[t.key]; o != nil {
			return vi.agenda.instantAt(o.end())
		}
	case WaitRetry:
		return t.nextWake()
	case WaitRule, WaitSuspend:
		return vi.rules.suspensionEnd(t)
	case WaitRate, WaitChannelRate, WaitClusterRate, WaitSiteRate:
		return vi.limits.tokenAt(t, why)
	case WaitStart:
		return vi.agents.startFailures[t.ring.clause].until
	case WaitForks:
		return vi.agenda.plannedAt(&vi.agents.forks.next)
	case WaitSpool:
		return vi.agenda.plannedAt(&vi.writes.retry)
	}
	return never
}

// windowWait returns why a thread that has as many sessions as it may have is
// not given more.
func (t *thread) windowWait() Wait {
	switch {
	case t.window.Dead:
		return WaitProbe
	case t.sessionLimit() < max(1, t.params.MaxThr):
		return WaitWindow
	}
	return WaitThread
}
