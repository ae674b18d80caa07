// Package scheduler decides what a mail queue does next. It is the core of the
// program: a deterministic value that is told the time and what happened, and
// returns what to do and when it wants to be called again. It opens no file,
// starts no process and reads no clock; package daemon does these things.
//
//	s := scheduler.New(config, rand)
//	for each Event, and for a Tick at the time of s.Next():
//	        for _, action := range s.Step(now, event) { perform it }
//
// The same events at the same times with the same seed give the same actions.
//
// # What is in the queue
//
// A message is one control file in transport/. Its recipients for one channel
// and host are a vertex, which is one job line to an agent. The vertices for
// one channel and host are a thread. Threads that can share agents form a
// ring: the same clauses match them, and their command expands to the same
// words. An agent is a process that delivers. A session is one slot in an agent
// in which one job line is being worked on. The number of sessions that a
// thread may use now is its window.
//
//	message ──< vertex >── thread >── ring ──< agent
//	                └────── job line ───────────┘
//
// A vertex is due, waiting for its retry, fed (with an agent), reading (its
// control file is being read again), blocked or held; message.go
// draws these states. A due vertex is in the queue of its thread. The agenda
// (agenda.go) has everything that happens at a given time: the end of a wait or
// a suspension, an expiry, the deadline of an agent.
//
// # The parts
//
// Scheduler is events in, actions out, and questions about the queue. It is made of
// parts. Each has what belongs to one idea, and reaches the others through the Scheduler. They are
// one large package because they change threads, vertices and recipients in the same Step; what
// needs none of these is a package of its own: fair, limit, rule, store.
//
//	agenda    the time, the actions of this Step, and what is planned; uses no other
//	mail      messages, vertices and recipients in memory; uses no other
//	rules     the configuration, reply rules and what they do to threads
//	threads   threads: what is due in them and what waits, window, ETRN
//	rings     rings, and which vertex is fed next, to which agent
//	limits    limits on sessions and processes, rates, sites
//	cluster   limits and dead destinations that nodes share
//	agents    agents from their start to their end, the stop
//	lines     what job lines lead to: outcomes, retries, free sessions
//	writes    actions on control files that have no answer yet, full disk
//	notices   notices to senders, expiry
//	orders    orders of administrators, what is held
//	saved     what is saved, and restored after a restart
//	arrivals  new messages, x lines
//	log       actions for the event log
//	views     what people are shown
//
// # Where to find what
//
//	what can happen, what can be done  event.go action.go
//	clauses, parameters, commands      package rule
//	arrival, x lines, X lines          arrive.go alternatives.go
//	threads, wakeuprestartonly         thread.go window.go
//	window, dead destinations          window.go
//	rings                              ring.go
//	what is fed next, overfeed         pick.go overfeed.go
//	share, PARAMshares, quantum        package fair; fair.go
//	jobs, ageorder, preemption         package fair
//	msgsessions, msgscale              msgsessions.go
//	all limits, maxta maxchannel ...   limits.go, package limit
//	rate, channelrate                  rate.go gate.go
//	reply rules, suspend, lift         reply.go effect.go, package rule
//	sitemax, siterate                  site.go
//	start of agents, states, idlemax   start.go agent.go idle.go
//	#hungry, reports, failures         hungry.go report.go fail.go
//	resync, deaths of agents           resync.go death.go
//	retries, deferall, retryat         retry.go rule/retrystep.go
//	expiry, ETRN, queueonly            expiry.go etrn.go
//	reporttimes, notices               notice.go
//	work on control files, full disk   store.go fulldisk.go
//	orders, held mail                  order.go pendingorder.go hold.go reroute.go
//	what holds mail, and until when    holdorder.go
//	reload, stop                       reload.go stop.go
//	queries                            show.go explain.go wait.go walk.go
//	waits and dates                    clock.go agenda.go timer.go waiting.go
//	how a million messages are kept    message.go mail.go, package store
//	warm restart                       save.go restore.go
//	limits of the cluster              cluster.go
//	dead destinations in a cluster     destination.go
//	actions for the event log          eventlog.go
//
// The invariants are stated in check_test.go and checked after each Step of a
// test. testdata/ has scenarios in prose. Package simulate measures windows,
// preemption, turns and waits against models of servers. The manual is
// scheduler(8).
package scheduler

