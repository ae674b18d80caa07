package scheduler

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
)

// TestSimulation drives the core with seeded random events: messages of all
// shapes; agents that work, defer, report falsely, fall silent, do not exit,
// and die; a spool that is slow and fails; a configuration that changes. The
// invariants hold after each Step, nothing starts beyond a limit, and no
// message leaves before each of its recipients has an outcome. At the end
// nothing fails any more, and each message must leave.
func TestSimulation(t *testing.T) {
	seeds, steps := 6, 2000
	if testing.Short() {
		seeds, steps = 3, 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, uint64(seed))
			for range steps {
				h.randomEvent()
			}
			h.drain()
		})
	}
}

// TestSimulatedStop: whatever is under way, a stop ends in time.
func TestSimulatedStop(t *testing.T) {
	for seed := range 8 {
		h := newHarness(t, uint64(seed))
		h.steadyClock = true
		for range 100 + 50*seed {
			h.randomEvent()
		}
		begun := h.now
		h.step(Stopping{Slow: seed%2 == 0})
		for !h.s.agents.stop.done {
			h.randomEvent()
			if h.now.Sub(begun) > slowStopTimeout+slowKillTimeout+time.Minute {
				t.Fatalf("seed %d does not stop: %+v", seed, h.s.Counts())
			}
		}
	}
}

// TestSameSeedSameActions: the same events, times and seed give the same
// actions.
func TestSameSeedSameActions(t *testing.T) {
	run := func() uint64 {
		h := newHarness(t, 42)
		h.hashing = true
		for range 2000 {
			h.randomEvent()
		}
		return h.hash
	}
	if a, b := run(), run(); a != b {
		t.Errorf("the same events gave different actions: %x, %x", a, b)
	}
}

// harness simulates all that is around the core: the spool, the agents, the
// administrators and the clock.
type harness struct {
	t         *testing.T
	rand      *rand.Rand
	s         *Scheduler
	now       time.Time
	hashing   bool
	hash      uint64 // of all actions so far
	faultless bool   // nothing fails any more
	steps     int
	last      MessageID
	arrivals  map[MessageID]int // how often a message with the number has arrived
	largest   int               // recipients of a message
	fixed     *rule.Config      // in force until the end; nil: it changes
	files     map[MessageID]*simFile
	agents    []*simAgent
	answers   []func() // of the spool, to come
	wants     []simWant
	// steadyClock keeps the clock from being set, which moves spans that a test
	// measures.
	steadyClock bool
	clockSet    time.Duration // forward, by all settings so far
	down        bool
	probed      bool
	orders      orderSimulation
}

func newHarness(t *testing.T, seed uint64) *harness {
	h := &harness{
		t:     t,
		rand:  rand.New(rand.NewPCG(seed, 1)),
		now:   time.Unix(1_800_000_000, 0),
		files: make(map[MessageID]*simFile),

		arrivals: make(map[MessageID]int),
		orders:   newOrderSimulation(),
	}
	h.s = New(h.config(), rand.New(rand.NewPCG(seed, 2)))
	return h
}

// sender returns one of a few senders, in a few domains.
func (h *harness) sender() string {
	return []string{"a@x", "b@x", "c@y", "D@Y", ""}[h.rand.IntN(5)]
}

// chance is true in so many of a hundred calls, and never when nothing fails
// any more.
func (h *harness) chance(percent int) bool { return !h.faultless && h.rand.IntN(100) < percent }

// setClock sets the clock forward or back, by up to two days.
func (h *harness) setClock() {
	by := time.Duration(h.rand.IntN(4*86400)-2*86400) * time.Second
	h.now, h.clockSet = h.now.Add(by), h.clockSet+by
	h.step(Tick{})
}

// clocks returns the time by both clocks.
func (h *harness) clocks() Now {
	return Now{Elapsed: At(h.now).Elapsed - h.clockSet, Wall: h.now}
}

