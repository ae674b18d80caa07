package scheduler

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// TestSimulation lets seeded chance drive the core: messages of all shapes,
// agents that work, defer, lie, fall silent and die, a store that fails, a
// configuration that changes. check holds after every Step. At the end the
// world turns kind, and every message must leave.
func TestSimulation(t *testing.T) {
	seeds, steps := 8, 3000
	if testing.Short() {
		seeds, steps = 3, 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(uint64(seed))
			for range steps {
				w.turn()
			}
			w.settle(t)
		})
	}
}

// TestSameSeedSameActions: the core has no will of its own.
func TestSameSeedSameActions(t *testing.T) {
	run := func() uint64 {
		w := newWorld(42)
		for range 3000 {
			w.turn()
		}
		return w.hash
	}
	if a, b := run(), run(); a != b {
		t.Errorf("the same events gave different actions: %x, %x", a, b)
	}
}

// world plays everything around the core.
type world struct {
	rand   *rand.Rand
	s      *Scheduler
	now    time.Time
	hash   uint64 // of all actions so far
	kind   bool   // nothing fails any more
	next   MessageID
	files  map[MessageID]*simFile
	agents []*simAgent
	failed []Op // writes that failed while the store was down
	down   bool
	probed bool
	gone   int // messages whose files were removed
}

// simFile is a control file: tags by offset.
type simFile struct {
	tags  map[int64]ctlfile.Tag
	order []int64
}

type simAgent struct {
	id      AgentID
	hungers int // #hungry lines it owes
	lines   []simLine
	leaving bool
}

type simLine struct {
	id      MessageID
	offsets []int64 // still to be reported
}

func newWorld(seed uint64) *world {
	w := &world{
		rand:  rand.New(rand.NewPCG(seed, 1)),
		now:   time.Unix(1_800_000_000, 0),
		files: make(map[MessageID]*simFile),
	}
	w.s = New(w.config(), rand.New(rand.NewPCG(seed, 2)))
	return w
}

// config makes clauses with small limits, so that they all bite.
func (w *world) config() *Config {
	set := func(name string, apply func(*Params)) Setting {
		return Setting{Name: name, Value: fmt.Sprint(w.rand.IntN(3)), Apply: apply}
	}
	n := func(most int) int { return 1 + w.rand.IntN(most) }
	ring, thr, over, sessions, quantum := n(4), n(3), w.rand.IntN(4), n(3), n(3)
	channel := n(6)
	return &Config{
		Defaults: Params{
			Interval: time.Minute, Expiry: 3 * time.Hour, Retries: []int{1, 2, 3}, Jitter: 10,
			MaxThr: 1, Sessions: 1, Quantum: 5, UID: -1, GID: -1,
		},
		Clauses: []Clause{
			{Channel: "*", Host: "*"},
			{Channel: "smtp", Host: "slow*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"smtp", "-c", "$channel"} }),
				set("maxring", func(p *Params) { p.MaxRing, p.MaxThr, p.Overfeed, p.Quantum = ring, thr, over, quantum }),
			}},
			{Channel: "smtp", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"smtp", "${sessions}"} }),
				set("sessions", func(p *Params) { p.Sessions, p.MaxThr, p.MaxChannel = sessions, thr, channel }),
			}},
			{Channel: "local", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"mailbox", "$host"} }),
				set("marking", func(p *Params) { p.Marking, p.AgeOrder = MarkingScheduler, true }),
			}},
			{Channel: "etrn", Host: "*", Settings: []Setting{
				set("command", func(p *Params) { p.Command = []string{"smtp"} }),
				set("queueonly", func(p *Params) { p.QueueOnly = true }),
			}},
		},
		MaxAgents: n(6), ForkRate: n(3), AgentTimeout: time.Hour,
	}
}

func (w *world) chance(percent int) bool { return !w.kind && w.rand.IntN(100) < percent }

// turn lets one thing happen.
func (w *world) turn() {
	switch roll := w.rand.IntN(100); {
	case roll < 12 && !w.kind:
		w.arrive()
	case roll < 70 && len(w.agents) > 0:
		w.work(w.agents[w.rand.IntN(len(w.agents))])
	case roll < 72:
		w.step(Triggered{Host: w.host()})
	case roll < 73 && !w.kind:
		w.step(Reloaded{Config: w.config()})
	case roll < 75 && w.down:
		w.storeBack()
	default:
		w.pass()
	}
}

