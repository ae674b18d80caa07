package cluster_test

// Three schedulers, each with its own loop and spool, and one store. Times are short:
// a ttl of a second.

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"zsched/internal/peertest"
	"zsched/internal/redisurl"
	"zsched/scheduler"
	"zsched/scheduler/cluster"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/state"
	"zsched/ta"
)

const ttl = time.Second

// TestMain keeps the library quiet. Most tests wait for a ttl, a rate or a retry, so more
// of them run at once than there are processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		log.Fatal(err)
	}
	cluster.SilenceLibrary()
	m.Run()
}

// server is a store that tests can break: a redis-server, or a miniredis.
type server interface {
	Addr() string
	Kill()
	Start()
	Pause()
	Continue()
}

// miniServer is a miniredis.
type miniServer struct {
	t     *testing.T
	redis *miniredis.Miniredis
	addr  string
}

func (m *miniServer) Addr() string { return m.addr }
func (m *miniServer) Kill()        { m.redis.Close() }
func (m *miniServer) Pause()       { m.t.Skip("miniredis cannot be paused: make peers gets a redis-server") }
func (m *miniServer) Continue()    {}
func (m *miniServer) Start() {
	if m.redis == nil {
		m.redis = miniredis.RunT(m.t)
		m.addr = m.redis.Addr()
		return
	}
	m.redis.FlushAll()
	if err := m.redis.StartAddr(m.addr); err != nil {
		m.t.Fatal(err)
	}
}

// eachServer runs a test with each kind of store.
func eachServer(t *testing.T, test func(*testing.T, server)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m := &miniServer{t: t}
		m.Start()
		test(t, m)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := peertest.FindRedis(t)
		if r == nil {
			t.Skip("no redis-server: make peers gets one")
		}
		r.Start()
		test(t, r)
	})
}

// trio is three schedulers with mail for one destination. It counts the sessions of
// all of them when one starts.
type trio struct {
	t     *testing.T
	limit int
	nodes []*scheduling
	took  time.Duration // of a delivery
	dead  atomic.Bool   // the destination

	timeout time.Duration // of calls; 0: the usual one
	rate    scheduler.Rate
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
	proxy  *proxy
	node   *cluster.Node
	state  string // its state file
	starts int
	busy   int
	most   int // sessions at once
	last   uint64
	dead   bool
}

func newTrio(t *testing.T, s server, limit int) *trio {
	x := &trio{t: t, limit: limit, took: 20 * time.Millisecond, from: time.Now(), at: time.Now()}
	x.start(s)
	return x
}

func (x *trio) start(s server) {
	t := x.t
	for i := range 3 {
		n := &scheduling{trio: x, name: fmt.Sprintf("node%d", i+1), proxy: newProxy(t, s.Addr()), state: filepath.Join(t.TempDir(), state.Name)}
		x.nodes = append(x.nodes, n)
		n.boot(cluster.Divide)
	}
	t.Cleanup(func() {
		for _, n := range x.nodes {
			n.end()
		}
	})
}

// boot starts a scheduler, with mail that waits.
func (n *scheduling) boot(lost cluster.Lost) {
	t := n.trio.t
	n.Harness = daemontest.New(t, func(p *scheduler.Params) {
		p.MaxThr, p.ClusterMax, p.Interval, p.ClusterRate = 20, n.trio.limit, time.Second, n.trio.rate
	})
	n.Options.Config.Cluster, n.Options.Config.ForkRate = true, 0
	address, err := redisurl.Parse("redis://" + n.proxy.addr)
	if err != nil {
		t.Fatal(err)
	}
	address.TTL = ttl
	n.node = cluster.Open(cluster.Options{
		Store: address, Prefix: "zs", Node: n.name, Place: n.name, Nonce: fmt.Sprint(n.name, time.Now().UnixNano()),
		Rand: rand.New(rand.NewPCG(1, 2)), Lost: lost, Timeout: n.trio.timeout,
	})
	n.Options.Cluster, n.Options.State, n.dead = n.node, n.state, false
	spool := n.Spool
	n.Deliver = func(a *daemontest.FakeAgent, job ta.Job) { n.deliver(spool, a, job) }
	ids := make([]uint64, 300)
	for i := range ids {
		ids[i] = n.next()
		spool.Put(ids[i], "a.example")
	}
	n.Run()
	go func() {
		for _, id := range ids {
			spool.Again(id)
		}
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
func (n *scheduling) deliver(spool *daemontest.Spool, a *daemontest.FakeAgent, job ta.Job) {
	x := n.trio
	x.change(+1, n)
	time.Sleep(x.took/2 + rand.N(x.took))
	x.change(-1, n)
	if x.dead.Load() {
		a.ReportAll(job, ta.DeferAll, "no route to host")
		return
	}
	a.ReportAll(job, ta.OK2, "delivered")
	id := n.next()
	spool.Put(id, "a.example")
	go spool.Again(id)
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
func (n *scheduling) stats() (s cluster.Stats) {
	_ = n.Daemon.Ask(n.trio.t.Context(), func(*daemon.Loop) { s = n.node.Stats() })
	return s
}

func (n *scheduling) end() {
	if !n.dead {
		n.dead = true
		n.proxy.open()
		n.Stop(syscall.SIGTERM)
		n.node.Close()
	}
}

// proxy passes bytes between a node and the store until it is told to drop them.
type proxy struct {
	addr string
	mu   sync.Mutex
	wait chan struct{} // closed when bytes pass again; nil: they pass
	late time.Duration
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c, to)
		}
	}()
	return p
}

