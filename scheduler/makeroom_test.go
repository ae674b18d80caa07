package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// brokenHosts gives hosts "gone*" a command that cannot be started, and hosts "dead*"
// one each.
func brokenHosts(c *Config) {
	clause := func(host, command string, more func(*Params)) Clause {
		return Clause{Channel: "smtp", Host: host, Settings: []Setting{
			{Name: "command", Value: command, Apply: func(p *Params) { p.Command = strings.Fields(command); more(p) }},
		}}
	}
	c.Clauses = append([]Clause{
		clause("gone*", "gone", func(*Params) {}),
		clause("dead*", "gone $host", func(*Params) {}),
		clause("slow*", "slow", func(p *Params) { p.MaxRing = 3 }),
		clause("other*", "other", func(*Params) {}),
	}, c.Clauses...)
}

// good are the hosts of a message that are not broken.
func (m *memoryTest) good(id MessageID) (hosts []string) {
	for _, host := range m.hostsOf[id] {
		if strings.HasPrefix(host, "good") || strings.HasPrefix(host, "other") {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// undelivered is the first message with a good host that has not had it; 0: none.
func (m *memoryTest) undelivered() MessageID {
	for id := MessageID(1); id <= m.last; id++ {
		for _, host := range m.good(id) {
			if !m.done[id][host] && !m.killed[id] {
				return id
			}
		}
	}
	return 0
}

// run lets time pass, with agents that answer at once except those of slow hosts.
func (m *memoryTest) run(d time.Duration) {
	for end := m.now.Add(d); ; {
		m.workGood()
		at, waits := m.s.Next()
		if !waits || at.After(end) {
			m.now = end
			return
		}
		if at.After(m.now) {
			m.now = at
		}
		m.tell(Tick{})
	}
}

// workGood lets agents answer the job lines for hosts that are not slow.
func (m *memoryTest) workGood() {
	for again := true; again; {
		again = false
		for i, f := range m.feeds {
			if strings.HasPrefix(f.Job.Host, "slow") {
				continue
			}
			m.feeds = append(m.feeds[:i], m.feeds[i+1:]...)
			m.feeds = append([]Feed{f}, m.feeds...)
			m.work(1)
			again = true
			break
		}
	}
}

// TestDestinationThatCannotBeFedLeavesRoom: each message has a recipient at a good host
// and one at a host that has no agent, or whose agents are all at work. All mail for
// the good host is delivered, and so is mail of others.
func TestDestinationThatCannotBeFedLeavesRoom(t *testing.T) {
	for _, bad := range []string{"gone", "slow"} {
		t.Run(bad, func(t *testing.T) {
			m := newMemoryTest(t, 4, func(c *Config) { c.ActiveLimit, c.RingReserve = 100, 10; brokenHosts(c) })
			m.unstartable = "gone"
			for range 250 {
				m.arriveAt("good", bad)
			}
			for range 20 {
				m.arriveAt("other")
			}
			m.run(10 * time.Second)
			if id := m.undelivered(); id != 0 {
				t.Errorf("message %d has not been delivered to its good host; %d in memory, %d on record", id, m.s.Counts().Messages-m.s.Counts().OnRecord, m.s.Counts().OnRecord)
			}
			if o := m.s.occupier(); o.Host != bad {
				t.Errorf("%+v has the most in memory", o)
			}
			for id := MessageID(200); id < 210; id++ {
				m.tell(Ordered{Verb: VerbKill, Name: "KILL", Targets: []Target{{Message: id}}})
				m.killed[id] = true
			}
			m.run(10 * time.Second)
			if n := m.s.Counts().Messages; n != 240 {
				t.Errorf("%d messages are in the queue after ten of 250 were dropped", n)
			}
		})
	}
}

// TestGoodHostsAreFed: in random mixtures of messages, with hosts whose agents cannot be
// started, and slow ones whose agents never answer, all mail for other hosts is
// delivered in bounded time, orders are carried out, and memory stays within its bound.
func TestGoodHostsAreFed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit, reserve := rapid.IntRange(8, 60).Draw(r, "limit"), rapid.IntRange(1, 8).Draw(r, "reserve")
		recipients := rapid.Bool().Draw(r, "recipients")
		m := newMemoryTest(t, 4, func(c *Config) {
			c.ActiveLimit, c.RecipientLimit, c.RingReserve = limit, 0, reserve
			if recipients {
				c.ActiveLimit, c.RecipientLimit = 0, limit
			}
			brokenHosts(c)
		})
		m.unstartable = "gone"
		host := rapid.Custom(func(r *rapid.T) string {
			kind := rapid.SampledFrom([]string{"good", "good", "gone", "dead", "slow", "other"}).Draw(r, "kind")
			return fmt.Sprint(kind, rapid.IntRange(0, 5).Draw(r, "host"))
		})
		largest := 0
		for range rapid.IntRange(30, 90).Draw(r, "messages") {
			hosts := rapid.SliceOfNDistinct(host, 1, 4, rapid.ID[string]).Draw(r, "hosts")
			largest = max(largest, len(hosts))
			m.arriveAt(hosts...)
		}
		m.run(5 * time.Minute)
		if id := m.undelivered(); id != 0 {
			r.Fatalf("message %d for %v waits: %+v", id, m.hostsOf[id], m.s.Counts())
		}
		left := m.s.Counts().Messages
		for id := MessageID(1); id <= m.last; id++ {
			m.tell(Ordered{Verb: VerbKill, Name: "KILL", Targets: []Target{{Message: id}}})
		}
		m.run(5 * time.Minute)
		if n := m.s.Counts(); n.Messages > min(left, 3) { // those that agents have
			r.Fatalf("%d of %d messages are left after an order to drop them: %+v", n.Messages, left, n)
		}
		rings := m.s.ringOrder.len
		if bound := limit + max(rings, 10)*reserve + largest; recipients && m.mostTo > bound || !recipients && m.most > bound {
			r.Fatalf("%d messages, %d recipients in memory, the bound is %d", m.most, m.mostTo, bound)
		}
	})
}

