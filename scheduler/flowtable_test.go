package scheduler

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestFlowTable compares the table with a map, at all sizes and in all orders.
func TestFlowTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table flowTable
		have := make(map[shareRef]flowRef)
		shares := rapid.SampledFrom([]shareRef{3, 20, 1000}).Draw(t, "shares")
		step := rapid.SampledFrom([]shareRef{1, 1 << 10, 1 << 20}).Draw(t, "distance between shares")
		grow := rapid.IntRange(1, 9).Draw(t, "additions of ten")
		last := flowRef(0)
		for range rapid.IntRange(0, 3000).Draw(t, "changes") {
			s := rapid.Custom(func(t *rapid.T) shareRef {
				return shareRef(rapid.Uint32Range(1, uint32(shares)).Draw(t, "share")) * step
			}).Draw(t, "share")
			if rapid.IntRange(0, 9).Draw(t, "what") < grow {
				last++
				table.put(s, last)
				have[s] = last
			} else if have[s] != 0 {
				table.remove(s)
				delete(have, s)
			}
			if got := table.find(s); got != have[s] {
				t.Fatalf("share %d has flow %d, not %d", s, got, have[s])
			}
		}
		if table.len() != len(have) {
			t.Fatalf("%d flows, not %d", table.len(), len(have))
		}
		for s, f := range have {
			if got := table.find(s); got != f {
				t.Fatalf("share %d has flow %d, not %d", s, got, f)
			}
		}
		listed := make(map[flowRef]bool)
		for f := range table.all {
			if listed[f] {
				t.Fatalf("flow %d is listed twice", f)
			}
			listed[f] = true
		}
		for f := range maps.Values(have) {
			if !listed[f] {
				t.Fatalf("flow %d is not listed", f)
			}
		}
		if len(listed) != len(have) {
			t.Fatalf("%d flows are listed, not %d", len(listed), len(have))
		}
	})
}
