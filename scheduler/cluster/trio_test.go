package cluster_test

// Three schedulers, each with its own loop and spool, and one store.

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
	"zsched/scheduler/cluster"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/scheduler/state"
	"zsched/scheduler/view"
	"zsched/ta"
)

// TestMain keeps the library quiet. Tests with a redis-server wait for a ttl, so more of
// them run at once than there are processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		log.Fatal(err)
	}
	cluster.SilenceLibrary()
	m.Run()
}

// trio is three schedulers with mail for one destination. It counts the sessions of
// all of them when one starts.
type trio struct {
	t     *testing.T
	store server
	limit int
	nodes []*scheduling
	dead  atomic.Bool // the destination

	timeout time.Duration // of calls; 0: the usual one
	rate    limit.Rate
	begun   []time.Time // of each session; only with a rate

	mu     sync.Mutex
	busy   int
	starts int
	over   int           // starts beyond the limit
	most   int           // sessions at once
	use    time.Duration // sessions times their durations
	at     time.Time     // of the last change
	from   time.Time     // since when this is counted
}

// scheduling is one scheduler of a trio.
type scheduling struct {
	*daemontest.Harness
	trio   *trio
	name   string
	link   *link // nil: it cannot be broken
	node   *cluster.Node
	state  string // its state file
	starts int
	busy   int
	most   int // sessions at once
	last   uint64
	dead   bool
}

func newTrio(t *testing.T, s server, limit int) *trio {
	x := trioOf(t, s, limit)
	x.start()
	return x
}

// trioOf makes a trio that is not started.
func trioOf(t *testing.T, s server, limit int) *trio {
	return &trio{t: t, store: s, limit: limit, from: time.Now(), at: time.Now()}
}

func (x *trio) start() {
	for range 3 {
		x.add()
	}
}

// add starts one more scheduler.
func (x *trio) add() {
	n := &scheduling{trio: x, name: fmt.Sprintf("node%d", len(x.nodes)+1), state: filepath.Join(x.t.TempDir(), state.Name)}
	x.nodes = append(x.nodes, n)
	n.boot()
	x.t.Cleanup(n.end)
}

// boot starts a scheduler, with mail that waits.
func (n *scheduling) boot() {
	t := n.trio.t
	n.Harness = daemontest.New(t, func(p *rule.Params) {
		p.MaxThr, p.Cluster.Max, p.Interval, p.Cluster.Rate = 20, n.trio.limit, time.Second, n.trio.rate
	})
	n.Options.Config.Cluster, n.Options.Config.ForkRate = true, 0
	o := cluster.Options{
		Node: n.name, Place: n.name, Nonce: fmt.Sprint(n.name, time.Now().UnixNano()),
		Rand: rand.New(rand.NewPCG(1, 2)), Timeout: n.trio.timeout,
	}
	n.link = n.trio.store.use(&o)
	o.Store.Nodes = 3
	n.node = cluster.Open(o)
	n.Options.Cluster, n.Options.State, n.dead = n.node, n.state, false
	files := n.Spool
	n.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { n.deliver(files, a, job) }
	ids := make([]uint64, 300)
	for i := range ids {
		ids[i] = n.next()
		files.Put(ids[i], "a.example")
	}
	n.Run()
	go func() {
		for _, id := range ids {
			files.Again(id)
		}
		files.Answer(spool.Swept{}) // all that was there is loaded: from now on the state is saved
	}()
}

// next returns the id of another message.
func (n *scheduling) next() uint64 {
	n.trio.mu.Lock()
	defer n.trio.mu.Unlock()
	n.last++
	return n.last
}

// deliver is one session of the scheduler with that spool. It may outlive the scheduler.
func (n *scheduling) deliver(files *daemontest.Spool, a *daemontest.FakeAgent, job ta.JobLine) {
	x := n.trio
	x.change(+1, n)
	took := x.store.session()
	time.Sleep(took/2 + rand.N(took))
	x.change(-1, n)
	if x.dead.Load() {
		a.ReportAll(job, ta.DeferAll, "no route to host")
		return
	}
	a.ReportAll(job, ta.OK2, "delivered")
	id := n.next()
	files.Put(id, "a.example")
	go files.Again(id)
}

func (x *trio) change(by int, n *scheduling) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.use += time.Duration(x.busy) * now.Sub(x.at)
	x.at = now
	x.busy += by
	n.busy += by
	n.most = max(n.most, n.busy)
	if by > 0 && x.rate.Recipients > 0 {
		x.begun = append(x.begun, now)
	}
	if by > 0 {
		x.starts++
		n.starts++
		x.most = max(x.most, x.busy)
		if x.busy > x.limit {
			x.over++
		}
	}
}

// count resets the counts.
func (x *trio) count() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.starts, x.over, x.most, x.use, x.from, x.at = 0, 0, x.busy, 0, time.Now(), time.Now()
	for _, n := range x.nodes {
		n.starts, n.most = 0, n.busy
	}
}

type counted struct {
	starts, over, most int
	mean               float64 // share of the limit that was used
	each               []int   // starts of each node
}

func (x *trio) counted() counted {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := counted{x.starts, x.over, x.most, float64(x.use) / float64(time.Since(x.from)) / float64(x.limit), nil}
	for _, n := range x.nodes {
		c.each = append(c.each, n.starts)
	}
	return c
}

// await waits until starts sessions have been started since count.
func (x *trio) await(what string, starts int) {
	x.t.Helper()
	peertest.Until(x.t, what, func() bool { return x.counted().starts >= starts })
}

// awaitOf waits until one node has started starts sessions.
func (x *trio) awaitOf(n *scheduling, what string, starts int) {
	x.t.Helper()
	peertest.Until(x.t, what, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return n.starts >= starts
	})
}

func (x *trio) log(row string) counted {
	c := x.counted()
	x.t.Logf("%s: %d starts %v, %d beyond the limit of %d, most at once %d, mean use %.2f", row, c.starts, c.each, c.over, x.limit, c.most, c.mean)
	return c
}

// stats asks a loop for the counts of its node.
func (n *scheduling) stats() (s cluster.State) {
	_ = n.Daemon.Ask(n.trio.t.Context(), func(*daemon.Loop) { s = n.node.State() })
	return s
}

func (n *scheduling) end() {
	if !n.dead {
		n.dead = true
		n.link.open()
		n.Stop(syscall.SIGTERM)
		n.node.Close()
	}
}

// settled waits until all three nodes use the limit.
func settled(t *testing.T, s server, limit int) *trio {
	t.Helper()
	x := newTrio(t, s, limit)
	for _, n := range x.nodes {
		x.awaitOf(n, n.name+" starts sessions", 5)
	}
	x.count()
	x.await("the limit is used", 50)
	x.count()
	return x
}

func (x *trio) allLost() bool {
	for _, n := range x.nodes {
		if !n.dead && n.stats().Losses == 0 {
			return false
		}
	}
	return true
}

// thinksDead asks a loop whether the destination is dead.
func (n *scheduling) thinksDead() (dead bool) {
	_ = n.Daemon.Ask(n.trio.t.Context(), func(l *daemon.Loop) {
		t := l.Core().Thread("smtp", "a.example")
		dead = t != nil && (t.SuspendedBy == view.AsDead || t.Probing)
	})
	return dead
}
