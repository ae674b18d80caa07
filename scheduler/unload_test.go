package scheduler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// limitTest is a scheduler with limits on memory, its agents and its spool, in simulated time. A
// message has one recipient at each of its hosts. The first letters of a host say how it takes
// its mail:
//
//	good   in 50 ms
//	slow   in 30 s
//	dead   not at all: the attempt fails after a second
//	gone   not at all: no agent can be started
//	held   not at all: it is held
type limitTest struct {
	t        *testing.T
	s        *Scheduler
	rand     *rand.Rand
	now      time.Time
	begun    time.Time // when held mail was there
	last     MessageID
	hosts    map[MessageID][]string
	done     map[MessageID]map[string]bool
	arrived  map[MessageID]time.Time
	tried    map[MessageID]bool
	later    []limitEvent // in order of time
	sessions int          // of a ring
	most     int          // messages in memory beyond the limit
	steps    int
	isBroken bool // slow, dead and gone hosts are as they are called
}

type limitEvent struct {
	at time.Time
	do func()
}

func newLimitTest(t *testing.T, seed uint64, limit, sessions int) *limitTest {
	m := &limitTest{
		t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_800_000_000, 0), sessions: sessions, isBroken: true,
		hosts: make(map[MessageID][]string), done: make(map[MessageID]map[string]bool),
		arrived: make(map[MessageID]time.Time), tried: make(map[MessageID]bool),
	}
	m.s = New(m.config(limit), rand.New(rand.NewPCG(seed, 2)))
	return m
}

func (m *limitTest) config(limit int) *rule.Config {
	clause := func(host, command string) rule.Clause {
		return rule.Clause{Channel: "smtp", Host: host, Settings: []rule.Setting{
			{Name: "command", Value: command, Apply: func(p *rule.Params) { p.Command = []string{command} }},
		}}
	}
	return &rule.Config{
		ActiveLimit: limit,
		Defaults: rule.Params{
			Interval: time.Minute, Expiry: 72 * time.Hour, Retries: []int{1, 2, 4}, Jitter: 10,
			MaxThr: 1, MaxRing: m.sessions, Sessions: 1, Quantum: 5, Overfeed: 3, UID: -1, GID: -1, Marking: ta.SchedulerMarks,
		},
		Clauses: []rule.Clause{clause("gone*", "gone"), clause("*", "smtp")},
	}
}

// after plans something.
func (m *limitTest) after(d time.Duration, do func()) {
	m.later = append(m.later, limitEvent{m.now.Add(d), do})
	slices.SortStableFunc(m.later, func(a, b limitEvent) int { return a.at.Compare(b.at) })
}

// message is a message with its open recipients.
func (m *limitTest) message(id MessageID) Message {
	in := Message{ID: id, Path: fmt.Sprint(id), Sender: "a@b", ErrorTo: "a@b", ModifiedAt: m.arrived[id], ChangedAt: m.now}
	for i, host := range m.hosts[id] {
		if !m.done[id][host] {
			in.Recipients = append(in.Recipients, ctlfile.OpenRecipient{Offset: int64(160 + i), Channel: "smtp", Host: host, Notify: ctlfile.NotifyFailure})
		}
	}
	return in
}

func (m *limitTest) arriveAt(hosts ...string) {
	m.last++
	m.hosts[m.last], m.arrived[m.last], m.done[m.last] = hosts, m.now, map[string]bool{}
	m.tell(Arrived{m.message(m.last)})
}

