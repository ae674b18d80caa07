package cluster

// What queries and metrics show of the cluster.

import (
	"cmp"

	"zsched/mailq"
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
