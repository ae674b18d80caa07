package scheduler

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
)

// TestSimulation lets seeded chance drive the core: messages of all shapes,
// agents that work, defer, lie, fall silent, do not leave and die, a store
// that is slow and fails, a configuration that changes. check holds after
// every Step, nothing starts beyond a limit, and no message leaves before each
// of its recipients has an outcome. At the end the world turns kind, and every
// message must leave.
func TestSimulation(t *testing.T) {
	seeds, steps := 12, 2500
	if testing.Short() {
		seeds, steps = 3, 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, uint64(seed))
			for range steps {
				w.randomEvent()
			}
			w.drain()
		})
	}
}

// TestSimulatedStop: whatever is under way, a stop comes to its end in time.
func TestSimulatedStop(t *testing.T) {
	for seed := range 12 {
		w := newHarness(t, uint64(seed))
		for range 100 + 50*seed {
			w.randomEvent()
		}
		begun := w.now
		w.step(Stopping{Slow: seed%2 == 0})
		for !w.s.stop.done {
			w.randomEvent()
			if w.now.Sub(begun) > slowStopTimeout+slowKillTimeout+time.Minute {
				t.Fatalf("seed %d does not stop: %+v", seed, w.s.Counts())
			}
		}
	}
}

// TestSameSeedSameActions: the core has no will of its own.
func TestSameSeedSameActions(t *testing.T) {
	run := func() uint64 {
		w := newHarness(t, 42)
		w.hashing = true
		for range 2000 {
			w.randomEvent()
		}
		return w.hash
	}
	if a, b := run(), run(); a != b {
		t.Errorf("the same events gave different actions: %x, %x", a, b)
	}
}

// world plays everything around the core.
type harness struct {
	t         *testing.T
	rand      *rand.Rand
	s         *Scheduler
	now       time.Time
	hashing   bool
	hash      uint64 // of all actions so far
	faultless bool   // nothing fails any more
	last      MessageID
	files     map[MessageID]*simFile
	agents    []*simAgent
	answers   []func() // of the store, to come
	down      bool
	probed    bool
	orders    orderSimulation
}

func newHarness(t *testing.T, seed uint64) *harness {
	w := &harness{
		t:      t,
		rand:   rand.New(rand.NewPCG(seed, 1)),
		now:    time.Unix(1_800_000_000, 0),
		files:  make(map[MessageID]*simFile),
		orders: newOrderSimulation(),
	}
	w.s = New(w.config(), rand.New(rand.NewPCG(seed, 2)))
	return w
}

// config makes clauses with small limits, so that they all bite, and with what
// a reload may change about the mail and agents that are there.
func (w *harness) config() *Config {
	set := func(name string, apply func(*Params)) Setting {
		return Setting{Name: name, Value: fmt.Sprint(w.rand.IntN(3)), Apply: apply}
	}
	n := func(most int) int { return 1 + w.rand.IntN(most) }
	ring, thr, over, sessions, quantum := n(4), n(3), w.rand.IntN(4), n(3), n(3)
	channel, wakeup := n(6), w.rand.IntN(2) == 0
	queueOnly, etrnOnly, ageOrder := w.chance(20), !w.chance(30), w.chance(30)
	command, marking, expiry := []string{"smtp", "-c", "$channel"}, MarkingScheduler, 3*time.Hour
	if w.chance(30) {
		command, marking, expiry = []string{"smtp", "-c", "$host"}, MarkingAgent, time.Hour
	}
	return &Config{
		Defaults: Params{
			AgentTimeout: 10 * time.Minute,
			Interval:     time.Minute, Expiry: expiry, Expiry2: time.Hour, Retries: []int{1, 2, 3}, Jitter: 10,
			MaxThr: 1, Sessions: 1, Quantum: 5, UID: -1, GID: -1,
		},
		Clauses: []Clause{
			{Channel: "*", Host: "*"},
			{Channel: "smtp", Host: "slow*", Settings: []Setting{
				set("command", func(p *Params) { p.Command, p.QueueOnly, p.AgeOrder = command, queueOnly, ageOrder }),
				set("maxring", func(p *Params) { p.MaxRing, p.MaxThr, p.Overfeed, p.Quantum = ring, thr, over, quantum }),
				set("wakeuprestartonly", func(p *Params) { p.WakeupRestartOnly = wakeup }),
			}},
			{Channel: "smtp", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"smtp", "${sessions}"} }),
				set("sessions", func(p *Params) { p.Sessions, p.MaxThr, p.MaxChannel = sessions, thr, channel }),
			}},
			{Channel: "local", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"mailbox", "$host"} }),
				set("marking", func(p *Params) { p.Marking, p.AgeOrder = marking, true }),
			}},
			{Channel: "etrn", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"smtp"} }),
				set("queueonly", func(p *Params) { p.QueueOnly = etrnOnly }),
			}},
		},
		MaxAgents: n(6), ForkRate: n(3), Frozen: w.chance(3),
	}
}

