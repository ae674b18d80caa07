package scheduler

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMomentsAgainstSlice compares with a slice that is sorted each time.
func TestMomentsAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m timeMultiset
		var twin []second
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(twin) > 0 && rapid.IntRange(0, 2).Draw(t, "take out") > 0 {
				i := rapid.IntRange(0, len(twin)-1).Draw(t, "which")
				m.remove(twin[i])
				twin = slices.Delete(twin, i, i+1)
			} else {
				at := second(rapid.Uint32Range(0, 20).Draw(t, "at"))
				m.add(at)
				twin = append(twin, at)
			}
			want := never
			if len(twin) > 0 {
				want = slices.Min(twin).instant()
			}
			if got := m.earliest(); got != want {
				t.Fatalf("earliest of %v: %d", twin, got)
			}
			empty := 0
			for i, c := range m.counts {
				if c.n == 0 {
					empty++
				}
				if i > 0 && m.counts[i-1].at >= c.at || c.n == 0 && i == 0 {
					t.Fatalf("out of order: %v", m.counts)
				}
			}
			if empty != m.empty || len(m.counts) > 2*len(twin) {
				t.Fatalf("%d counts for %d times, %d empty, kept %d", len(m.counts), len(twin), empty, m.empty)
			}
		}
	})
}

// TestRate: it settles at what happens each minute, and forgets.
func TestRate(t *testing.T) {
	var r rate
	now := at(time.Unix(1_800_000_000, 0))
	for range 60 * 20 { // each second for twenty minutes
		now = now.after(time.Second)
		r.count(now)
	}
	if got := r.now(now); math.Abs(got-60) > 2 {
		t.Errorf("60 a minute make %.1f", got)
	}
	if got := r.now(now.after(30 * time.Minute)); got > 1 {
		t.Errorf("half an hour later it is %.1f", got)
	}
}