// TestRoomThatBecomesFreeIsUsed: after a search that has found little, only a ring with a
// free session reads its records. When its sessions become free nothing leaves memory, and
// the records are read all the same.
func TestRoomThatBecomesFreeIsUsed(t *testing.T) {
	const messages, hosts = 200, 10
	for halved := range uint(4) {
		m := newMemoryTest(t, 3, func(c *Config) { c.ActiveLimit, c.RingReserve = 20, 4 })
		m.delivers = func(string) bool { return false }
		for i := range messages {
			m.arriveAt(fmt.Sprint("good", i%hosts))
		}
		m.s.memory.room.halved = halved
		m.run(20 * time.Second)
		fed := make(map[MessageID]bool)
		for _, id := range m.fed {
			fed[id] = true
		}
		if len(fed) != messages {
			t.Errorf("halved %d times: only %d messages have been fed: %+v", halved, len(fed), m.s.Counts())
		}
	}
}

// TestDueMailIsRead drives the core with random events and small limits that change, and
// checks after each Step that no mail that could be delivered now is left on record
// (checkReading).
func TestDueMailIsRead(t *testing.T) {
	seeds, steps := 30, 500
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, uint64(2000+seed))
			h.limited = true
			h.step(Reloaded{Config: h.config()})
			for range steps {
				h.randomEvent()
			}
		})
	}
}

// TestWaitingMailLeavesItsHalf: mail that waits for its next attempt and uses half of the
// limit does not keep the sessions of its host from working on the rest.
func TestWaitingMailLeavesItsHalf(t *testing.T) {
	const sessions = 8
	m := newMemoryTest(t, sessions, func(c *Config) {
		c.ActiveLimit, c.RingReserve = 40, 5
		c.Defaults.MaxThr = sessions
	})
	m.delivers = func(string) bool { return false }
	for range 20 {
		m.arriveAt("good")
	}
	m.work(20)
	for range 100 {
		m.arriveAt("good")
	}
	if n := len(m.feeds); n != sessions {
		t.Errorf("%d of %d sessions are at work: %+v", n, sessions, m.s.Counts())
	}
}

// TestManyThreadsAreAsked: a session could deliver mail of one thread among many that wait
// for a token of their rate. Its mail is found at once, and that of the others when their
// tokens come.
func TestManyThreadsAreAsked(t *testing.T) {
	const hosts = askSlice + askSlice/4
	m := newMemoryTest(t, 4, func(c *Config) {
		c.ActiveLimit, c.RingReserve = 20, 2
		c.Defaults.Rate = []Rate{{Recipients: 1, Span: 20 * time.Minute}}
	})
	for range 2 {
		for i := range hosts {
			m.arriveAt(fmt.Sprint("good", i))
		}
	}
	m.run(10 * time.Second)
	if len(m.fed) != hosts {
		t.Fatalf("%d messages were delivered with the first tokens of %d threads", len(m.fed), hosts)
	}
	m.arriveAt("good")
	m.run(2 * time.Second)
	if len(m.fed) != hosts+1 {
		t.Errorf("%d messages were delivered to a thread with a token", len(m.fed)-hosts)
	}
	m.run(20 * time.Minute)
	if n := m.s.Counts().Messages; n != 0 {
		t.Errorf("%d messages are left although their threads have tokens", n)
	}
}

// TestBlockedMailLeavesRoomToLargeThreads: mail whose other recipients have no agent fills
// the limit, and also has more than ring-reserve recipients at the good host, which wait for
// their next attempt. The rest of the mail for the good host is tried all the same.
func TestBlockedMailLeavesRoomToLargeThreads(t *testing.T) {
	m := newMemoryTest(t, 4, func(c *Config) {
		c.ActiveLimit, c.RingReserve = 0, 2
		c.Defaults.MaxThr = 4
		brokenHosts(c)
	})
	m.unstartable = "gone"
	m.delivers = func(string) bool { return false }
	for range 40 {
		m.arriveAt("good", "gone")
	}
	m.run(2 * time.Second)
	c := *m.s.config
	c.ActiveLimit = 40
	m.tell(Reloaded{&c})
	m.fed = nil
	for range 60 {
		m.arriveAt("good")
	}
	m.run(5 * time.Second)
	if n := len(m.fed); n != 60 {
		t.Errorf("%d of 60 messages were tried: %+v", n, m.s.Counts())
	}
}
