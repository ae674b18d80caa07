package scheduler

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"zsched/scheduler/rule"
)

// TestTimeMultisetAgainstSlice compares a timeMultiset with a slice that is searched
// each time.
func TestTimeMultisetAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m timeMultiset
		var reference []second
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(reference) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") > 0 {
				i := rapid.IntRange(0, len(reference)-1).Draw(t, "which")
				m.remove(reference[i])
				reference = slices.Delete(reference, i, i+1)
			} else {
				at := second(rapid.Uint32Range(0, 20).Draw(t, "at"))
				m.add(at)
				reference = append(reference, at)
			}
			want := second(0)
			if len(reference) > 0 {
				want = slices.Min(reference)
			}
			if got := m.earliest(); got != want {
				t.Fatalf("earliest of %v: %d", reference, got)
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
			if empty != m.empty || len(m.counts) > 2*len(reference) {
				t.Fatalf("%d counts for %d times, %d empty, kept %d", len(m.counts), len(reference), empty, m.empty)
			}
		}
	})
}

// TestTimesOutOfRangeStayInOrder: a file can have an mtime that nanoseconds
// since the epoch cannot hold; ext4 goes to 2446. It must not become a time
// long ago, because then the message would be expired.
func TestTimesOutOfRangeStayInOrder(t *testing.T) {
	early, now, late := dateOf(time.Unix(-1<<40, 0)), dateOf(time.Unix(1_800_000_000, 0)), dateOf(time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC))
	if early >= now || now >= late {
		t.Errorf("long ago is %d, now %d, the year 2400 %d", early, now, late)
	}
	var ag agenda
	p := &rule.Params{Expiry: time.Hour}
	if primary, secondary := ag.expiryOf(p, late); primary < now || secondary < now {
		t.Errorf("a message of the year 2400 expires at %d and %d", primary, secondary)
	}
	if primary, _ := ag.expiryOf(p, early); primary > now {
		t.Errorf("a message of long ago expires at %d", primary)
	}
}