// tell tells the core an event, and has the actions answered.
func (m *limitTest) tell(e Event) {
	actions := Keep(m.s.Step(At(m.now), e))
	if m.steps++; m.steps%32 == 0 {
		m.s.check()
	}
	if m.s.rules.config.ActiveLimit > 0 {
		m.most = max(m.most, m.s.loads.messages-m.s.rules.config.ActiveLimit)
	}
	for _, a := range actions {
		switch a := a.(type) {
		case Start:
			if m.isBroken && a.Command[0] == "gone" {
				m.after(0, func() { m.tell(AgentFailed{Agent: a.Agent, Reason: "no such file"}) })
			} else {
				m.after(10*time.Millisecond, func() { m.tell(AgentSaid{Agent: a.Agent, Word: Hungry}) })
			}
		case Idle:
			m.after(0, func() { m.tell(AgentSaid{a.Agent, Hungry}) })
		case Close:
			m.after(0, func() { m.tell(AgentExited{Agent: a.Agent}) })
		case Kill:
			m.after(0, func() { m.tell(AgentExited{Agent: a.Agent}) })
		case *Feed:
			m.after(m.worksFor(a.Job.Host), func() { m.work(*a) })
		case Read:
			m.after(0, func() { m.tell(Reread{Op: a.Op}) })
		case Mark:
			m.after(0, func() { m.tell(Done{Op: a.Op}) })
		case *Finish:
			m.after(0, func() { m.tell(Done{Op: a.Op}) })
		case Load:
			m.after(time.Duration(m.rand.IntN(5))*time.Millisecond, func() { m.tell(Loaded{m.message(a.Message)}) })
		}
	}
}

// worksFor is how long an agent works on a job line.
func (m *limitTest) worksFor(host string) time.Duration {
	switch {
	case !m.isBroken || strings.HasPrefix(host, "good"):
		return 50 * time.Millisecond
	case strings.HasPrefix(host, "slow"):
		return 30 * time.Second
	}
	return time.Second
}

// work lets an agent answer a job line.
func (m *limitTest) work(f Feed) {
	var id MessageID
	fmt.Sscan(f.Job.Path, &id)
	m.tried[id] = true
	status := ta.OK3
	if m.isBroken && strings.HasPrefix(f.Job.Host, "dead") {
		status = ta.DeferAll
	} else {
		m.done[id][f.Job.Host] = true
	}
	offset := int64(160 + slices.Index(m.hosts[id], f.Job.Host))
	m.tell(AgentReported{Agent: f.Agent, Report: ta.Report{Message: uint64(id), Offset: offset, Status: status, Text: "said"}})
	m.tell(AgentSaid{Agent: f.Agent, Word: Hungry})
}

