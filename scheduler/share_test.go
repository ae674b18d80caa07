package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// waitModel delivers in about a second, over all sessions that it is given.
type waitModel struct {
	*serverModel
	last MessageID
}

func newWaitModel(set func(*Params)) *waitModel {
	p := Params{
		SlotCost: 5, SlotDiscount: 50, SlotLoan: 3, MinSlots: 3, MsgSessions: 20, MsgScale: 10,
		Share: "senderdomain", MaxThr: 1,
	}
	set(&p)
	m := &waitModel{serverModel: newServerModel(p)}
	m.fedAt = make(map[string]time.Time)
	m.connect = func(end func(bool)) {
		m.after(900*time.Millisecond+time.Duration(m.rand.IntN(200))*time.Millisecond, func() { end(true) })
	}
	return m
}

func (m *waitModel) arrive(n int, sender, host string) {
	for range n {
		m.last++
		m.step(Arrived{Message{
			ID: m.last, Path: strconv.Itoa(int(m.last)), Sender: sender, ErrorTo: sender, ModifiedAt: m.now, ChangedAt: m.now,
			Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: host}},
		}})
	}
}

// waitOf lets a message arrive and returns how long it waits.
func (m *waitModel) waitOf(sender, host string) time.Duration {
	for range 100 {
		m.next()
	}
	m.arrive(1, sender, host)
	arrived, path := m.now, strconv.Itoa(int(m.last))
	for m.fedAt[path].IsZero() {
		m.next()
	}
	return m.fedAt[path].Sub(arrived)
}

// TestOneMessageBehindALoad: a message waits at most for the busy sessions and
// one round of turns of the senders, or one round of quanta of the hosts,
// however much mail there is before it.
func TestOneMessageBehindALoad(t *testing.T) {
	quantum := func(p *Params) { p.Quantum = 50 }
	for _, tt := range []struct {
		name         string
		set          func(*Params)
		load         func(*waitModel)
		sender, host string
		most         time.Duration
	}{
		{
			"3000 messages of another sender to the same host, 10 sessions",
			func(p *Params) { quantum(p); p.MaxRing, p.MaxThr = 10, 10 },
			func(m *waitModel) { m.arrive(3000, "a@x", "h") },
			"b@y", "h", time.Second,
		},
		{
			"3000 messages of the sender to each of two other hosts, 2 sessions",
			func(p *Params) { quantum(p); p.MaxRing = 2 },
			func(m *waitModel) { m.arrive(3000, "a@x", "h1"); m.arrive(3000, "a@x", "h2") },
			"a@x", "h3", 55 * time.Second,
		},
		{
			"3000 messages of the sender to another host, 10 sessions",
			func(p *Params) { quantum(p); p.MaxRing, p.MaxThr = 10, 10 },
			func(m *waitModel) { m.arrive(3000, "a@x", "h1") },
			"a@x", "h2", 7 * time.Second,
		},
		{
			"100 messages of each of thirty other senders, 4 sessions",
			func(p *Params) { quantum(p); p.MaxRing, p.MaxThr = 4, 4 },
			func(m *waitModel) {
				for i := range 30 {
					m.arrive(100, fmt.Sprint("a@x", i), "h")
				}
			},
			"b@y", "h", 65 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newWaitModel(tt.set)
			tt.load(m)
			wait := m.waitOf(tt.sender, tt.host)
			t.Logf("%.1f s", wait.Seconds())
			if wait > tt.most {
				t.Errorf("it waits for %v, want at most %v", wait, tt.most)
			}
			m.s.check()
		})
	}
}

// TestSharesHaveTheirWeights: where senders compete, each gets as many picks as
// its weight says.
func TestSharesHaveTheirWeights(t *testing.T) {
	m := newWaitModel(func(p *Params) { p.MaxRing, p.MaxThr = 4, 4 })
	c := *m.s.config
	c.Shares = map[string]int{"heavy": 3, "middle": 2}
	m.step(Reloaded{&c})
	senders := []string{"a@heavy", "b@middle", "c@light"}
	var of []string
	for _, sender := range senders {
		m.arrive(1000, sender, "h")
		for range 1000 {
			of = append(of, sender)
		}
	}
	for len(m.results) < 600 {
		m.next()
	}
	got := make(map[string]int)
	for path := range m.fedAt {
		id, _ := strconv.Atoi(path)
		got[of[id-1]]++
	}
	for i, want := range []int{300, 200, 100} {
		if n := got[senders[i]]; n < want-30 || n > want+30 {
			t.Errorf("%s has %d of 600, want about %d", senders[i], n, want)
		}
	}
}

func TestShareNames(t *testing.T) {
	for _, tt := range [][3]string{
		{"sender", "Ann@Example.ORG", "ann@example.org"}, {"senderdomain", "Ann@Example.ORG", "example.org"},
		{"none", "Ann@Example.ORG", ""}, {"senderdomain", "", ""}, {"senderdomain", "ann", "ann"},
	} {
		if got := shareName(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s of %q is %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
	c := &Config{Shares: map[string]int{"example.org": 4, "ann@example.org": 2}}
	for name, want := range map[string]int{"example.org": 4, "ann@example.org": 2, "bob@example.org": 4, "else": 1, "": 1} {
		if got := c.weight(name); got != want {
			t.Errorf("the weight of %q is %d, want %d", name, got, want)
		}
	}
}

// TestNothingIsSharedWithoutShares: with share=none the order is that of
// loading, whoever sends.
func TestNothingIsSharedWithoutShares(t *testing.T) {
	m := newJobModel(Params{Share: "none"})
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		m.last++
		host := "h" + strconv.Itoa(int(m.last))
		m.offsets[host] = 100
		m.step(Arrived{Message{ID: m.last, Path: strconv.Itoa(int(m.last)), Sender: "s@" + strings.Repeat("x", r.IntN(5)),
			Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: host}}}})
	}
	for len(m.s.byID) > 0 {
		m.deliver()
	}
	for i, id := range m.picks {
		if id != MessageID(i+1) {
			t.Fatalf("pick %d is message %d", i+1, id)
		}
	}
}
