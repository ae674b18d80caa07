package cluster

// What queries show of the cluster (mailq cluster): what this node knows of it.

import (
	"cmp"
	"fmt"
	"time"

	"zsched/mailq"
)

// Overview returns what this node knows of the store, of the nodes and of its own part of
// each limit on sessions.
func (n *Node) Overview() []*mailq.ClusterItem {
	items := []*mailq.ClusterItem{{Store: n.storeStatus()}}
	for _, name := range n.members.names() {
		items = append(items, &mailq.ClusterItem{Node: n.nodeStatus(name)})
	}
	for _, l := range n.sortedLimits() {
		items = append(items, &mailq.ClusterItem{Limit: &mailq.ClusterLimit{
			Setting: l.id.Setting, Name: l.id.Channel + "/" + l.id.Name, Most: cmp.Or(l.least, l.max),
			Node: n.members.self, Granted: max(0, min(l.told, l.max)), Busy: l.busy, Wanted: l.want,
		}})
	}
	return items
}

func (n *Node) storeStatus() *mailq.ClusterStore {
	m, s := &n.members, n.stats
	o := &mailq.ClusterStore{
		Address: n.options.Store.String(), State: "not reached yet", Epochs: s.Epochs, Losses: s.Losses,
		Calls: s.Calls, Failures: s.Failures, Slowest: s.Slowest.Seconds(),
	}
	switch {
	case m.refused != "":
		o.State = "refused"
	case m.lost:
		o.State = "lost"
	case m.joined:
		o.State = "reached"
	}
	if s.Batches > 0 {
		o.Latency = s.Latency.Seconds() / float64(s.Batches)
	}
	if m.born != 0 && m.clock != 0 {
		o.EpochAt = n.wall.Add(-time.Duration(n.now + m.clock - boot(m.born)*boot(time.Millisecond)))
	}
	return o
}

// nodeStatus returns what a node has reported of itself.
func (n *Node) nodeStatus(name string) *mailq.ClusterNode {
	m := &n.members
	s := &mailq.ClusterNode{Name: name, Self: name == m.self}
	status, at := n.status(), m.lastOK
	if !s.Self {
		status, at = m.known[name].status, m.known[name].reported
	}
	if m.joined && status != "" {
		s.ReportedAt = n.coreTime(at)
	}
	_, _ = fmt.Sscan(status, &s.Limits, &s.Allowed, &s.Busy, &s.Wanted)
	return s
}
