package cluster

import (
	"context"
	"net"
	"time"
)

// State is what tests see of a node's connection with the store.
type State struct {
	Lost             bool
	Losses, Failures uint64
	Epoch            int64 // 0: the store was never reached
}

func (n *Node) State() State {
	return State{Lost: n.members.lost, Losses: n.losses, Failures: n.failures, Epoch: n.members.born}
}

// InVirtualTime gives a node that Open makes another clock in place of the machine's, and
// connections of a test in place of the network.
func (o *Options) InVirtualTime(clock func() time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	o.virtual = virtualTime{clock, dial}
}