func (p *proxy) serve(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	go func() { p.copy(s, c); _ = s.Close(); _ = c.Close() }()
	p.copy(c, s)
}

func (p *proxy) copy(to io.Writer, from io.Reader) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		wait, late := p.wait, p.late
		p.mu.Unlock()
		if wait != nil { // what comes now is lost, and the connection hangs
			<-wait
			return
		}
		time.Sleep(late)
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wait == nil {
		p.wait = make(chan struct{})
	}
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wait != nil {
		close(p.wait)
		p.wait = nil
	}
}

func (p *proxy) delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = d
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

// TestThreeSchedulersUseTheLimitAndKeepIt.
func TestThreeSchedulersUseTheLimitAndKeepIt(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		x.await("many sessions have started", 1500)
		c := x.log("no failure")
		if c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestStoreIsSlow: calls time out, and the nodes go on with their busy sessions until
// the store is lost. Then they divide.
func TestStoreIsSlow(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		for _, n := range x.nodes {
			n.proxy.delay(400 * time.Millisecond)
		}
		peertest.Until(t, "all have lost the store", x.allLost)
		x.await("sessions start while the store is slow", 300)
		if c := x.log("the store is slow"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

func (x *trio) allLost() bool {
	for _, n := range x.nodes {
		if !n.dead && n.stats().Losses == 0 {
			return false
		}
	}
	return true
}

// TestStoreIsKilledAndRestartedEmpty: the nodes divide, then a new epoch begins.
func TestStoreIsKilledAndRestartedEmpty(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		s.Kill()
		peertest.Until(t, "all have lost the store", x.allLost)
		x.log("the store is down, until it counts as lost")
		x.count()
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" starts sessions without the store", 100)
		}
		down := x.log("the store is down")
		x.count()
		s.Start()
		for _, n := range x.nodes {
			peertest.Until(t, n.name+" meets a new epoch", func() bool { return n.stats().Epochs > 1 })
		}
		x.await("the limit is used again", 600)
		back := x.log("the store is back and empty")
		if down.over+back.over > 0 {
			t.Errorf("%d and %d starts beyond the limit", down.over, back.over)
		}
	})
}

