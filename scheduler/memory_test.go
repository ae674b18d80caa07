package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// TestMemoryIsBounded holds the bound that the manual gives, through random
// events: there are never more recipients in memory than recipient-limit, plus
// ring-reserve for each ring, plus those of the largest message. At the end each
// message has left.
func TestMemoryIsBounded(t *testing.T) {
	seeds, steps := 6, 1500
	if testing.Short() {
		seeds, steps = 3, 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, uint64(1000+seed))
			c := h.config()
			c.ActiveLimit, c.RecipientLimit, c.RingReserve, c.Frozen = 0, 1+h.rand.IntN(30), h.rand.IntN(8), false
			h.fixed = c
			h.s = New(c, rand.New(rand.NewPCG(uint64(seed), 2)))
			most := 0
			for range steps {
				h.randomEvent()
				_, in := h.s.inMemory()
				most = max(most, in)
				h.rings = max(h.rings, h.s.ringOrder.len)
				if bound := c.RecipientLimit + h.rings*c.RingReserve + h.largest; in > bound {
					t.Fatalf("%d recipients in memory, more than %d", in, bound)
				}
			}
			if most < min(c.RecipientLimit, 10) {
				t.Errorf("only %d recipients were in memory, although %d may be", most, c.RecipientLimit)
			}
			h.drain()
		})
	}
}

// memoryTest is a scheduler with limits on memory and a simulated spool. A message
// has one recipient at each of its hosts. Agents defer what they are given, except
// for hosts that deliver.
type memoryTest struct {
	*benchQueue
	t        *testing.T
	hostsOf  map[MessageID][]string
	done     map[MessageID]map[string]bool
	arrived  map[MessageID]time.Time
	delivers func(host string) bool
	killed   map[MessageID]bool
	// unstartable is the first word of the command whose agents cannot be started.
	unstartable string
	fed         []MessageID
	most        int // messages in memory
	mostTo      int // recipients in memory
}

func newMemoryTest(t *testing.T, sessions int, apply func(*Config)) *memoryTest {
	m := &memoryTest{
		benchQueue: newBenchQueue(sessions), t: t, hostsOf: make(map[MessageID][]string), done: make(map[MessageID]map[string]bool), arrived: make(map[MessageID]time.Time),
		delivers: func(string) bool { return true }, killed: make(map[MessageID]bool),
	}
	apply(m.s.config)
	return m
}

// message is a message with its open recipients.
func (m *memoryTest) message(id MessageID) Message {
	in := Message{ID: id, Path: fmt.Sprint(id), Sender: "a@b", ErrorTo: "a@b", ModifiedAt: m.arrived[id], ChangedAt: m.now}
	for i, host := range m.hostsOf[id] {
		if !m.done[id][host] {
			in.Recipients = append(in.Recipients, ctlfile.OpenRecipient{Offset: int64(160 + i), Channel: "smtp", Host: host, Notify: ctlfile.NotifyFailure})
		}
	}
	return in
}

// states are the tags of a message.
func (m *memoryTest) states(id MessageID) (states []ctlfile.State) {
	for i, host := range m.hostsOf[id] {
		st := ctlfile.State{Offset: int64(160 + i), Tag: ctlfile.Open}
		if m.done[id][host] {
			st.Tag = ctlfile.Delivered
		}
		states = append(states, st)
	}
	return states
}

// arriveAt adds a message for hosts.
func (m *memoryTest) arriveAt(hosts ...string) MessageID {
	m.last++
	m.hostsOf[m.last], m.arrived[m.last], m.done[m.last] = hosts, m.now, map[string]bool{}
	m.tell(Arrived{m.message(m.last)})
	return m.last
}

// tell tells the core an event and answers the actions on files at once.
func (m *memoryTest) tell(e Event) {
	events := []Event{e}
	for len(events) > 0 {
		actions := slices.Clone(m.s.Step(At(m.now), events[0]))
		events = events[1:]
		m.s.check()
		in, to := m.s.inMemory()
		m.most, m.mostTo = max(m.most, in), max(m.mostTo, to)
		for _, a := range actions {
			switch a := a.(type) {
			case Start:
				if a.Command[0] == m.unstartable {
					events = append(events, AgentFailed{Agent: a.Agent, Reason: "no such file"})
				} else {
					events = append(events, AgentHungry{Agent: a.Agent})
				}
			case Read:
				events = append(events, Reread{Op: a.Op, Recipients: m.states(a.Message)})
			case Mark:
				events = append(events, Done{Op: a.Op})
			case Idle:
				events = append(events, AgentHungry(a))
			case Feed:
				m.feeds = append(m.feeds, a)
			case Finish:
				events = append(events, Done{Op: a.Op})
			case Load:
				events = append(events, Loaded{m.message(a.Message)})
			}
		}
	}
}