// run lets time pass.
func (m *limitTest) run(d time.Duration) {
	for end := m.now.Add(d); ; {
		next := end
		if len(m.later) > 0 && m.later[0].at.Before(next) {
			next = m.later[0].at
		}
		if at, waits := m.s.Next(); waits && at.Before(next) {
			m.now = later(m.now, at)
			m.tell(Tick{})
			continue
		}
		m.now = later(m.now, next)
		if next == end {
			return
		}
		e := m.later[0]
		m.later = m.later[1:]
		e.do()
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// untried is the first message for good hosts only that has waited for longer than that; 0: none.
func (m *limitTest) untried(d time.Duration) MessageID {
	for id := MessageID(1); id <= m.last; id++ {
		isGood := !slices.ContainsFunc(m.hosts[id], func(host string) bool { return !strings.HasPrefix(host, "good") })
		if isGood && !m.tried[id] && !m.arrived[id].Equal(m.begun) && m.now.Sub(m.arrived[id]) > d {
			return id
		}
	}
	return 0
}

// TestEachDestinationHasItsTurn: under limits that change, with destinations that are slow, dead,
// held or have no agents in messages of all kinds, mail for the others is tried within five
// seconds. No more is in memory than the limit and what the sessions are about to take. When all
// destinations are good, all mail leaves.
func TestEachDestinationHasItsTurn(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const sessions, heldMail = 6, 2000
			m := newLimitTest(t, uint64(seed), 20, sessions)
			m.tell(HeldThread{Channel: "smtp", Host: "held", Held: true})
			m.begun = m.now
			for range heldMail { // it changes nothing
				m.last++
				m.hosts[m.last], m.arrived[m.last], m.done[m.last] = []string{"good1"}, m.now, map[string]bool{}
				in := m.message(m.last)
				in.Hold, in.UnderHold = new(HoldOrder), true
				m.s.Step(At(m.now), Arrived{in})
			}
			bad := []string{"slow1", "slow2", "dead1", "dead2", "gone", "held"}
			m.run(time.Second)
			for range 200 {
				m.arriveAt(bad[m.rand.IntN(len(bad))])
			}
			for range 600 {
				m.run(time.Duration(m.rand.IntN(1000)) * time.Millisecond)
				switch roll := m.rand.IntN(100); {
				case roll < 40:
					m.arriveAt(fmt.Sprint("good", m.rand.IntN(10)))
				case roll < 70:
					m.arriveAt(bad[m.rand.IntN(len(bad))])
				case roll < 90:
					hosts := []string{fmt.Sprint("good", m.rand.IntN(10))}
					for _, host := range bad {
						if m.rand.IntN(2) == 0 {
							hosts = append(hosts, host)
						}
					}
					m.arriveAt(hosts...)
				case roll < 93:
					m.tell(Triggered{Host: bad[m.rand.IntN(len(bad))]})
				case roll < 95:
					before := m.s.rules.config.ActiveLimit
					m.tell(Reloaded{m.config(m.rand.IntN(30))})
					if limit := m.s.rules.config.ActiveLimit; limit != 0 && (before == 0 || before > limit) {
						m.run(time.Minute)
						m.most = 0 // until the last agents have answered, more may be there
					}
				}
				if id := m.untried(5 * time.Second); id != 0 {
					t.Fatalf("message %d for %v has waited for %s: %+v", id, m.hosts[id], m.now.Sub(m.arrived[id]), m.s.Counts())
				}
			}
			// Sessions, and mail that waits for the next line of a pipe (overfeed).
			if bound := 2 * (sessions + 1 + sessions*3); m.most > bound {
				t.Errorf("%d messages beyond the limit were in memory, the bound is %d", m.most, bound)
			}
			m.isBroken = false
			m.tell(HeldThread{Channel: "smtp", Host: "held"})
			m.run(3 * time.Hour)
			if n := m.s.Counts().Messages; n != heldMail {
				t.Errorf("%d messages are left: %+v", n-heldMail, m.s.Counts())
			}
		})
	}
}

// TestMessageLargerThanTheLimitIsNotDivided: a message with more recipients than recipient-limit is
// loaded whole when a session is free for it.
func TestMessageLargerThanTheLimitIsNotDivided(t *testing.T) {
	m := newLimitTest(t, 1, 0, 4)
	c := *m.s.rules.config
	c.RecipientLimit = 10
	m.tell(Reloaded{&c})
	var hosts []string
	for i := range 100 {
		hosts = append(hosts, fmt.Sprint("good", i))
	}
	for range 20 {
		m.arriveAt("slow")
	}
	m.arriveAt(hosts...)
	m.run(10 * time.Second)
	if n := len(m.done[m.last]); n != 100 {
		t.Errorf("%d of 100 recipients are done", n)
	}
}

// TestUnloadedMailIsSmall: what remains of a message that is not loaded, however many recipients it
// has for a host.
func TestUnloadedMailIsSmall(t *testing.T) {
	const n = 50_000
	m := newLimitTest(t, 1, 1000, 1)
	m.s.rules.config.Frozen = true
	before := heapInUse()
	for i := range MessageID(n) {
		to := make([]ctlfile.OpenRecipient, 50)
		for r := range to {
			to[r] = ctlfile.OpenRecipient{Offset: int64(160 + r), Channel: "smtp", Host: fmt.Sprint("host", i%1000)}
		}
		m.s.Step(At(m.now), Arrived{Message{
			ID: i + 1, Path: fmt.Sprint(i + 1), Sender: "a@b", ErrorTo: "a@b", ModifiedAt: m.now, ChangedAt: m.now, MessageID: fmt.Sprint(i),
			Recipients: to,
		}})
	}
	if c := m.s.Counts(); c.NotLoaded < n-1000 {
		t.Errorf("%+v", c)
	}
	if each := float64(heapInUse()-before) / n; each > 240 {
		t.Errorf("%.0f bytes for a message that is not loaded", each)
	}
	runtime.KeepAlive(m)
}