func (w *harness) chance(percent int) bool { return !w.faultless && w.rand.IntN(100) < percent }

// turn lets one thing happen.
func (w *harness) randomEvent() {
	switch roll := w.rand.IntN(100); {
	case roll < 12 && !w.faultless:
		w.arrive()
	case roll < 60 && len(w.agents) > 0:
		w.work(w.agents[w.rand.IntN(len(w.agents))])
	case roll < 70 && len(w.answers) > 0:
		w.answer(w.rand.IntN(len(w.answers)))
	case roll < 72:
		w.step(Triggered{Host: w.host()})
	case roll < 73 && !w.faultless:
		w.step(Reloaded{Config: w.config()})
	case roll < 75 && w.down:
		w.storeBack()
	case roll < 85:
		w.randomOrder()
	default:
		w.passTime()
	}
}

// pass lets time go to the next thing the core waits for, or a little.
func (w *harness) passTime() {
	if next, ok := w.s.Next(); ok && (w.faultless || w.rand.IntN(2) == 0) {
		if next.After(w.now) {
			w.now = next
		}
		w.tick()
		return
	}
	w.now = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
}

// tick does what the time has come for. The core must not ask for the same
// time again and again.
func (w *harness) tick() {
	for range 50 {
		w.step(Tick{})
		if next, ok := w.s.Next(); !ok || next.After(w.now) {
			return
		}
	}
	w.t.Fatal("time does not pass")
}

var hosts = []string{"slow.example", "slower.example", "a.example", "b.example", "c.example"}

func (w *harness) host() string { return hosts[w.rand.IntN(len(hosts))] }

// arrive takes a message. Its number may be that of one that has left.
func (w *harness) arrive() {
	w.last++
	id := w.last
	if old := MessageID(1 + w.rand.IntN(int(w.last))); w.chance(10) && w.files[old] == nil && w.orders.held[old] == nil && w.s.Known(old) == Absent {
		id = old
	}
	m := Message{
		ID: id, Path: fmt.Sprint(id), Sender: "a@b", ErrorTo: "a@b",
		LogID: fmt.Sprint("log", w.rand.IntN(50)), ModifiedAt: w.now.Add(-time.Duration(w.rand.IntN(9000)) * time.Second), ChangedAt: w.now,
	}
	if w.chance(3) {
		m.Obsoletes = []string{fmt.Sprint("log", w.rand.IntN(50))}
	}
	f := &simFile{tags: make(map[int64]ctlfile.Tag), done: make(map[int64]bool)}
	count := []int{1, 1, 1, 2, 5, 0}[w.rand.IntN(6)]
	for i := range count {
		r := Recipient{
			Offset:  int64(100 * (i + 1)),
			Channel: []string{"smtp", "smtp", "smtp", "local", "etrn", "nowhere"}[w.rand.IntN(6)],
			Host:    w.host(),
			Notify:  ctlfile.NotifyFailure | ctlfile.Notify(w.rand.IntN(2))*ctlfile.NotifySuccess,
		}
		if w.rand.IntN(4) == 0 {
			r.Class = 1 + w.rand.IntN(2)
		}
		m.Recipients = append(m.Recipients, r)
		f.tags[r.Offset] = ctlfile.Open
	}
	f.recipients, f.message = m.Recipients, m
	w.files[id] = f
	w.orders.killed[id], w.orders.expired[id] = false, false
	delete(w.orders.mustAttempt, id)
	w.step(Arrived{Message: m})
}

