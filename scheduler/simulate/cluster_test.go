package simulate

import (
	"slices"
	"testing"
	"time"
)

// TestLimitOfTheClusterHolds: with any seed, the sessions of both nodes are within the
// limit in each phase, and a node that has only its own limits without the store is
// noticed.
func TestLimitOfTheClusterHolds(t *testing.T) {
	for seed := range uint64(3) {
		r := runCluster(seed, clusterLimit/2)
		if most := slices.Max(r.most); most > clusterLimit {
			t.Errorf("seed %d: %d sessions, by phase %v", seed, most, r.most)
		}
	}
	if r := runCluster(1, clusterLimit); slices.Max(r.most) <= clusterLimit {
		t.Errorf("nodes that do not divide the limit have only %v sessions", r.most)
	}
}

// TestRateOfTheSceneIsKept: with any seed, the host is fed what the rate allows, and
// another rate is noticed.
func TestRateOfTheSceneIsKept(t *testing.T) {
	for seed := range uint64(3) {
		r := runShaping(seed, shapedRate)
		if excess := r.excess(); excess > 1e-6 {
			t.Errorf("seed %d: %v recipients beyond the rate", seed, excess)
		}
		if n := r.fedBetween(r.suspended, r.suspended+suspendSpan); n > 0 {
			t.Errorf("seed %d: %v recipients fed during the suspension", seed, n)
		}
		if used := r.used(); used < 0.98 {
			t.Errorf("seed %d: %v of the limit is used", seed, used)
		}
	}
	if excess := runShaping(1, shapedRate+shapedRate/10).excess(); excess <= 1e-6 {
		t.Error("a rate that is a tenth higher keeps the limit")
	}
	if used := runShaping(1, shapedRate*9/10).used(); used >= 0.98 {
		t.Errorf("a rate that is a tenth lower uses %v of the limit", used)
	}
}

// TestStoreDividesTheLimit: the model of the store divides a limit as share.lua does.
func TestStoreDividesTheLimit(t *testing.T) {
	c := NewClock(1)
	s := &clusterStore{Clock: c, limit: 20, up: true, born: -time.Hour}
	a, b := &clusterNode{name: "a", Node: &Node{Clock: c}, flying: true}, &clusterNode{name: "b", Node: &Node{Clock: c}, flying: true}
	for _, step := range []struct {
		what       string
		after      time.Duration
		node       *clusterNode
		want, busy int
		allowed    int
	}{
		{"all of it for one node", 0, a, 30, 0, 20},
		{"nothing is left for another", 0, b, 30, 0, 0},
		{"the first one gives up a half, but has it until its sessions end", 0, a, 30, 20, 10},
		{"so the other still gets nothing", 0, b, 30, 0, 0},
		{"three sessions have ended", 0, a, 30, 17, 10},
		{"the other gets their places", 0, b, 30, 0, 3},
		{"the rest has ended", 0, a, 30, 10, 10},
		{"even parts", 0, b, 30, 3, 10},
		{"a small want is met", 0, b, 4, 4, 4},
		{"the rest is for the other", 0, a, 30, 10, 16},
		{"a silent node loses its part", clusterTTL, a, 30, 16, 20},
	} {
		c.RunUntil(c.Now() + step.after)
		if r := s.share(step.node, step.want, step.busy, false); r.allowed != step.allowed {
			t.Errorf("%s: %d are allowed, not %d", step.what, r.allowed, step.allowed)
		}
	}
	s.begin()
	if r := s.share(a, 30, 7, false); r.allowed != 7 {
		t.Errorf("in a new epoch: %d are allowed, not the 7 busy ones", r.allowed)
	}
}
