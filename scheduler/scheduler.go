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
// draws these states. A due vertex is in the queue of its thread. Messages beyond
// the limits on memory are not loaded: a stub takes the place of each vertex
// until the control file is read again (unload.go). The agenda
// (agenda.go) has everything that happens at a given time: the end of a wait or
// a suspension, an expiry, the deadline of an agent.
//
// # The parts
//
// Scheduler is built from five parts, which follow it in this list. Each embeds
// the one below it; queue embeds both mail and agenda. A method belongs to the
// lowest part that has everything that the method needs.
//
//	Scheduler  events in, actions out, views of the queue for queries
//	delivery   what job lines lead to: outcomes, retries, writes, orders
//	dispatch   agents, the limits on them, and which vertex is fed next
//	queue      threads and rings, what is due, what expires
//	mail       messages, vertices and recipients in memory
//	agenda     the time, the actions of this Step, and what is planned
//
// # Where to find what
//
//	what can happen, what can be done  event.go action.go
//	clauses, parameters, commands      package rule; rules.go
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
//	#hungry, reports, resync           hungry.go report.go resync.go death.go
//	retries, deferall, retryat         retry.go
//	expiry, ETRN, queueonly            expiry.go etrn.go
//	reporttimes, DELIVERBY, notices    notice.go
//	work on control files, full disk   store.go fulldisk.go
//	orders, held mail                  order.go pendingorder.go hold.go reroute.go
//	reload, stop                       reload.go stop.go
//	queries                            view.go show.go explain.go wait.go walk.go
//	waits and dates                    clock.go agenda.go timer.go waiting.go watch.go
//	how a million messages are kept    message.go mail.go, package store
//	warm restart                       save.go saverate.go saveorder.go restore.go
//	limits of the cluster              cluster.go clusterrate.go
//	dead destinations in a cluster     destination.go
//	active-limit, recipient-limit      unload.go load.go loaded.go stub.go stublook.go stuborder.go
//	actions for the event log          eventlog.go
//
// The invariants are stated in check_test.go and checked after each Step of a
// test. testdata/ has scenarios in prose. Package simulate measures windows,
// preemption, turns and waits against models of servers. The manual is
// scheduler(8).
package scheduler

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"time"

	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/store"
)

// Scheduler is the whole state of the queue. Only one goroutine at a time may
// use it.
type Scheduler struct {
	delivery
}

// delivery handles what job lines lead to: outcomes, retries, writes to control
// files, and orders.
type delivery struct {
	dispatch
	rand  *rand.Rand
	store unwritten
}

// dispatch has the agents and the limits on them, and chooses what is fed.
type dispatch struct {
	queue
	agents     map[AgentID]*agent
	idleAgents store.List[*agent] // of all rings, longest idle first
	lastAgent  AgentID

	processes     limit.Limit[*ring] // of all channels
	forks         forkRate
	startFailures map[string]*startFailures // by ring.clause

	stop      stopping
	spoolDown bool // nothing can be written, so nothing is fed
	// spent is a channel whose last token was taken in this Step, or nil. A ring that was
	// dispatched before that may have kept an idle agent for its mail.
	spent    *channel
	yielding *ring // the ring that has given a session back in this Step, or nil
}

// queue has the threads and rings.
type queue struct {
	mail
	agenda
	config    *rule.Config
	unloaded  unloaded
	restoring restoring

	threads        map[threadKey]*thread
	replyRules     []*ruleState       // the reply rules, in their order
	savedRates     map[string]instant // what an earlier process saved and nothing uses yet: paidAt
	sites          map[string]*site
	siteNames      limit.Names[threadKey]
	threadSequence uint64 // last thread.sequence that was given

	rings     map[string]*ring  // by ring.key; without retired ones
	ringOrder store.List[*ring] // all rings in the order in which they were made
	lastRing  uint64            // last ring.id that was given
	// orphans takes the place of a ring for the threads for which no clause
	// gives a command. It is not in the list order.
	orphans ring
	dirty   []*ring     // to be dispatched before the Step ends
	turns   limit.Turns // of those who wait at limits

	unsaid     []*clusterShare // whose demand may have changed
	saidHalted bool            // dispatch.halted when the demand was said last

	fair *fair.Queue // what is due, but for what waits for the next run of a queueonly thread

	channels     map[string]*channel
	channelOrder []*channel // in the order in which they were made; none is dropped
}

