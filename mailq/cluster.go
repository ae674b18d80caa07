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
	// EpochAt is when the epoch began, by the clock of this node; zero: not known.
	EpochAt time.Time `json:"epoch_at,omitzero"`
	Epochs  uint64    `json:"epochs"` // that this node has met
	Losses  uint64    `json:"losses"`
	Calls   uint64    `json:"calls"`
	// Failures are batches of calls that failed. Latency is the mean time of a batch,
	// and Slowest the longest, in seconds.
	Failures uint64  `json:"failures"`
	Latency  float64 `json:"latency"`
	Slowest  float64 `json:"slowest"`
}

// ClusterNode is a node that has reported to the store within the last ten minutes.
type ClusterNode struct {
	Name       string    `json:"name"`
	Self       bool      `json:"self,omitempty"` // it answers this query
	ReportedAt time.Time `json:"reported_at,omitzero"`
	// Limits is the number of limits that it has demand for; Allowed, Busy and Wanted
	// are sessions under all of them.
	Limits  int `json:"limits"`
	Allowed int `json:"allowed"`
	Busy    int `json:"busy"`
	Wanted  int `json:"wanted"`
}

// ClusterLimit is a limit on sessions that the nodes share, and the part that the node has
// which answers.
type ClusterLimit struct {
	Setting string `json:"setting"` // clustermax or clustersitemax
	Name    string `json:"name"`    // channel/host, or channel/site
	Most    int    `json:"most"`    // the smallest of the nodes' settings
	Node    string `json:"node"`
	Granted int    `json:"granted"` // sessions
	Busy    int    `json:"busy"`
	Wanted  int    `json:"wanted"`
}

// Text is a line of SHOW CLUSTER.
func (c *ClusterItem) Text(now time.Time) string {
	switch {
	case c.Store != nil:
		return c.Store.text(now)
	case c.Node != nil:
		return c.Node.text(now)
	case c.Limit != nil:
		return c.Limit.text()
	}
	return ""
}

func (s *ClusterStore) text(now time.Time) string {
	text := "store " + s.Address + ": " + s.State
	if !s.EpochAt.IsZero() {
		text += ", epoch began " + FormatAge(now, s.EpochAt) + " ago"
	}
	return text + fmt.Sprintf(", lost %d times, %d calls, %d batches failed, %.1f ms a batch, %.1f ms the slowest",
		s.Losses, s.Calls, s.Failures, s.Latency*1000, s.Slowest*1000)
}

func (n *ClusterNode) text(now time.Time) string {
	text := "node " + n.Name
	if n.Self {
		text += " (this one)"
	}
	if n.ReportedAt.IsZero() {
		text += ": no report yet"
	} else {
		text += ": reported " + FormatAge(now, n.ReportedAt) + " ago"
	}
	return text + ", " + Plural(n.Limits, "limit", "limits") + fmt.Sprintf(", %d allowed, %d busy, %d wanted", n.Allowed, n.Busy, n.Wanted)
}

func (l *ClusterLimit) text() string {
	return fmt.Sprintf("limit %s %s: %d; %s", l.Setting, l.Name, l.Most, l.PartText())
}

// PartText says what a node has of a limit.
func (l *ClusterLimit) PartText() string {
	return fmt.Sprintf("%s has %d (%d busy, %d wanted)", l.Node, l.Granted, l.Busy, l.Wanted)
}
