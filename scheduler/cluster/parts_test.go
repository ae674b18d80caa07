package cluster

import (
	"fmt"
	"testing"

	"zsched/internal/redisurl"
	"zsched/scheduler"
)

// TestNodeThatNeverReachedTheStore: it divides by the number of nodes that PARAMcluster gives,
// and starts nothing without that.
func TestNodeThatNeverReachedTheStore(t *testing.T) {
	for _, c := range []struct{ nodes, limit, sessions int }{{0, 10, 0}, {1, 10, 10}, {3, 10, 3}, {3, 3, 1}, {3, 2, 0}} {
		v := newVirtual(t, 1, c.limit, 1)
		v.fate = func(*virtualNode) fate { return fate{} } // nothing reaches the store
		n := v.nodes[0]
		n.Node = newNode(Options{Store: redisurl.Address{TTL: virtualTTL, Nodes: c.nodes}, Node: n.name, Place: "here", Nonce: fmt.Sprint(c), Rand: v.rand}, n.carry)
		n.demand = 20
		n.Perform(scheduler.Want{Limit: v.limit, Max: c.limit, Want: 20})
		v.wait(5 * virtualTTL)
		if n.allowed.Sessions != c.sessions || !n.State().Lost {
			t.Errorf("%d of %d sessions with nodes=%d; lost: %v", n.allowed.Sessions, c.limit, c.nodes, n.State().Lost)
		}
	}
}
