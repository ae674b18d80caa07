// Package scheduler decides what a mail queue does next. It is a
// deterministic value: told the time and what happened, it says what to do
// and when to ask again. It opens no file, starts no process and reads no
// clock; package daemon stands around it and does those things.
//
//	s := scheduler.New(config, rand)
//	for each thing that happens, and when the time of Next has come:
//	        for _, action := range s.Step(now, event) { perform it }
//
// The same events at the same times with the same seed give the same actions.
//
// # Words
//
// A control file in transport/ stands for one message. Its recipients for
// one channel and host are a vertex: that is one job line to an agent. The
// vertices of one channel and host are a thread. Threads that can share
// agents form a ring: the same clauses matched them, and the command comes
// out the same. An agent is a process that delivers; a session is one place
// in it where a job line is worked on. How many sessions a thread may use
// now is its window.
//
//	message ──< vertex >── thread >── ring ──< agent
//	                └────── job line ───────────┘
//
// # Life of a vertex
//
//	           arrival, wake, release
//	   ┌───────────────┐
//	waiting ────────► due ────────► fed ──► every recipient done: gone
//	   ▲               ▲   picked    │
//	   │               │ untouched   ├──► agent died, or found nothing
//	   │               └── reading ◄─┘    to do: the file is read again
//	   └───────────────────┴─────────┘ deferred: one retry step
//
// A due vertex is in its thread's queue, a waiting one in the agenda; what
// can expire is in the agenda too. A vertex that an agent died on three
// times running is poisoned and stays out of the way. One of which nothing can
// be fed, because its alternatives wait for others or its outcomes are being
// written, is dormant.
//
// # Orders and held mail
//
// An administrator's order (Ordered) reaches a vertex at once unless it is fed
// or being read; then it is written down in the vertex and carried out when
// that comes back. Killed recipients are tagged as done, expired ones as
// failed, with a notice; those that are to be routed or sent elsewhere settle
// like any outcome, with Resubmit in the place of Mark. The vertices of a
// message that is to be held rest, out of the queue and the agenda, until all
// of them do; then its files are moved and it is forgotten.
//
// A held thread (HeldThread) keeps its vertices in their states and is not
// fed. They drop out of the agenda as their times come, so nothing of it
// expires. Recipients that were held, in a thread or as a message, are spared
// when they are released: they do not expire before they had an attempt,
// however long that takes.
//
// # Views
//
// Queries are answered from views (view.go): values that are made in slices by
// a Walk, from what is kept as things change. Nothing is counted when it is
// asked for.
//
// # Rules
//
// Retries are in retry.go, what an agent says in report.go, what that does to
// a job line in session.go, alternatives in alternatives.go, limits in
// place.go, the choice of what is fed in pick.go, why something is not fed in
// wait.go, expiry in expiry.go, work on files in store.go and reread.go,
// memory in mail.go, orders in order.go, hold.go and resubmit.go, the
// invariants in check_test.go. The manual is scheduler(8).
package scheduler

import (
	"math"
	"math/rand/v2"
	"time"
)

// Scheduler is the whole state of the queue. It must be used by one goroutine
// at a time.
type Scheduler struct {
	delivery
}

// New returns a scheduler with an empty queue. The config is kept and must
// not change; a new one comes with a Reloaded event.
func New(config *Config, r *rand.Rand) *Scheduler {
	s := new(Scheduler)
	s.config, s.rand = config, r
	s.byID, s.byLogHash = make(map[MessageID]messageRef), make(map[uint64]messageRef)
	s.threads, s.held = make(map[threadKey]*thread), make(map[threadKey]bool)
	s.rings, s.channels = make(map[string]*ring), make(map[string]*channel)
	s.agents, s.startFailures = make(map[AgentID]*agent), make(map[string]*startFailures)
	s.wakes.index = func(v vertexRef) *int32 { return &s.vertices.at(v).wakeIndex }
	s.queueIndex = func(v vertexRef) *int32 { return &s.vertices.at(v).queueIndex }
	s.threadLinks = func(v vertexRef) *links[vertexRef] { return &s.vertices.at(v).links }
	s.resumes.index = func(t *thread) *int32 { return &t.resumeIndex }
	s.deadlines.index = func(a *agent) *int32 { return &a.deadlineIndex }
	s.backoffs.index = func(r *ring) *int32 { return &r.backoffIndex }
	s.idleAgents.of = func(a *agent) *links[*agent] { return &a.links }
	s.order.of = func(r *ring) *links[*ring] { return &r.inOrder }
	s.orphans.id = math.MaxUint64
	s.orphans.members.of = memberLinksOf
	s.forks.queue = newLimitQueue(0)
	s.store.pending = make(map[Op]*pending)
	return s
}