// work lets agents answer the first n job lines that they were given.
func (m *memoryTest) work(n int) {
	for ; n > 0 && len(m.feeds) > 0; n-- {
		f := m.feeds[0]
		m.feeds = m.feeds[1:]
		var id MessageID
		fmt.Sscan(f.Job.Path, &id)
		m.fed = append(m.fed, id)
		status := ta.OK3
		if m.delivers(f.Job.Host) {
			m.done[id][f.Job.Host] = true
		} else {
			status = ta.Deferred
		}
		offset := int64(160 + slices.Index(m.hostsOf[id], f.Job.Host))
		m.tell(AgentReported{Agent: f.Agent, Report: ta.Report{Message: uint64(id), Offset: offset, Status: status, Text: "said"}})
		m.tell(AgentHungry{Agent: f.Agent})
	}
}

// TestSlowRingLeavesRoom: a ring whose agents answer nothing fills the room, and
// another ring still brings in ring-reserve recipients at a time.
func TestSlowRingLeavesRoom(t *testing.T) {
	m := newMemoryTest(t, 1, func(c *Config) {
		c.ActiveLimit, c.RingReserve = 20, 3
		c.Clauses = append([]Clause{{Channel: "smtp", Host: "quick*", Settings: []Setting{
			{Name: "command", Value: "quick", Apply: func(p *Params) { p.Command = []string{"quick"} }},
		}}}, c.Clauses...)
	})
	for n := range 100 {
		m.arriveAt(fmt.Sprintf("slow%d", n))
	}
	slow := m.feeds
	m.feeds = nil
	for n := range 50 {
		m.arriveAt(fmt.Sprintf("quick%d", n))
	}
	for range 50 {
		m.work(1)
	}
	if len(m.fed) != 50 {
		t.Errorf("%d of 50 messages of the quick ring were delivered", len(m.fed))
	}
	if m.most > 20+2*3+1 {
		t.Errorf("%d messages in memory", m.most)
	}
	m.feeds = slow
	m.work(1000)
	if n := m.s.Counts().Messages; n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestMessageLargerThanTheLimitIsNotDivided: a message with more recipients than
// recipient-limit comes into memory whole, also when it is read again, and small
// messages overtake it. The bound has room for it.
func TestMessageLargerThanTheLimitIsNotDivided(t *testing.T) {
	const limit, reserve, large, small, sessions = 100, 10, 300, 50, 4
	m := newMemoryTest(t, sessions, func(c *Config) {
		c.ActiveLimit, c.RecipientLimit, c.RingReserve = 0, limit, reserve
		p := &c.Defaults
		p.SlotCost, p.SlotDiscount, p.SlotLoan, p.MinSlots, p.Jitter = 5, 50, 3, 3, 0
	})
	m.delivers = func(host string) bool { return host != "later" }
	hosts := []string{"later"}
	for n := range large - 1 {
		hosts = append(hosts, fmt.Sprintf("large%d", n))
	}
	big := m.arriveAt(hosts...)
	if _, to := m.s.inMemory(); to != large {
		t.Fatalf("%d of %d recipients are in memory", to, large)
	}
	m.work(100)
	for n := range small {
		m.arriveAt(fmt.Sprintf("small%d", n))
	}
	m.work(150)
	if overtook := len(slices.DeleteFunc(slices.Clone(m.fed[100:]), func(id MessageID) bool { return id == big })); overtook < 10 {
		t.Errorf("%d small messages overtook the large one", overtook)
	}
	m.work(1000)
	if n := m.s.Counts(); n.Messages != 1 || n.Recipients != 1 {
		t.Errorf("%+v is left", n)
	}
	// The large message has one recipient left. With others, it is on record, and its
	// file is read for the next attempt.
	m.delivers = func(string) bool { return false }
	for n := range 2 * limit {
		m.arriveAt(fmt.Sprintf("other%d", n))
	}
	m.work(1000)
	m.delivers = func(string) bool { return true }
	m.now = m.now.Add(2 * time.Hour)
	for m.s.memory.calendar.next() <= instant(m.now.UnixNano()) {
		m.tell(Tick{})
	}
	m.tell(Tick{})
	m.work(1000)
	if n := m.s.Counts().Messages; n != 0 {
		t.Errorf("%d messages are left", n)
	}
	if bound := limit + m.s.ringOrder.len*reserve + large; m.mostTo > bound || m.mostTo < large {
		t.Errorf("at most %d recipients were in memory, the bound is %d", m.mostTo, bound)
	}
}

// TestLimitsBelowWhatAgentsHave: no ring gets its reserve, because of the bound. A warning
// and the explanation say so. A larger reserve gives room at once.
func TestLimitsBelowWhatAgentsHave(t *testing.T) {
	m := newMemoryTest(t, 50, func(c *Config) { c.ActiveLimit, c.RingReserve = 100, 5; brokenHosts(c) })
	for n := range 40 {
		m.arriveAt(fmt.Sprintf("host%d", n))
	}
	reload := func(limit, reserve int) (warned bool) {
		c := *m.s.config
		c.ActiveLimit, c.RecipientLimit, c.RingReserve = limit, limit, reserve
		for _, a := range slices.Clone(m.s.Step(At(m.now), Reloaded{Config: &c})) {
			switch a := a.(type) {
			case Note:
				warned = warned || a.Severity == Warning
			case Load:
				m.tell(Loaded{m.message(a.Message)})
			}
		}
		return warned
	}
	if reload(60, 5) {
		t.Error("a warning although there is room")
	}
	if !reload(10, 5) {
		t.Error("no warning")
	}
	for range 5 {
		m.arriveAt("other")
	}
	if e := m.s.Explain("smtp", "other"); e.Wait != WaitMemory || !e.BeyondReserves {
		t.Errorf("waits: %s, beyond the reserves: %v", e.Wait, e.BeyondReserves)
	}
	if reload(10, 40) {
		t.Error("a warning although the reserve is large")
	}
	if e := m.s.Explain("smtp", "other"); e.Wait == WaitMemory {
		t.Errorf("waits: %s", e.Wait)
	}
}

// TestSlowHostLeavesRoom: a host that takes its mail slowly does not keep out
// other hosts of the same ring.
func TestSlowHostLeavesRoom(t *testing.T) {
	m := newMemoryTest(t, 4, func(c *Config) { c.ActiveLimit, c.RingReserve = 20, 3 })
	for range 100 {
		m.arriveAt("slow")
	}
	slow := m.feeds
	m.feeds = nil
	for range 50 {
		m.arriveAt("quick")
	}
	m.work(1000)
	if len(m.fed) != 50 {
		t.Errorf("%d of 50 messages for the quick host were delivered", len(m.fed))
	}
	m.feeds = slow
	m.work(1000)
	if n := m.s.Counts().Messages; n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestNewAndDeferredMailTakeTurns: with a backlog of both, they come into memory
// one for one.
func TestNewAndDeferredMailTakeTurns(t *testing.T) {
	m := newMemoryTest(t, 1, func(c *Config) {
		c.ActiveLimit, c.RingReserve = 4, 0
		c.Defaults.Jitter, c.Defaults.MaxThr = 0, 1
	})
	m.delivers = func(string) bool { return false }
	for range 40 {
		m.arriveAt("a")
	}
	m.work(40)
	if n := m.s.Counts().OnRecord; n < 36 {
		t.Fatalf("%d messages are on record", n)
	}
	m.delivers = func(string) bool { return true }
	m.now = m.now.Add(2 * time.Hour)
	for m.s.memory.calendar.next() <= instant(m.now.UnixNano()) {
		m.tell(Tick{})
	}
	for range 40 {
		m.arriveAt("a")
	}
	m.fed = nil
	m.work(60)
	fresh := 0
	for _, id := range m.fed[8:60] {
		if id > 40 {
			fresh++
		}
	}
	if fresh < 24 || fresh > 28 {
		t.Errorf("%d of 52 picks were new mail: %v", fresh, m.fed)
	}
}

// TestRecordIndex compares the index with a map.
func TestRecordIndex(t *testing.T) {
	var b recordBook
	b.init()
	r := rand.New(rand.NewPCG(1, 1))
	have := make(map[MessageID]recordRef)
	for range 20_000 {
		id := MessageID(r.IntN(5000))
		if n, ok := have[id]; ok {
			if found := b.find(id); found != n {
				t.Fatalf("message %d is found as %d, not %d", id, found, n)
			}
			b.remove(n)
			delete(have, id)
			continue
		}
		if found := b.find(id); found != 0 {
			t.Fatalf("message %d is found as %d", id, found)
		}
		n, rec := b.items.alloc()
		rec.id, rec.logHash = id, uint32(id%700)
		b.add(n)
		have[id] = n
	}
	if int(b.byID.n) != len(have) || b.items.used() != len(have) {
		t.Errorf("%d are kept, %d should be", b.byID.n, len(have))
	}
}
