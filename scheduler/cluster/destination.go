package cluster

import (
	"strings"
	"time"

	"zsched/scheduler"
)

// Dead destinations: a key in the store for each (destination.lua), which lives until the
// node that has found it dead tries it again. Without the store, nothing is told or asked,
// and nothing is kept to be told later.

const (
	// maxBacklog bounds the calls that wait while a batch is with the store. What is found
	// or asked about further destinations is dropped.
	maxBacklog = 10_000
	// maxSpan bounds the time for which a destination is called dead.
	maxSpan = 366 * 24 * time.Hour
)

// destination performs a Destination of the core.
func (n *Node) destination(a scheduler.Destination) {
	if !n.members.joined || n.members.lost || len(n.backlog) >= maxBacklog {
		return
	}
	span := time.Duration(0)
	switch a.State {
	case scheduler.DestinationIsDead:
		span = min(max(time.Millisecond, a.Until.Sub(n.wall)), maxSpan)
	case scheduler.DestinationIsAlive:
		span = -time.Millisecond
	}
	record := n.options.Node + " " + strings.ToValidUTF8(a.Reason, "")
	n.backlog = append(n.backlog, call{
		script: destinationScript, keys: []string{keyPrefix + "dead:" + escape(a.Channel) + "/" + escape(a.Host)}, args: []any{span.Milliseconds(), record},
		done: func(reply any, err error) error {
			if a.State != scheduler.DestinationIsAlive && err == nil {
				n.destinationKnown(a, reply)
			}
			return err
		},
	})
}

// destinationKnown tells the core what another node has found about a destination.
func (n *Node) destinationKnown(a scheduler.Destination, reply any) {
	values, _ := reply.([]any)
	if len(values) < 2 {
		return
	}
	left, _ := values[0].(int64)
	record, _ := values[1].(string)
	node, reason, _ := strings.Cut(record, " ")
	if node == n.options.Node {
		return
	}
	until := n.now + boot(min(left, maxSpan.Milliseconds()))*boot(time.Millisecond)
	n.events = append(n.events, scheduler.DestinationDead{Channel: a.Channel, Host: a.Host, Until: n.coreTime(until), Node: node, Reason: reason})
}