// TestStoreIsPaused: it comes back with old data.
func TestStoreIsPaused(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		s.Pause()
		peertest.Until(t, "all have lost the store", x.allLost)
		x.await("sessions start without the store", 300)
		s.Continue()
		x.await("sessions start again", 1200)
		if c := x.log("the store is back with old data"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestNodeIsCutOff: it uses its part of the limit, and the limit is exceeded by no more
// than that.
func TestNodeIsCutOff(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		alone := x.nodes[0]
		alone.proxy.drop()
		peertest.Until(t, "it has lost the store", func() bool { return alone.stats().Losses > 0 })
		x.count()
		x.awaitOf(alone, "it starts sessions", 100)
		x.await("the others do", 600)
		c := x.log("a node is cut off")
		if most := x.limit + x.limit/3; c.most > most {
			t.Errorf("%d sessions at once, more than %d", c.most, most)
		}
		alone.proxy.open()
		peertest.Until(t, "it is back", func() bool { return !alone.stats().Lost })
		// The others give its part back when they renew their shares. That few sessions are busy
		// at a moment does not show that they have.
		peertest.Until(t, "the others have given its part back", func() bool {
			x.count()
			x.awaitOf(alone, "it starts sessions", 100)
			return x.counted().over == 0
		})
		x.count()
		x.awaitOf(alone, "it takes part again", 200)
		if c := x.log("it is back"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestNodeIsPaused: beyond its ttl. It starts nothing before the store has answered.
func TestNodeIsPaused(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		n := x.nodes[0]
		goOn := make(chan struct{})
		go func() { _ = n.Daemon.Ask(t.Context(), func(*daemon.Loop) { <-goOn }) }()
		x.await("the others use all of the limit", 1000)
		close(goOn)
		x.awaitOf(n, "it starts sessions again", 100)
		if c := x.log("a node is paused beyond ttl"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
		if n.stats().Losses > 0 {
			t.Error("a pause of the node counts as a loss of the store")
		}
	})
}

// TestNodeDies: its share is free after ttl, and it comes back.
func TestNodeDies(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		n := x.nodes[0]
		n.proxy.drop() // so that its end does not reach the store
		n.dead = true
		n.Stop(syscall.SIGTERM)
		n.node.Close()
		n.proxy.open()
		x.count() // the most at once is now that of the others
		peertest.Until(t, "the others use all of the limit", func() bool { return x.counted().most == x.limit })
		x.count()
		x.await("they go on", 300)
		c := x.log("a node is dead")
		if c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
		n.boot(cluster.Divide)
		x.count()
		x.awaitOf(n, "its successor starts sessions", 100)
		if c := x.log("it is back"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestRestartWithoutTheStore: the state file has the other nodes, so that a node that
// starts while the store is down divides by all of them.
func TestRestartWithoutTheStore(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		n := x.nodes[0]
		s.Kill()
		n.end()
		x.count()
		n.boot(cluster.Divide)
		x.awaitOf(n, "it starts sessions without the store", 100)
		c := x.log("a node is restarted without the store")
		x.mu.Lock()
		most := n.most
		x.mu.Unlock()
		if c.over > 0 || most > x.limit/3 {
			t.Errorf("%d starts beyond the limit, at most %d sessions at once on the node", c.over, most)
		}
	})
}

// thinksDead asks a loop whether the destination is dead, and who said so.
func (n *scheduling) thinksDead() (dead bool, by string) {
	_ = n.Daemon.Ask(n.trio.t.Context(), func(l *daemon.Loop) {
		x := l.Core().Explain("smtp", "a.example")
		dead = x.Thread != nil && x.Thread.Feedback.Dead
		if x.Told != nil {
			by = x.Told.Node
		}
	})
	return dead, by
}

// TestOneSchedulerTriesADeadDestination: all nodes hear that it is dead. Then one
// session at a time tries it, and a success revives it on all nodes.
func TestOneSchedulerTriesADeadDestination(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := &trio{t: t, limit: 9, took: 20 * time.Millisecond, timeout: time.Minute, from: time.Now(), at: time.Now()}
		x.dead.Store(true)
		x.start(s)
		told := false
		for _, n := range x.nodes {
			peertest.Until(t, n.name+" knows that the destination is dead", func() bool {
				dead, by := n.thinksDead()
				told = told || by != ""
				return dead
			})
		}
		peertest.Until(t, "no session is left", func() bool { x.mu.Lock(); defer x.mu.Unlock(); return x.busy == 0 })
		x.count()
		x.await("the destination is tried", 6)
		if c := x.log("a dead destination"); c.most > 1 {
			t.Errorf("%d sessions tried it at once", c.most)
		}
		peertest.Until(t, "a node says that another one has found it dead", func() bool {
			for _, n := range x.nodes {
				_, by := n.thinksDead()
				told = told || by != ""
			}
			return told
		})
		x.dead.Store(false)
		x.count()
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" delivers again", 30)
		}
	})
}

// TestMoreSchedulersThanPlaces: they take turns.
func TestMoreSchedulersThanPlaces(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := newTrio(t, s, 2)
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" has its turn", 60)
		}
		if c := x.log("more nodes than places"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestStopAndLocalWithoutTheStore: what PARAMcluster-lost chooses.
func TestStopAndLocalWithoutTheStore(t *testing.T) {
	x := &trio{t: t, limit: 2, took: 20 * time.Millisecond}
	for i, lost := range []cluster.Lost{cluster.Stop, cluster.Local} {
		n := &scheduling{trio: x, name: fmt.Sprintf("node%d", i+1), proxy: newProxy(t, "127.0.0.1:1")}
		n.boot(lost)
		x.nodes = append(x.nodes, n)
		t.Cleanup(n.end)
	}
	x.awaitOf(x.nodes[1], "local limits apply", 100)
	peertest.Until(t, "the other has lost the store", func() bool { return x.nodes[0].stats().Losses > 0 })
	c := x.log("stop and local")
	if c.each[0] > 0 || c.most <= x.limit {
		t.Errorf("stop started %d sessions, local at most %d", c.each[0], c.most)
	}
}

// TestSecondClaimantDoesNotUseTheStore.
func TestSecondClaimantDoesNotUseTheStore(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := newTrio(t, s, 9)
		x.awaitOf(x.nodes[0], "the first one starts sessions", 20)
		var mu sync.Mutex
		var said []string
		address, _ := redisurl.Parse("redis://" + s.Addr())
		address.TTL = ttl
		other := cluster.Open(cluster.Options{Store: address, Prefix: "zs", Node: "node1", Place: "elsewhere", Nonce: "x",
			Log: func(_ scheduler.Severity, text string) { mu.Lock(); said = append(said, text); mu.Unlock() }})
		defer other.Close()
		peertest.Until(t, "it is refused", func() bool {
			other.Turn(time.Now())
			other.Flush()
			mu.Lock()
			defer mu.Unlock()
			return len(said) > 0
		})
		if !strings.Contains(said[0], "belongs to another process") {
			t.Error(said)
		}
	})
}