import (
	"math/rand/v2"
	"time"

	"zsched/scheduler/fair"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Scheduler is the whole state of the queue. Only one goroutine at a time may use
// it.
type Scheduler struct {
	agenda   agenda
	mail     mail
	rules    rules
	threads  threads
	rings    rings
	limits   limits
	cluster  cluster
	agents   agents
	lines    lines
	writes   writes
	notices  notices
	orders   orders
	saved    saved
	arrivals arrivals
	log      log
	views    views
}

// wire tells each part of which Scheduler it is.
func (s *Scheduler) wire() {
	for _, whole := range [...]**Scheduler{
		&s.rules.s, &s.threads.s, &s.rings.s, &s.limits.s, &s.cluster.s, &s.agents.s, &s.lines.s, &s.writes.s,
		&s.notices.s, &s.orders.s, &s.saved.s, &s.arrivals.s, &s.log.s, &s.views.s,
	} {
		*whole = s
	}
}

// New returns a scheduler with an empty queue. The config must not change; a
// new one comes with a Reloaded event. All random numbers come from r.
func New(config *rule.Config, r *rand.Rand) *Scheduler {
	s := new(Scheduler)
	s.wire()
	s.rules.setConfig(config)
	s.lines.rand = r
	s.mail.byID = store.NewSlabIndex(func(n messageRef) uint64 { return uint64(s.mail.messages.At(n).id) })
	s.mail.byAddress, s.mail.extras = make(map[string]senderRef), make(map[messageRef]*extras)
	s.threads.byKey = make(map[threadKey]*thread)
	s.orders.heldMessages, s.orders.heldThreads = make(map[messageRef]*HoldOrder), make(map[threadKey]*HoldOrder)
	s.orders.holdEnd = noDate
	s.limits.sites, s.limits.knownSites = make(map[string]*site), make(map[threadKey]string)
	s.rings.byKey, s.limits.channels = make(map[string]*ring), make(map[string]*channel)
	s.agents.byID, s.agents.startFailures = make(map[AgentID]*agent), make(map[string]*startFailures)
	s.notices.lookAt, s.notices.reportAt = noDate, never
	s.notices.delays = make(map[vertexRef]int)
	s.orders.waiting = make(map[vertexRef]*Ordered)
	s.mail.heapIndex = func(v vertexRef) *int32 { return &s.mail.vertices.At(v).place.Index }
	s.mail.threadLinks = func(v vertexRef) *store.Links[vertexRef] { return &s.mail.vertices.At(v).Links }
	s.agenda.timers.Index = func(t *timer) *int32 { return &t.index }
	s.agenda.shares.Index = func(c *clusterShare) *int32 { return &c.index }
	s.agents.idleAgents.Of = func(a *agent) *store.Links[*agent] { return &a.Links }
	s.rings.inOrder.Of = func(r *ring) *store.Links[*ring] { return &r.inOrder }
	s.limits.rates, s.cluster.shares = make(map[string]*bucket), make(map[ClusterLimit]*clusterShare)
	s.limits.newLimits()
	s.threads.fair = fair.New(&s.threads)
	s.writes.retry.due = func() { s.writes.retryWrites() }
	s.agents.stop.deadline.due = func() { s.agents.stopDeadline() }
	return s
}

// Step tells the scheduler one event and returns what to do about it, in
// order. The slice is valid until the next Step.
func (s *Scheduler) Step(now Now, e Event) []Action {
	s.agenda.clock.set(now)
	if s.agenda.startedAt == 0 {
		s.agenda.startedAt = s.agenda.now
	}
	s.agenda.beginStep()
	if len(s.cluster.shares) > 0 {
		s.cluster.endAllowances()
	}
	s.handle(e)
	if len(s.rings.dirty) > 0 {
		s.rings.dispatchDirty()
	}
	if len(s.cluster.unsaid) > 0 {
		s.cluster.sayDemand()
	}
	if s.agents.stop.begun {
		s.stopWhenDone()
	}
	return s.agenda.out
}

func (s *Scheduler) handle(e Event) {
	switch e := e.(type) {
	case Tick:
		if e.RetryWrites && s.writes.retry.isPlanned() {
			s.agenda.plan(&s.writes.retry, s.agenda.now)
		}
		s.wake()
	case Arrived:
		s.arrivals.arrive(&e.Message)
	case AgentStarted:
		if a := s.agents.byID[e.Agent]; a != nil {
			a.pid = e.PID
		}
	case AgentFailed:
		s.agents.agentFailed(e)
	case AgentSaid:
		if a := s.agents.byID[e.Agent]; a != nil {
			s.agents.said(a, e.Word)
		}
	case AgentReported:
		s.lines.agentReported(e.Agent, &e.Report)
	case AgentResync:
		s.lines.agentResync(e.Agent, e.Message)
	case AgentExited:
		s.lines.agentExited(e)
	case Done:
		s.writes.writeDone(e)
	case Failed:
		s.writes.writeFailed(e)
	case SpoolBack:
		s.writes.spoolBack()
	case Triggered:
		s.threads.triggered(e.Host)
	case Reloaded:
		s.reload(e.Config)
	case Ordered:
		s.orders.ordered(&e)
	case HeldThread:
		s.orders.heldThread(&e)
	case Lifted:
		s.rules.lift(threadKey{e.Channel, e.Host})
	case Restored:
		s.saved.restored(&e.Thread)
	case Allowance:
		s.cluster.allowance(e)
	case DestinationDead:
		s.cluster.destinationDead(e)
	case Stopping:
		s.agents.beginStop(e.Slow)
	default:
		panic("scheduler: unknown event")
	}
}

// Next returns the time at which the scheduler wants a Tick if no other event
// comes first; false if it only waits for events. The time may be in the past. It is a
// time by the wall clock, as that was set at the last Step: when the clock is set, a Tick
// should follow.
func (s *Scheduler) Next() (time.Time, bool) {
	next := min(s.agenda.next(), s.notices.nextLook(), s.agenda.showing(s.orders.holdEnd))
	if next == never {
		return time.Time{}, false
	}
	return s.agenda.date.after(next.since(s.agenda.now)).time(), true
}

// wake does everything that is due by now.
func (s *Scheduler) wake() {
	if s.notices.nextLook() <= s.agenda.now {
		s.notices.look()
	}
	if s.orders.holdEnd <= s.agenda.date {
		s.orders.holdOrdersEnded()
	}
	s.agenda.wakeTimers()
}
