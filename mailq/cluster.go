package mailq

// The cluster as one of its nodes sees it (SHOW CLUSTER).

import (
	"fmt"
	"time"
)

// ClusterItem is a line of JSON SHOW CLUSTER: the store, a node or a limit. One of
// the fields is set.
type ClusterItem struct {
	Store *ClusterStore `json:"store,omitempty"`
	Node  *ClusterNode  `json:"node,omitempty"`
	Limit *ClusterLimit `json:"limit,omitempty"`
}

// ClusterStore is the store of the cluster, as this node sees it.
type ClusterStore struct {
	Address string `json:"address"` // without its password
	State   string `json:"state"`   // reached, lost, refused (another process has the name of this node) or not reached yet
	// Losses is how often the store was lost, and Failures how many batches of calls failed.
	Losses   uint64 `json:"losses"`
	Failures uint64 `json:"failures"`
}

// ClusterNode is a node that has reported to the store within the last ten minutes.
type ClusterNode struct {
	Name       string    `json:"name"`
	Self       bool      `json:"self,omitempty"` // it answers this query
	ReportedAt time.Time `json:"reported_at,omitzero"`
}

// ClusterLimit is a limit on sessions, or a rate, that the nodes share, and the part that the node has
// which answers.
type ClusterLimit struct {
	Setting string `json:"setting"` // clustermax, clustersitemax or clusterrate
	Name    string `json:"name"`    // channel/host, or channel/site
	Most    int    `json:"most"`    // the smallest of the nodes' settings
	Node    string `json:"node"`
	Granted int    `json:"granted"` // sessions, or thousandths of a rate
	Busy    int    `json:"busy"`
	Wanted  int    `json:"wanted"`
}

// Text is a line of SHOW CLUSTER.
func (c *ClusterItem) Text(now time.Time) string {
	switch {
	case c.Store != nil:
		return fmt.Sprintf("store %s: %s, lost %d times, %d batches failed", c.Store.Address, c.Store.State, c.Store.Losses, c.Store.Failures)
	case c.Node != nil:
		return c.Node.text(now)
	case c.Limit != nil:
		return c.Limit.text()
	}
	return ""
}

func (n *ClusterNode) text(now time.Time) string {
	text := "node " + n.Name
	if n.Self {
		text += " (this one)"
	}
	if n.ReportedAt.IsZero() {
		return text + ": no report yet"
	}
	return text + ": reported " + FormatAge(now, n.ReportedAt) + " ago"
}

func (l *ClusterLimit) text() string {
	return fmt.Sprintf("limit %s %s: %d; %s has %d (%d busy, %d wanted)", l.Setting, l.Name, l.Most, l.Node, l.Granted, l.Busy, l.Wanted)
}
