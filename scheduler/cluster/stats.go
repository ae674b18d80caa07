package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/scheduler"
)

// Stats counts what passed between this node and the store.
type Stats struct {
	Calls, Batches, Failures uint64
	Losses                   uint64        // how often the store was lost
	Lost                     bool          // it is lost now
	Epochs                   uint64        // epochs that this node has met
	Latency                  time.Duration // of all batches together
	Slowest                  time.Duration // the slowest batch
	Nodes                    int           // known nodes, this one included
	Limits                   int           // limits with demand on this node
}

// Took counts a batch.
func (s *Stats) Took(d time.Duration) {
	s.Latency += d
	s.Slowest = max(s.Slowest, d)
}

// Stats returns the counts so far.
func (n *Node) Stats() Stats {
	s := n.stats
	s.Nodes, s.Limits = len(n.members.names()), len(n.limits)
	return s
}

// Share is what one node has of a limit on sessions.
type Share struct {
	Node                string
	Granted, Busy, Want int
	Limit               int // as configured there
}

// Shares asks the store who has which part of a limit. Any goroutine may call it.
func (n *Node) Shares(ctx context.Context, id scheduler.ClusterLimit) ([]Share, error) {
	ctx, cancel := context.WithTimeout(ctx, n.store.timeout)
	defer cancel()
	fields, err := n.store.reader.HGetAll(ctx, n.key("limit:"+nameOf(id))).Result()
	if err != nil {
		return nil, fmt.Errorf("asking the store for shares: %w", err)
	}
	return sharesOf(fields), nil
}

// sharesOf reads the hash of a limit (share.lua).
func sharesOf(fields map[string]string) (shares []Share) {
	for _, node := range slices.Sorted(maps.Keys(fields)) {
		s := Share{}
		ended := false
		if s.Node, _, ended = strings.Cut(node, "~"); ended {
			s.Node += " (ended)" // its agents may still be at work
		}
		var expiry int64
		if _, err := fmt.Sscan(fields[node], &expiry, &s.Want, &s.Granted, &s.Limit, &s.Busy); err == nil {
			shares = append(shares, s)
		}
	}
	return shares
}
