package cluster_test

// What three schedulers do when the store or one of them fails. Tests of failures that
// need no real server run in virtual time only.

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
	"zsched/scheduler"
	"zsched/scheduler/cluster"
	"zsched/scheduler/daemon"
)

// TestThreeSchedulersUseTheLimitAndKeepIt.
func TestThreeSchedulersUseTheLimitAndKeepIt(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := settled(t, s, 9)
		x.await("many sessions have started", 1500)
		peertest.Until(t, "all of the limit is used", func() bool { return x.counted().most == x.limit })
		c := x.log("no failure")
		if c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestStoreIsSlow: calls time out, and the nodes go on with their busy sessions until
// the store is lost. Then they divide.
func TestStoreIsSlow(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := settled(t, s, 9)
		for _, n := range x.nodes {
			n.link.delay(400 * time.Millisecond)
		}
		peertest.Until(t, "all have lost the store", x.allLost)
		x.await("sessions start while the store is slow", 300)
		if c := x.log("the store is slow"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
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
		before := x.nodes[0].stats().Epoch
		s.Start()
		for _, n := range x.nodes {
			peertest.Until(t, n.name+" meets a new epoch", func() bool { return n.stats().Epoch != before })
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

// TestAllNodesAreCutOff: for more than a ttl, so that the store has none of their sessions
// when the first one is back. That one is granted its busy sessions, and no more, while
// the others still use their parts.
func TestAllNodesAreCutOff(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := settled(t, s, 9)
		for _, n := range x.nodes {
			n.link.drop()
		}
		peertest.Until(t, "all have lost the store", x.allLost)
		x.await("sessions start without the store", 600)
		for _, n := range x.nodes {
			n.link.open()
			peertest.Until(t, n.name+" is back", func() bool { return !n.stats().Lost })
			time.Sleep(ttl / 5)
		}
		x.await("sessions start again", 1200)
		if c := x.log("the nodes are back, one after the other"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestNodeIsCutOff: it uses its part of the limit, and the limit is exceeded by no more
// than that.
func TestNodeIsCutOff(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := settled(t, s, 9)
		alone := x.nodes[0]
		alone.link.drop()
		peertest.Until(t, "it has lost the store", func() bool { return alone.stats().Losses > 0 })
		x.count()
		x.awaitOf(alone, "it starts sessions", 100)
		x.await("the others do", 600)
		c := x.log("a node is cut off")
		if most := x.limit + x.limit/3; c.most > most {
			t.Errorf("%d sessions at once, more than %d", c.most, most)
		}
		alone.link.open()
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
	virtually(t, func(t *testing.T, s *memoryStore) {
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
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := settled(t, s, 9)
		n := x.nodes[0]
		n.link.drop() // so that its end does not reach the store
		n.dead = true
		n.Stop(syscall.SIGTERM)
		n.node.Close()
		n.link.open()
		x.count() // the most at once is now that of the others
		peertest.Until(t, "the others use all of the limit", func() bool { return x.counted().most == x.limit })
		x.count()
		x.await("they go on", 300)
		c := x.log("a node is dead")
		if c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
		n.boot()
		x.count()
		x.awaitOf(n, "its successor starts sessions", 100)
		if c := x.log("it is back"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestRestartWithoutTheStore: a node that starts while the store is down divides by the
// number of nodes that PARAMcluster gives.
func TestRestartWithoutTheStore(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := settled(t, s, 9)
		n := x.nodes[0]
		s.Kill()
		n.end()
		x.count()
		n.boot()
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

// TestSchedulersTryADeadDestination: each of them, with one session, and each delivers when
// it is alive again.
func TestSchedulersTryADeadDestination(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := trioOf(t, s, 9)
		x.timeout = time.Minute
		x.dead.Store(true)
		x.start()
		for _, n := range x.nodes {
			peertest.Until(t, n.name+" knows that the destination is dead", n.thinksDead)
		}
		peertest.Until(t, "no session is left", func() bool { x.mu.Lock(); defer x.mu.Unlock(); return x.busy == 0 })
		x.count()
		x.await("the destination is tried", 6)
		if c := x.log("a dead destination"); c.most > len(x.nodes) {
			t.Errorf("%d sessions tried it at once", c.most)
		}
		x.dead.Store(false)
		x.count()
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" delivers again", 30)
		}
	})
}

// TestMoreSchedulersThanPlaces: they take turns.
func TestMoreSchedulersThanPlaces(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		x := newTrio(t, s, 2)
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" has its turn", 60)
		}
		if c := x.log("more nodes than places"); c.over > 0 {
			t.Errorf("%d starts beyond the limit", c.over)
		}
	})
}

// TestSecondClaimantDoesNotUseTheStore.
func TestSecondClaimantDoesNotUseTheStore(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		x := newTrio(t, s, 9)
		x.awaitOf(x.nodes[0], "the first one starts sessions", 20)
		var mu sync.Mutex
		var said []string
		o := cluster.Options{Node: "node1", Place: "elsewhere", Nonce: "x",
			Log: func(_ scheduler.Severity, text string) { mu.Lock(); said = append(said, text); mu.Unlock() }}
		s.use(&o)
		other := cluster.Open(o)
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