// randomEvent lets one thing happen.
func (h *harness) randomEvent() {
	switch roll := h.rand.IntN(100); {
	case roll < 12 && !h.faultless:
		h.arrive()
	case roll < 60 && len(h.agents) > 0:
		h.work(h.agents[h.rand.IntN(len(h.agents))])
	case roll < 70 && len(h.answers) > 0:
		h.answer(h.rand.IntN(len(h.answers)))
	case roll < 72:
		h.step(Triggered{Host: h.host()})
	case roll < 73 && h.chance(50):
		h.lift()
	case roll < 73 && h.chance(10) && !h.steadyClock:
		h.setClock()
	case roll < 73 && !h.faultless && h.fixed == nil:
		h.step(Reloaded{Config: h.config()})
	case roll < 75 && h.down:
		h.storeBack()
	case roll < 77:
		h.allow()
		h.tell()
	case roll < 85:
		h.randomOrder()
	default:
		h.passTime()
	}
}

// passTime advances the clock to the time of Next, or a little.
func (h *harness) passTime() {
	if next, ok := h.s.Next(); ok && (h.faultless || h.rand.IntN(2) == 0) {
		if next.After(h.now) {
			h.now = next
		}
		h.tick()
		return
	}
	h.now = h.now.Add(time.Duration(h.rand.IntN(5000)) * time.Millisecond)
}

// tick sends Ticks until the core wants one in the future. It must not ask for
// the same time again and again.
func (h *harness) tick() {
	for range 50 {
		h.step(Tick{})
		if next, ok := h.s.Next(); !ok || next.After(h.now) {
			return
		}
	}
	h.t.Fatal("time does not pass")
}

var simulationHosts = []string{"slow.example", "slower.example", "a.example", "b.example", "c.example"}

func (h *harness) host() string { return simulationHosts[h.rand.IntN(len(simulationHosts))] }

// arrive adds a message. Its number may be that of one that has left.
func (h *harness) arrive() {
	h.last++
	id := h.last
	if old := MessageID(1 + h.rand.IntN(int(h.last))); h.chance(10) && h.files[old] == nil && h.s.mail.message(old) == nil {
		id = old
	}
	sender := h.sender()
	m := Message{
		ID: id, Path: fmt.Sprint(id), Sender: sender, ErrorTo: "a@b", Source: []string{"", "uid:7", "local"}[h.rand.IntN(3)],
		MessageID: fmt.Sprint("log", h.rand.IntN(50)), ModifiedAt: h.now.Add(-time.Duration(h.rand.IntN(9000)) * time.Second), ChangedAt: h.now,
	}
	if h.chance(3) {
		m.Obsoletes = []string{fmt.Sprint("log", h.rand.IntN(50))}
	}
	f := &simFile{tags: make(map[int64]ctlfile.Tag), done: make(map[int64]bool)}
	count := []int{1, 1, 1, 1, 1, 2, 2, 5, 12, 0}[h.rand.IntN(10)]
	for i := range count {
		r := ctlfile.OpenRecipient{
			Offset:  int64(100 * (i + 1)),
			Channel: []string{"smtp", "smtp", "smtp", "local", "etrn", "nowhere"}[h.rand.IntN(6)],
			Host:    h.host(),
			Notify:  ctlfile.NotifyFailure | ctlfile.Notify(h.rand.IntN(2))*ctlfile.NotifySuccess | ctlfile.Notify(h.rand.IntN(2))*ctlfile.NotifyDelay,
			Delays:  h.rand.IntN(2),
		}
		if h.rand.IntN(4) == 0 {
			r.Class = 1 + h.rand.IntN(2)
		}
		m.Recipients = append(m.Recipients, r)
		f.tags[r.Offset] = ctlfile.Open
	}
	f.recipients, f.message = m.Recipients, m
	h.files[id] = f
	h.orders.killed[id], h.orders.expired[id] = false, false
	delete(h.orders.mustAttempt, id)
	h.arrivals[id]++
	h.largest = max(h.largest, len(m.Recipients))
	h.step(Arrived{Message: m})
}

// step tells the core an event and performs its actions.
func (h *harness) step(e Event) {
	actions := Keep(h.s.Step(h.clocks(), e))
	// While a queue is drained, a part of the states is enough.
	if h.steps++; !h.faultless || h.steps%8 == 0 {
		h.s.check()
	}
	if h.hashing {
		sum := fnv.New64a()
		fmt.Fprintf(sum, "%x", h.hash)
		for _, a := range actions {
			fmt.Fprintf(sum, " %+v", a)
		}
		h.hash = sum.Sum64()
	}
	h.checkLimits(actions)
	h.checkOrders(actions)
	for _, a := range actions {
		h.perform(a)
	}
}