// pass lets time go to the next thing the core waits for, or a little.
func (w *world) pass() {
	if next, ok := w.s.Next(); ok && w.rand.IntN(2) == 0 {
		if next.After(w.now) {
			w.now = next
		}
		w.step(Tick{})
		return
	}
	w.now = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
}

func (w *world) host() string {
	return []string{"slow.example", "slower.example", "a.example", "b.example", "c.example"}[w.rand.IntN(5)]
}

func (w *world) arrive() {
	w.next++
	m := Message{
		ID: w.next, Path: fmt.Sprint(w.next), Sender: "a@b", ErrorTo: "a@b",
		LogID: fmt.Sprint("log", w.rand.IntN(50)), ModifiedAt: w.now, ChangedAt: w.now,
	}
	if w.chance(3) {
		m.Obsoletes = []string{fmt.Sprint("log", w.rand.IntN(50))}
	}
	f := &simFile{tags: make(map[int64]ctlfile.Tag)}
	count := []int{1, 1, 1, 2, 5, 0}[w.rand.IntN(6)]
	for i := range count {
		r := Recipient{
			Offset:  int64(100 * (i + 1)),
			Channel: []string{"smtp", "smtp", "local", "etrn", "nowhere"}[w.rand.IntN(5)],
			Host:    w.host(),
			Notify:  ctlfile.NotifyFailure | ctlfile.Notify(w.rand.IntN(2))*ctlfile.NotifySuccess,
		}
		if w.rand.IntN(4) == 0 {
			r.Class = 1 + w.rand.IntN(2)
		}
		m.Recipients = append(m.Recipients, r)
		f.tags[r.Offset] = ctlfile.Open
		f.order = append(f.order, r.Offset)
	}
	w.files[m.ID] = f
	w.step(Arrived{Message: m})
}

// work lets an agent do one thing, right or wrong.
func (w *world) work(a *simAgent) {
	switch {
	case w.chance(2):
		w.die(a)
	case w.chance(3):
		w.step(AgentHungry{Agent: a.id})
	case w.chance(3):
		w.step(AgentReported{Agent: a.id, Report: ta.Report{
			Message: uint64(1 + w.rand.IntN(int(w.next)+1)), Offset: 100, Status: ta.Status(1 + w.rand.IntN(9)),
		}})
	case len(a.lines) > 0:
		w.workLine(a)
	case a.leaving:
		w.die(a)
	case a.hungers > 0:
		a.hungers--
		w.step(AgentHungry{Agent: a.id})
	}
}

func (w *world) workLine(a *simAgent) {
	l := &a.lines[0]
	if len(l.offsets) == 0 || w.chance(2) {
		a.lines = a.lines[1:]
		a.hungers++
		if w.chance(5) {
			w.step(AgentResync{Agent: a.id, Message: l.id})
		}
		return
	}
	offset := l.offsets[0]
	l.offsets = l.offsets[1:]
	status := ta.OK3
	if w.chance(50) {
		status = ta.Status(1 + w.rand.IntN(9))
	}
	rep := ta.Report{Message: uint64(l.id), Offset: offset, Status: status, Text: "said"}
	if status == ta.RetryAt {
		rep.Retry = ta.Retry{Given: w.chance(80), Relative: w.chance(50), Seconds: int64(w.rand.IntN(4000))}
	}
	if status == ta.Deferred && w.chance(30) {
		rep.Notary = "x\x01failed\x014.4.1\x01smtp; 421\x01"
	}
	if f := w.files[l.id]; f != nil && !w.chance(5) { // sometimes it forgets to mark
		switch {
		case status <= ta.OK3:
			f.tags[offset] = ctlfile.Delivered
		case status <= ta.Error2:
			f.tags[offset] = ctlfile.Failed
		}
	}
	if status == ta.DeferAll {
		l.offsets = nil
	}
	w.step(AgentReported{Agent: a.id, Report: rep})
}

func (w *world) die(a *simAgent) {
	for i, other := range w.agents {
		if other == a {
			w.agents = append(w.agents[:i], w.agents[i+1:]...)
			w.step(AgentExited{Agent: a.id, Status: "exit status 1"})
			return
		}
	}
}

func (w *world) storeBack() {
	w.down = false
	if w.probed {
		w.probed = false
		w.step(SpoolBack{})
	}
}