// New returns a scheduler with an empty queue. The config must not change; a
// new one comes with a Reloaded event. All random numbers come from r.
func New(config *rule.Config, r *rand.Rand) *Scheduler {
	s := new(Scheduler)
	s.config, s.rand = config, r
	s.byID = store.NewSlabIndex(func(n messageRef) uint64 { return uint64(s.messages.At(n).id) })
	s.bySender = store.NewSlabIndex(func(n senderRef) uint64 { return s.senders.At(n).hash })
	s.senderSeed, s.extras = maphash.MakeSeed(), make(map[messageRef]*extras)
	s.threads = make(map[threadKey]*thread)
	s.holdOrders.init()
	s.sites, s.siteNames.Most = make(map[string]*site), maxKnownSites
	s.setRules(config.Replies)
	s.rings, s.channels = make(map[string]*ring), make(map[string]*channel)
	s.agents, s.startFailures = make(map[AgentID]*agent), make(map[string]*startFailures)
	s.watch.first = noLook
	s.noticePlans, s.delayPlans = make(map[messageRef]*noticePlan), make(map[vertexRef]*delayPlan)
	s.orders, s.savedOrders = make(map[vertexRef]*order), make(map[MessageID][]SavedOrder)
	s.heapIndex = func(v vertexRef) *int32 { return &s.vertices.At(v).place.Index }
	s.threadLinks = func(v vertexRef) *store.Links[vertexRef] { return &s.vertices.At(v).Links }
	s.timers.Index = func(t *timer) *int32 { return &t.index }
	s.dates.Index = s.timers.Index
	s.wakes.Index = func(x *waitingMail) *int32 { return &x.index }
	s.shares.Index = func(c *clusterShare) *int32 { return &c.index }
	s.idleAgents.Of = func(a *agent) *store.Links[*agent] { return &a.Links }
	s.ringOrder.Of = func(r *ring) *store.Links[*ring] { return &r.inOrder }
	s.orphans.id = math.MaxUint64
	s.orphans.members.Of = memberLinksOf
	s.orphans.hungry.Of = hungryLinksOf
	s.unloaded.init()
	s.fair = fair.New(&s.queue)
	s.orphans.fair = s.fair.NewRing(&rule.Params{Quantum: 1}, func() {}) // nothing is fed there
	s.store.pending = make(map[Op]*pending)
	s.store.retry.due = func(s *Scheduler) { s.retryWrites() }
	s.stop.deadline.due = func(s *Scheduler) { s.stopDeadline() }
	s.forks.next.due = func(s *Scheduler) { s.wakeForks() }
	return s
}

// Step tells the scheduler one event and returns what to do about it, in
// order. The slice is valid until the next Step.
func (s *Scheduler) Step(now Now, e Event) []Action {
	s.clock.set(now)
	if s.startedAt == 0 {
		s.startedAt = s.now
	}
	s.out = s.out[:0]
	s.endAllowances()
	s.handle(e)
	if len(s.unloaded.candidates) > 0 {
		s.unloadCandidates()
	}
	s.markDemands()
	s.dispatchDirty()
	s.loadMail()
	s.sayDemand()
	s.stopWhenDone()
	return s.out
}

func (s *Scheduler) handle(e Event) {
	switch e := e.(type) {
	case Tick:
		if e.RetryWrites && s.store.retry.isPlanned() {
			s.plan(&s.store.retry, s.now)
		}
		s.wake()
	case Arrived:
		s.arrive(&e.Message)
	case AgentStarted:
		s.agentStarted(e)
	case AgentFailed:
		s.agentFailed(e)
	case AgentHungry:
		s.agentHungry(e.Agent)
	case AgentReports:
		s.agentReports(e.Agent)
	case AgentLocked:
		s.agentLocked(e.Agent)
	case AgentReported:
		s.agentReported(e.Agent, &e.Report)
	case AgentResync:
		s.agentResync(e.Agent, e.Message)
	case AgentFlooded:
		s.agentFlooded(e.Agent)
	case AgentExited:
		s.agentExited(e)
	case Done:
		s.writeDone(e)
	case Failed:
		s.writeFailed(e)
	case Reread:
		s.reread(&e)
	case SpoolBack:
		s.spoolBack()
	case Triggered:
		s.triggered(e.Host)
	case Reloaded:
		s.reload(e.Config)
	case Ordered:
		s.ordered(&e)
	case Loaded:
		s.loadedAgain(&e.Message)
	case NotLoaded:
		s.notLoaded(e)
	case HeldThread:
		s.heldThread(&e)
	case SuspendedThread:
		s.suspendByOrder(&e)
	case Lifted:
		s.lift(threadKey{e.Channel, e.Host})
	case Restored:
		s.restored(&e.Thread)
	case RestoredRate:
		s.restoredRate(e.Rate)
	case RestoredOrder:
		id := e.Order.Targets[0].Message
		s.savedOrders[id] = append(s.savedOrders[id], e.Order)
	case AllLoaded:
		s.allLoaded()
	case Allowance:
		s.allowance(e)
	case DestinationDead:
		s.destinationDead(e)
	case Stopping:
		s.beginStop(e.Slow)
	default:
		panic("scheduler: unknown event")
	}
}

// Next returns the time at which the scheduler wants a Tick if no other event
// comes first; false if it only waits for events. The time may be in the past. It is a
// time by the wall clock, as that was set at the last Step: when the clock is set, a Tick
// should follow.
func (s *Scheduler) Next() (time.Time, bool) {
	next := min(s.agenda.next(), s.showing(s.nextLook()))
	if s.mayLoad() && s.looksNow() {
		next = min(next, s.showing(s.unloaded.looks.next()))
	}
	if next == never {
		return time.Time{}, false
	}
	return s.date.after(next.since(s.now)).time(), true
}

// wake does everything that is due by now.
func (s *Scheduler) wake() {
	if s.nextLook() <= s.date {
		for _, n := range s.watch.take(s.date, wakeSlice) {
			if v := s.vertices.At(n); v.state.isWatched() {
				s.wakeVertex(v)
			}
		}
	}
	s.wakeTimers()
	s.wakeVertices()
}
