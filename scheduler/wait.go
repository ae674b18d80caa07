package scheduler

// waitOf says why due mail of a thread is not fed now. The first reason that
// is met counts; an administrator who removes it may meet the next. Of a held
// thread no mail needs to be due: it will not be fed when it is.
func (s *Scheduler) waitOf(t *thread) Wait {
	switch {
	case t.held:
		return WaitHeld
	case t.states[due] == 0:
		return NoWait
	case t.ring == nil:
		return WaitCommand
	case !t.selected:
		return WaitSelect
	case t.suspendedUntil != 0:
		return WaitSuspend
	case t.params.QueueOnly && !t.running:
		return WaitTrigger
	case s.stop.begun:
		return WaitStopping
	case s.spoolDown:
		return WaitSpool
	case s.config.Frozen:
		return WaitFrozen
	}
	switch b := s.blocksOf(t); {
	case b.thread:
		return WaitThread
	case b.ring:
		return WaitRing
	case b.channel:
		return WaitChannel
	case t.ring.expected > 0:
		return WaitAgent
	case b.start:
		return WaitStart
	case b.processes:
		return WaitTA
	case b.forks:
		return WaitForks
	}
	return WaitAgent
}

// blocks says which limits keep due mail of a thread from being fed.
type blocks struct {
	thread, ring, channel, processes bool
	start, forks                     bool // agents are started again later
}

func (s *Scheduler) blocksOf(t *thread) blocks {
	r := t.ring
	if r == nil || t.states[due] == 0 || !t.mayFeed() || s.halted() {
		return blocks{}
	}
	// A process more is needed where no agent has a session to give.
	full := r.sessionFor(t) == nil && r.expected == 0
	trouble := s.startFailures[r.clause]
	return blocks{
		thread:    t.freeSlots() <= 0,
		ring:      !below(r.busy, s.maxRing(r)) || full && !below(r.procs, s.maxRing(r)),
		channel:   !below(r.channel.busy, s.maxChannel(r)) || full && !below(r.channel.procs, s.maxChannel(r)),
		processes: full && !below(len(s.agents), s.maxTA(r)),
		start:     full && trouble != nil && trouble.until > s.now,
		forks:     full && r.limitQueue == s.forks.queue,
	}
}
