package mailq

import (
	"testing"
	"time"
)

func TestClusterTexts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for want, item := range map[string]ClusterItem{
		"store redis://s:6379/0: reached, lost 1 times, 2 batches failed": {
			Store: &ClusterStore{Address: "redis://s:6379/0", State: "reached", Losses: 1, Failures: 2}},
		"node mx1 (this one): reported 1s ago": {
			Node: &ClusterNode{Name: "mx1", Self: true, ReportedAt: now.Add(-time.Second)}},
		"node mx2: no report yet": {Node: &ClusterNode{Name: "mx2"}},
		"limit clustermax smtp/a.example: 20; mx1 has 7 (5 busy, 9 wanted)": {
			Limit: &ClusterLimit{Setting: "clustermax", Name: "smtp/a.example", Most: 20, Node: "mx1", Granted: 7, Busy: 5, Wanted: 9}},
	} {
		if got := item.Text(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