// delivery
type delivery struct {
	dispatch
	rand  *rand.Rand
	store store
}

// dispatch
type dispatch struct {
	queue
	agents     map[AgentID]*agent
	idleAgents list[*agent] // idle agents of all rings, longest idle first
	lastAgent  AgentID

	processQueues limitQueues // who waits for a process under maxta
	limitSequence uint64      // given to rings that wait
	forks         forkRate
	startFailures map[string]*startFailures // starts that fail, by clause

	stop      stopping
	spoolDown bool
	yielding  *ring
}

// queue
type queue struct {
	mail
	agenda
	config         *Config
	threads        map[threadKey]*thread
	held           map[threadKey]bool // threads that are held, mail or not
	threadSequence uint64
	rings          map[string]*ring
	order          list[*ring] // all rings in the order of making, retired ones too
	orphans        ring
	lastRing       uint64 // rings so far
	channels       map[string]*channel
	channelOrder   []*channel
	dirty          []*ring // to be dispatched before the Step ends
}

// agenda
type agenda struct {
	now       instant // of the Step under way
	out       []Action
	wakes     heap[vertexRef]
	resumes   heap[*thread]
	deadlines heap[*agent]
	backoffs  heap[*ring]
}

// Step tells the scheduler one event and returns what is to be done about it,
// in order. The slice is valid until the next Step. Time must not go back; an
// earlier now counts as the latest one seen.
func (s *Scheduler) Step(now time.Time, e Event) []Action {
	s.now = max(s.now, at(now))
	s.out = s.out[:0]
	s.handle(e)
	s.dispatchDirty()
	s.stopWhenDone()
	return s.out
}

func (s *Scheduler) handle(e Event) {
	switch e := e.(type) {
	case Tick:
		s.wake()
	case Arrived:
		s.arrive(&e.Message)
	case AgentStarted:
		s.agentStarted(e)
	case AgentFailed:
		s.agentFailed(e)
	case AgentHungry:
		s.agentHungry(e.Agent)
	case AgentReported:
		s.agentReported(e.Agent, &e.Report)
	case AgentResync:
		s.agentResync(e.Agent, e.Message)
	case AgentSpoke:
		s.agentSpoke(e.Agent)
	case AgentExited:
		s.agentExited(e)
	case Done:
		s.writeDone(e.Op)
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
	case HeldThread:
		s.heldThread(threadKey{e.Channel, e.Host}, e.Held)
	case Stopping:
		s.beginStop(e.Slow)
	default:
		panic("scheduler: unknown event")
	}
}

// Next says when the scheduler wants a Tick if nothing happens before; false
// when it waits for events only. The time may lie in the past.
func (s *Scheduler) Next() (time.Time, bool) {
	next := never
	next = min(next, s.agenda.next(), s.forks.next(), s.store.next(), s.stop.next())
	if next == never {
		return time.Time{}, false
	}
	return next.time(), true
}

func (ag *agenda) next() instant {
	return min(ag.wakes.next(), ag.resumes.next(), ag.deadlines.next(), ag.backoffs.next())
}

// wakeSlice bounds what one Tick does of each kind, so that a million
// wake-ups at one moment do not hold up what agents say. The rest stays
// overdue and Next asks for another Tick at once.
const wakeSlice = 500

// wake does what the time has come for.
func (s *Scheduler) wake() {
	for n := 0; n < wakeSlice && s.resumes.next() <= s.now; n++ {
		n += s.resumeThread(s.resumes.pop())
	}
	for n := 0; n < wakeSlice && s.wakes.next() <= s.now; n++ {
		s.wakeVertex(s.vertices.at(s.wakes.pop()))
	}
	for n := 0; n < wakeSlice && s.deadlines.next() <= s.now; n++ {
		s.checkDeadline(s.deadlines.pop())
	}
	for n := 0; n < wakeSlice && s.backoffs.next() <= s.now; n++ {
		s.markDirty(s.backoffs.pop())
	}
	s.wakeForks()
	s.retryWritesDue()
	s.wakeStop()
}

// do appends an action to those of this Step.
func (ag *agenda) do(a Action) { ag.out = append(ag.out, a) }

// Standing is what the scheduler knows of a message identity.
type Standing uint8

const (
	// Absent: not in memory. A file of that number is to be taken.
	Absent Standing = iota
	// Present: in the queue.
	Present
	// Leaving: its files are being removed, or moved to hold/. A file that shows up under the
	// same number now may be a new message in a reused inode: look again
	// when it has left.
	Leaving
)

// Known tells whether a file of that number is to be taken.
func (s *Scheduler) Known(id MessageID) Standing {
	m := s.message(id)
	switch {
	case m == nil:
		return Absent
	case m.flags&(removing|moving) != 0:
		return Leaving
	}
	return Present
}
