package mailq

import (
	"testing"
	"time"
)

func TestClusterTexts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for want, item := range map[string]ClusterItem{
		"store redis://s:6379/0: reached, epoch began 2h ago, lost 1 times, 10 calls, 2 batches failed, 0.4 ms a batch, 3.1 ms the slowest": {
			Store: &ClusterStore{Address: "redis://s:6379/0", State: "reached", EpochAt: now.Add(-2 * time.Hour), Losses: 1, Calls: 10, Failures: 2, Latency: 0.0004, Slowest: 0.0031}},
		"node mx1 (this one): reported 1s ago, 1 limit, 7 allowed, 5 busy, 9 wanted": {
			Node: &ClusterNode{Name: "mx1", Self: true, ReportedAt: now.Add(-time.Second), Limits: 1, Allowed: 7, Busy: 5, Wanted: 9}},
		"node mx2: no report yet, 0 limits, 0 allowed, 0 busy, 0 wanted": {Node: &ClusterNode{Name: "mx2"}},
		"limit clustermax smtp/a.example: 20; mx1 has 7 (5 busy, 9 wanted)": {
			Limit: &ClusterLimit{Setting: "clustermax", Name: "smtp/a.example", Most: 20, Node: "mx1", Granted: 7, Busy: 5, Wanted: 9}},
	} {
		if got := item.Text(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