// step tells the core an event and carries out what comes of it.
func (w *world) step(e Event) {
	actions := append([]Action(nil), w.s.Step(w.now, e)...)
	w.s.check()
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %+v", w.hash, actions)
	w.hash = h.Sum64()
	for _, a := range actions {
		w.perform(a)
	}
}

func (w *world) perform(a Action) {
	switch a := a.(type) {
	case Start:
		if w.chance(5) {
			w.step(AgentFailed{Agent: a.Agent, Reason: "no such file"})
			return
		}
		hungers := 1
		if a.Command[0] == "smtp" && len(a.Command) == 2 {
			fmt.Sscan(a.Command[1], &hungers)
		}
		w.agents = append(w.agents, &simAgent{id: a.Agent, hungers: hungers})
		w.step(AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
	case Feed:
		w.feed(a)
	case Idle:
		if agent := w.agent(a.Agent); agent != nil {
			agent.hungers++
		}
	case Close:
		if agent := w.agent(a.Agent); agent != nil {
			agent.leaving = true
		}
	case Kill:
		if agent := w.agent(a.Agent); agent != nil {
			w.die(agent)
		}
	case Mark:
		w.mark(a)
	case Read:
		w.read(a)
	case Finish:
		w.finish(a)
	case Probe:
		w.probed = true
		if !w.down {
			w.storeBack()
		}
	}
}

func (w *world) agent(id AgentID) *simAgent {
	for _, a := range w.agents {
		if a.id == id {
			return a
		}
	}
	return nil
}

func (w *world) feed(a Feed) {
	agent := w.agent(a.Agent)
	if agent == nil {
		panic("fed an agent that is gone")
	}
	var id MessageID
	fmt.Sscan(a.Job.Path, &id)
	l := simLine{id: id}
	v := w.s.agents[a.Agent].lines[len(w.s.agents[a.Agent].lines)-1].v
	for i := range v.len() {
		if r := v.at(i); r.state == open {
			if w.files[id].tags[int64(r.offset)] != ctlfile.Open && w.kind {
				continue
			}
			l.offsets = append(l.offsets, int64(r.offset))
		}
	}
	agent.lines = append(agent.lines, l)
}

// fails decides whether a write fails, and says so.
func (w *world) fails(op Op) bool {
	switch {
	case w.down:
		w.step(Failed{Op: op, Reason: "full", Wide: true})
		return true
	case w.chance(1):
		w.down = true
		w.step(Failed{Op: op, Reason: "full", Wide: true})
		return true
	case w.chance(2):
		w.step(Failed{Op: op, Reason: "busy"})
		return true
	}
	return false
}

func (w *world) mark(a Mark) {
	if w.fails(a.Op) {
		return
	}
	if f := w.files[a.Message]; f != nil {
		for _, m := range a.Marks {
			if !m.LeaveTag {
				f.tags[m.Offset] = m.Tag
			}
		}
	}
	w.step(Done{Op: a.Op})
}

func (w *world) read(a Read) {
	if w.fails(a.Op) {
		return
	}
	f := w.files[a.Message]
	if f == nil || w.chance(2) {
		delete(w.files, a.Message)
		w.gone++
		w.step(Reread{Op: a.Op, Missing: true})
		return
	}
	e := Reread{Op: a.Op}
	for _, offset := range f.order {
		e.Recipients = append(e.Recipients, RecipientState{Offset: offset, Tag: f.tags[offset]})
	}
	w.step(e)
}

func (w *world) finish(a Finish) {
	if w.fails(a.Op) {
		return
	}
	delete(w.files, a.Message)
	w.gone++
	w.step(Done{Op: a.Op})
}

// settle makes the world kind and waits until the queue is empty but for
// mail that no clause speaks for, which must expire.
func (w *world) settle(t *testing.T) {
	w.kind = true
	w.step(Reloaded{Config: w.config()})
	for range 200_000 {
		if len(w.s.messages) == 0 {
			break
		}
		if w.down {
			w.storeBack()
		}
		w.turn()
		for _, a := range append([]*simAgent(nil), w.agents...) {
			w.work(a)
		}
	}
	if left := len(w.s.messages); left > 0 {
		t.Errorf("%d messages are stuck: %+v", left, w.s.Counts())
	}
	w.step(Stopping{})
	for range 1000 {
		if w.s.stop.told {
			return
		}
		for _, a := range append([]*simAgent(nil), w.agents...) {
			w.work(a)
		}
		w.pass()
	}
	t.Errorf("it does not stop: %+v", w.s.Counts())
}
