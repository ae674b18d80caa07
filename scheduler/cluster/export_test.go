package cluster

import (
	"context"
	"net"
	"time"
)

// InVirtualTime gives a node that Open makes another clock in place of BootTime, and
// connections of a test in place of the network.
func (o *Options) InVirtualTime(clock func() time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	o.virtual = virtualTime{clock, dial}
}
