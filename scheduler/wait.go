package scheduler

import (
	"iter"
	"slices"

	"zsched/scheduler/limit"
)

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

	WaitOrder       Wait = "suspended by order" // SuspendedThread
	WaitRule        Wait = "reply rule"         // suspended by one
	WaitRate        Wait = "rate"               // the thread has no token
	WaitSite        Wait = "sitemax"            // its site has as many sessions as it may have
	WaitSiteRate    Wait = "siterate"           // its site has no token
	WaitChannelRate Wait = "channelrate"        // the channel has no token
	WaitClusterMax  Wait = "clustermax"         // this node's share of it is used
	WaitClusterSite Wait = "clustersitemax"     // this node's share of the site's limit is used
	WaitClusterRate Wait = "clusterrate"        // no token has been drawn from it
)

// Rules that decide which mail is fed when a session is free. They are in
// Explanation.Rules, but they are not reasons why a thread waits.
const (
	WaitRetry   Wait = "retry"    // no vertex is due yet
	WaitShare   Wait = "share"    // other shares have their turns first
	WaitQuantum Wait = "quantum"  // the thread has used its quantum in this round
	WaitJobs    Wait = "job list" // other jobs of the share are before it
)

// waitOf returns why due mail of a thread is not fed now. It is the first
// reason found; when an administrator removes it, there may be another. A held
// thread has its reason even if no mail is due.
func (s *Scheduler) waitOf(t *thread) Wait {
	for wait := range s.waits(t) {
		return wait
	}
	return NoWait
}

// waits yields the reasons why due mail of a thread is not fed now. It leaves out
// reasons that can be determined only when others do not apply.
func (s *Scheduler) waits(t *thread) iter.Seq[Wait] {
	return func(yield func(Wait) bool) {
		if t.isHeld() && !yield(WaitHeld) || t.states[due] == 0 {
			return
		}
		if t.ring == nil {
			yield(WaitCommand)
			return
		}
		order := t.shaping != nil && t.shaping.order != nil
		rule := t.shaping != nil && t.shaping.suspendingRule() != nil
		for _, reason := range [...]struct {
			wait  Wait
			holds bool
		}{
			{WaitSelect, !t.selected}, {WaitOrder, order}, {WaitRule, rule}, {WaitSuspend, t.suspendedUntil != 0},
			{WaitTrigger, t.params.QueueOnly && !t.running}, {WaitStopping, s.stop.begun},
			{WaitSpool, s.spoolDown}, {WaitFrozen, s.config.Frozen},
		} {
			if reason.holds && !yield(reason.wait) {
				return
			}
		}
		if !t.mayFeed() || s.halted() {
			return
		}
		for wait := range s.refusals(t) {
			if !yield(wait) {
				return
			}
		}
		b := s.blocksOf(t)
		expected := t.ring.expected > 0
		message := t.queue().len() > 0 && t.queue().pickable() == 0
		for _, reason := range [...]struct {
			wait  Wait
			holds bool
		}{
			{WaitRing, b.processes[ofRingProcesses] && b.sessions[ofRing] == limit.None},
			{WaitChannel, b.processes[ofChannelProcesses] && b.sessions[ofChannel] != limit.Full},
			{WaitMessage, message}, {WaitAgent, expected}, {WaitStart, b.start && !expected},
			{WaitTA, b.processes[ofAllProcesses]}, {WaitForks, b.forks && !expected},
			{WaitAgent, !expected && !message && b == blocks{}},
		} {
			if reason.holds && !yield(reason.wait) {
				return
			}
		}
	}
}

// rules returns all rules that keep the next vertex of a thread from being fed.
func (s *Scheduler) rules(t *thread, next *VertexView) []Wait {
	rules := slices.Collect(s.waits(t))
	switch {
	case next == nil && t.states[due] == 0 && t.states[waiting] > 0:
		rules = append(rules, s.barriers(t)...)
		if !t.isHeld() {
			rules = append(rules, s.lastingSuspensions(t)...)
		}
		rules = append(rules, WaitRetry)
	case next == nil || next.Position == nil || !t.mayFeed():
	default:
		p := next.Position
		if next.Wait == WaitMessage && !slices.Contains(rules, WaitMessage) {
			rules = append(rules, WaitMessage)
		}
		if p.SharesBefore > 0 {
			rules = append(rules, WaitShare)
		}
		if p.QuantumUsed && p.PicksBefore > 0 {
			rules = append(rules, WaitQuantum)
		} else if p.JobsBefore > 0 {
			rules = append(rules, WaitJobs)
		}
	}
	return rules
}

// barriers returns the reasons why mail of a thread is not fed when it is due again, until
// somebody acts: its retries and suspensions end without effect.
func (s *Scheduler) barriers(t *thread) (waits []Wait) {
	if t.ring == nil {
		return []Wait{WaitCommand}
	}
	for _, reason := range [...]struct {
		wait  Wait
		holds bool
	}{
		{WaitSelect, !t.selected}, {WaitTrigger, t.params.QueueOnly && !t.running},
		{WaitStopping, s.stop.begun}, {WaitFrozen, s.config.Frozen},
	} {
		if reason.holds {
			waits = append(waits, reason.wait)
		}
	}
	return waits
}

// lastingSuspensions returns the suspensions that go on when the first vertex is due again: the
// retry is not what the thread waits for.
func (q *queue) lastingSuspensions(t *thread) (waits []Wait) {
	retry := t.nextWake()
	if x := t.shaping; x != nil {
		if x.order != nil && q.instantAt(x.order.end()) >= retry {
			waits = append(waits, WaitOrder)
		}
		if x.rulesUntil() >= retry {
			waits = append(waits, WaitRule)
		}
	}
	if t.suspendedUntil > retry {
		waits = append(waits, WaitSuspend)
	}
	return waits
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

// blocks says which limits keep due mail of a thread from being fed. Nothing does if it is
// zero.
type blocks struct {
	sessions     [sessionLinks]limit.Refusal
	processes    [processLinks]bool // one more is needed, and refused
	start, forks bool               // agents are started later
}

func (d *dispatch) blocksOf(t *thread) (b blocks) {
	r := t.ring
	if r == nil || t.states[due] == 0 || !t.mayFeed() || d.halted() {
		return b
	}
	for i, l := range d.links(t) {
		b.sessions[i] = l.Refusal(1)
	}
	if r.sessionFor(t) != nil || r.expected > 0 {
		return b
	}
	// One more process is needed, because no agent has a free session.
	for i, l := range d.processLinks(r) {
		b.processes[i] = l.Refusal(1) != limit.None
	}
	failures := d.startFailures[r.clause]
	b.start = failures != nil && failures.until > d.now
	b.forks = r.place.WaitsIn(&d.forks.Queue)
	return b
}