// checkLimits: no agent and no session starts beyond a limit. Each clause has
// its own limits, so this checks the last start and the last session of a Step.
func (h *harness) checkLimits(actions []Action) {
	s := h.s
	var started, fed *agent
	feeds := make(map[AgentID]int)
	for _, action := range actions {
		if f, ok := action.(*Feed); ok {
			feeds[f.Agent]++
		}
	}
	for _, action := range actions {
		switch action := action.(type) {
		case Start:
			started = s.agents.byID[action.Agent]
		case *Feed:
			if a := s.agents.byID[action.Agent]; a.sessions > 1 || len(a.lines) == feeds[a.id] {
				fed = a
			}
		}
	}
	if fed != nil {
		links := slices.Clone(fed.thread.ring.links.onSessions())
		if l := fed.thread.siteLink(); l != nil {
			links = append(links, *l)
		}
		for i := range links {
			if l := s.limits.now(&links[i]); l.Room() < 0 {
				h.t.Fatalf("agent %d is fed beyond limit %d: %+v", fed.id, links[i].kind, l)
			}
		}
		if l := s.limits.own(fed.thread); l.Room() < 0 {
			h.t.Fatalf("agent %d is fed beyond the limit of its thread: %+v", fed.id, l)
		}
	}
	if started == nil {
		return
	}
	for i, l := range started.ring.links.onProcesses() {
		if s.limits.now(&l).Room() < 0 {
			h.t.Fatalf("agent %d is started beyond limit %d of processes", started.id, i)
		}
	}
}

func (h *harness) perform(a Action) {
	switch a := a.(type) {
	case Start:
		h.start(a)
	case *Feed:
		h.feed(*a)
	case Idle:
		if agent := h.agent(a.Agent); agent != nil {
			agent.hungryOwed++
		}
	case Close:
		if agent := h.agent(a.Agent); agent != nil {
			agent.leaving = true
		}
	case Kill:
		if agent := h.agent(a.Agent); agent != nil && (a.Hard || !agent.ignoresTerm) {
			h.die(agent)
		}
	case Mark:
		h.answerLater(a.Op, func() { h.mark(a) })
	case Read:
		h.answerLater(a.Op, func() { h.read(a) })
	case Report:
		h.answerLater(a.Op, func() { h.writeNotice(a) })
	case *Finish:
		h.answerLater(a.Op, func() { h.finish(*a) })
	case Hold:
		h.answerLater(a.Op, func() { h.move(a.Op, a.Message, true) })
	case Release:
		h.answerLater(a.Op, func() { h.move(a.Op, a.Message, false) })
	case Resubmit:
		h.answerLater(a.Op, func() { h.resubmit(a) })
	case Want:
		h.noteWant(a)
	case Probe:
		h.probed = true
		if !h.down {
			h.storeBack()
		}
	}
}

// drain lets nothing fail any more and waits until the queue is empty, except
// for mail that matches no clause, which must expire.
func (h *harness) drain() {
	h.faultless = true
	h.step(Reloaded{Config: h.config()})
	for n := 0; h.s.mail.counts.Messages > 0; n++ {
		h.endOrders()
		if _, waits := h.s.Next(); !waits && len(h.answers) == 0 && len(h.agents) == 0 {
			h.serveAll()
		}
		if n > 20_000 {
			h.t.Fatalf("%d messages are stuck: %+v", h.s.mail.byID.Len(), h.s.Counts())
		}
		h.round()
	}
	h.step(Stopping{})
	for n := 0; !h.s.agents.stop.done; n++ {
		if n > 1000 {
			h.t.Fatalf("it does not stop: %+v", h.s.Counts())
		}
		h.round()
	}
}

// round lets the spool and all agents do their work. If there is none, time
// passes.
func (h *harness) round() {
	h.allow()
	h.tell()
	if h.down {
		h.storeBack()
	}
	busy := false
	for len(h.answers) > 0 {
		h.answer(0)
		busy = true
	}
	for _, a := range slices.Clone(h.agents) {
		if len(a.lines) > 0 || a.leaving || a.hungryOwed > 0 {
			h.work(a)
			busy = true
		}
	}
	if !busy {
		h.passTime()
	}
}
