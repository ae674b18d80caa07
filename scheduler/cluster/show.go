package cluster

// What queries and metrics show of the cluster: what this node knows of it, and what the store
// keeps of one limit.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zsched/mailq"
	"zsched/scheduler"
)

// Overview returns what this node knows of the store, of the nodes and of its own part of
// each limit.
func (n *Node) Overview() []*mailq.ClusterItem {
	m := &n.members
	store := &mailq.ClusterStore{Address: n.options.Store.String(), State: "not reached yet", Losses: n.losses, Failures: n.failures}
	switch {
	case m.refused != "":
		store.State = "refused"
	case m.lost:
		store.State = "lost"
	case m.joined:
		store.State = "reached"
	}
	items := []*mailq.ClusterItem{{Store: store}}
	for _, name := range m.names() {
		node := &mailq.ClusterNode{Name: name, Self: name == m.self}
		if at, found := m.known[name]; found {
			node.ReportedAt = n.coreTime(at)
		} else if m.joined {
			node.ReportedAt = n.coreTime(m.lastOK)
		}
		items = append(items, &mailq.ClusterItem{Node: node})
	}
	for _, l := range n.sortedLimits() {
		items = append(items, &mailq.ClusterItem{Limit: &mailq.ClusterLimit{
			Setting: l.id.Setting, Name: l.id.Channel + "/" + l.id.Name, Most: cmp.Or(l.least, l.max),
			Node: m.self, Granted: max(0, min(l.told, l.max)), Busy: l.busy, Wanted: l.want,
		}})
	}
	return items
}

// Parts asks the store which node has which part of a limit. Any goroutine may call it.
func (n *Node) Parts(ctx context.Context, id scheduler.ClusterLimit) ([]mailq.ClusterLimit, error) {
	ctx, cancel := context.WithTimeout(ctx, n.store.timeout)
	defer cancel()
	fields, err := n.store.client.HGetAll(ctx, keyPrefix+"limit:"+nameOf(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("asking the store for shares: %w", err)
	}
	return partsOf(id, fields), nil
}

// partsOf reads the hash of a limit (share.lua).
func partsOf(id scheduler.ClusterLimit, fields map[string]string) (parts []mailq.ClusterLimit) {
	for _, node := range slices.Sorted(maps.Keys(fields)) {
		p := mailq.ClusterLimit{Setting: id.Setting, Name: id.Channel + "/" + id.Name}
		ended := false
		if p.Node, _, ended = strings.Cut(node, "~"); ended {
			p.Node += " (ended)" // its agents may still be at work
		}
		var expiry int64
		if _, err := fmt.Sscan(fields[node], &expiry, &p.Wanted, &p.Granted, &p.Most, &p.Busy); err == nil {
			parts = append(parts, p)
		}
	}
	return parts
}