// step tells the core an event and carries out what comes of it.
func (w *harness) step(e Event) {
	actions := append([]Action(nil), w.s.Step(w.now, e)...)
	w.s.check()
	if w.hashing {
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %+v", w.hash, actions)
		w.hash = h.Sum64()
	}
	w.checkLimits(actions)
	w.checkOrders(actions)
	for _, a := range actions {
		w.perform(a)
	}
}

// withinLimits: no agent and no session starts beyond a limit. Each clause has
// its own; so this is about the last start and the last session of a Step.
func (w *harness) checkLimits(actions []Action) {
	s := w.s
	var started, fed *agent
	feeds := make(map[AgentID]int)
	for _, action := range actions {
		if f, ok := action.(Feed); ok {
			feeds[f.Agent]++
		}
	}
	for _, action := range actions {
		switch action := action.(type) {
		case Start:
			started = s.agents[action.Agent]
		case Feed:
			if a := s.agents[action.Agent]; a.sessions > 1 || len(a.lines) == feeds[a.id] {
				fed = a
			}
		}
	}
	if fed != nil && s.overLimit(fed.ring, fed.thread) {
		w.t.Fatalf("agent %d is fed beyond a limit", fed.id)
	}
	if started == nil {
		return
	}
	r := started.ring
	if !below(len(s.agents)-1, s.maxTA(r)) || !below(r.procs-1, s.maxRing(r)) || !below(r.channel.procs-1, s.maxChannel(r)) {
		w.t.Fatalf("agent %d is one too many", started.id)
	}
}

func (w *harness) perform(a Action) {
	switch a := a.(type) {
	case Start:
		w.start(a)
	case Feed:
		w.feed(a)
	case Idle:
		if agent := w.agent(a.Agent); agent != nil {
			agent.hungryOwed++
		}
	case Close:
		if agent := w.agent(a.Agent); agent != nil {
			agent.leaving = true
		}
	case Kill:
		if agent := w.agent(a.Agent); agent != nil && (a.Hard || !agent.ignoresTerm) {
			w.die(agent)
		}
	case Mark:
		w.answerLater(a.Op, func() { w.mark(a) })
	case Read:
		w.answerLater(a.Op, func() { w.read(a) })
	case Finish:
		w.answerLater(a.Op, func() { w.finish(a) })
	case Hold:
		w.answerLater(a.Op, func() { w.hold(a) })
	case Resubmit:
		w.answerLater(a.Op, func() { w.resubmit(a) })
	case Probe:
		w.probed = true
		if !w.down {
			w.storeBack()
		}
	}
}

// settle makes the world kind and waits until the queue is empty but for
// mail that no clause speaks for, which must expire.
func (w *harness) drain() {
	w.faultless = true
	w.step(Reloaded{Config: w.config()})
	for n := 0; len(w.s.byID)+len(w.orders.held) > 0; n++ {
		w.endOrders()
		if _, waits := w.s.Next(); !waits && len(w.answers) == 0 && len(w.agents) == 0 {
			w.serveAll()
		}
		if n > 20_000 {
			w.t.Fatalf("%d messages are stuck: %+v", len(w.s.byID), w.s.Counts())
		}
		w.round()
	}
	w.step(Stopping{})
	for n := 0; !w.s.stop.done; n++ {
		if n > 1000 {
			w.t.Fatalf("it does not stop: %+v", w.s.Counts())
		}
		w.round()
	}
}

// round lets everybody do what is to be done, and when that is nothing, time
// pass.
func (w *harness) round() {
	if w.down {
		w.storeBack()
	}
	busy := false
	for len(w.answers) > 0 {
		w.answer(0)
		busy = true
	}
	for _, a := range slices.Clone(w.agents) {
		if len(a.lines) > 0 || a.leaving || a.hungryOwed > 0 {
			w.work(a)
			busy = true
		}
	}
	if !busy {
		w.passTime()
	}
}
