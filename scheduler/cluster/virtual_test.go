package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"zsched/internal/redisurl"
	"zsched/scheduler"
)

// virtual is a store and nodes in virtual time. The scripts run in a miniredis whose
// clock is set; calls are carried out, delayed or lost as a test says.
type virtual struct {
	t     testing.TB
	redis *miniredis.Miniredis
	store *link
	rand  *rand.Rand
	now   time.Duration
	limit scheduler.ClusterLimit
	max   int
	nodes []*virtualNode
	late  []lateBatch
	// fate says what happens to a batch; nil: it is carried out.
	fate  func(*virtualNode) fate
	calls int
	worst int // sessions over the limit at any time
}

// virtualNode is a node with a model of its core: one limit, sessions that begin when
// they may and end when the test says.
type virtualNode struct {
	*Node
	v        *virtual
	name     string
	demand   int // sessions that it could use
	busy     int
	allowed  scheduler.Allowance
	told     []scheduler.Event // what it was told of destinations
	inbox    []*answer
	inboxAt  []time.Duration
	alive    bool
	wrong    time.Duration // how far the node's wall clock is ahead
	starts   int
	sent     int  // calls
	stopped  bool // by SIGSTOP
	waitedAt time.Duration
	longest  time.Duration // without a session, with demand
}

// fate is what happens to a batch.
type fate struct {
	carried    bool          // the store carries it out,
	after      time.Duration // this much later
	replyLost  bool
	garbage    any // the reply to each call instead
	replyAfter time.Duration
}

type lateBatch struct {
	at    time.Duration
	calls []call
}

const virtualTTL = 3 * time.Second

var virtualStart = time.Unix(1_800_000_000, 0)

func newVirtual(t testing.TB, seed uint64, max, nodes int) *virtual {
	m := miniredis.RunT(t)
	a, err := redisurl.Parse("redis://" + m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	v := &virtual{t: t, redis: m, max: max, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Hour,
		limit: scheduler.ClusterLimit{Setting: "clustermax", Channel: "smtp", Name: "example.net"}}
	v.store = openLink(Options{Store: a, Nonce: "test", Timeout: time.Minute})
	t.Cleanup(func() { _ = v.store.client.Close() })
	m.SetTime(v.wall())
	for i := range nodes {
		v.nodes = append(v.nodes, &virtualNode{v: v, name: fmt.Sprintf("node%d", i+1)})
		v.nodes[i].boot(max)
	}
	return v
}

func (v *virtual) wall() time.Time { return virtualStart.Add(v.now) }

// boot starts a process of the node, without sessions.
func (n *virtualNode) boot(max int) {
	a := redisurl.Address{TTL: virtualTTL, Nodes: len(n.v.nodes)}
	n.alive, n.busy, n.allowed, n.inbox, n.inboxAt = true, 0, scheduler.Allowance{}, nil, nil
	n.v.calls++
	n.Node = newNode(Options{Store: a, Node: n.name, Place: "at" + n.name, Nonce: fmt.Sprint(n.name, ".", n.v.calls),
		Rand: n.v.rand}, n.carry)
	n.Perform(scheduler.Want{Limit: n.v.limit, Max: max})
	n.waitedAt = n.v.now
}

// carry is the transport of a node.
func (n *virtualNode) carry(b *batch) {
	v := n.v
	n.sent += len(b.calls)
	f := fate{carried: true}
	if v.fate != nil {
		f = v.fate(n)
	}
	switch {
	case f.carried && f.after == 0:
		a := v.exec(b.calls)
		a.batch = b
		if f.garbage != nil {
			for i := range a.replies {
				a.replies[i].value = f.garbage
			}
		}
		if f.replyLost {
			a = &answer{batch: b, err: context.DeadlineExceeded}
			f.replyAfter = callTimeout
		}
		n.inbox, n.inboxAt = append(n.inbox, a), append(n.inboxAt, v.now+f.replyAfter)
		return
	case f.carried:
		v.late = append(v.late, lateBatch{v.now + f.after, b.calls})
	}
	n.inbox = append(n.inbox, &answer{batch: b, err: context.DeadlineExceeded})
	n.inboxAt = append(n.inboxAt, v.now+callTimeout)
}

func (v *virtual) exec(calls []call) *answer {
	v.redis.SetTime(v.wall())
	v.calls += len(calls)
	replies, err := v.store.exec(context.Background(), calls)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, r := range replies {
		if r.err != nil {
			v.t.Fatal(r.err)
		}
	}
	return &answer{replies: replies}
}

// step lets a time pass, and does what is due then.
func (v *virtual) step(d time.Duration) {
	v.now += d
	v.redis.FastForward(d)
	for i := 0; i < len(v.late); {
		if v.late[i].at <= v.now {
			v.exec(v.late[i].calls)
			v.late = append(v.late[:i], v.late[i+1:]...)
			continue
		}
		i++
	}
	for _, n := range v.nodes {
		n.loop()
	}
	v.worst = max(v.worst, v.busy()-v.max)
}

// loop is one turn of the node's loop, or more if answers wait.
func (n *virtualNode) loop() {
	if !n.alive || n.stopped {
		return
	}
	var waits []*answer
	for i := 0; i < len(n.inbox); {
		if n.inboxAt[i] > n.v.now {
			i++
			continue
		}
		waits = append(waits, n.inbox[i])
		n.inbox = append(n.inbox[:i], n.inbox[i+1:]...)
		n.inboxAt = append(n.inboxAt[:i], n.inboxAt[i+1:]...)
	}
	n.tell(n.turn(n.wallClock(), n.v.now, nil))
	n.work()
	n.tell(n.Flush())
	for _, a := range waits {
		n.tell(n.turn(n.wallClock(), n.v.now, a))
		n.work()
		n.tell(n.Flush())
	}
}

func (n *virtualNode) wallClock() time.Time { return n.v.wall().Add(n.wrong) }

func (n *virtualNode) tell(events []scheduler.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case scheduler.Allowance:
			n.allowed = e
		default:
			n.told = append(n.told, e)
		}
	}
}

// work starts the sessions that may start.
func (n *virtualNode) work() {
	for n.busy < n.demand && n.busy < n.allowed.Sessions && !n.wallClock().After(n.allowed.Until) {
		n.busy++
		n.starts++
	}
	if n.busy > 0 || n.demand == 0 {
		n.waitedAt = n.v.now
	}
	n.longest = max(n.longest, n.v.now-n.waitedAt)
	n.Perform(scheduler.Want{Limit: n.v.limit, Max: n.v.max, Want: max(n.busy, n.demand), Busy: n.busy})
}

// end ends each session with a probability.
func (v *virtual) end(p float64) {
	for _, n := range v.nodes {
		for range n.busy {
			if v.rand.Float64() < p {
				n.busy--
			}
		}
	}
}

func (v *virtual) busy() (all int) {
	for _, n := range v.nodes {
		all += n.busy
	}
	return all
}

// settle lets time pass until the first epoch is old enough.
func (v *virtual) settle() {
	for range 60 {
		v.step(100 * time.Millisecond)
		v.end(0.05)
	}
}

// turn is Turn in virtual time, with an answer or nil.
func (n *Node) turn(wall time.Time, since time.Duration, a *answer) []scheduler.Event {
	n.advance(wall, boot(since))
	if a != nil {
		n.answered(a)
	}
	return n.take()
}
