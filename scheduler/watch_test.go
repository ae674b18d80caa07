package scheduler

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWatch compares the watch with a map. Vertices that leave stay in it, and come back
// with another time or none.
func TestWatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := watch{first: noLook}
		due := make(map[vertexRef]date)
		most := rapid.SampledFrom([]vertexRef{3, 300, 5000}).Draw(t, "vertices")
		now := second(1000).date()
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			n := vertexRef(rapid.Uint32Range(1, uint32(most)).Draw(t, "vertex"))
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // it is fed
				delete(due, n)
			case 1: // it cannot expire
				w.set(n, noDate)
				due[n] = noDate
			case 2: // time passes
				now = now.after(rapid.SampledFrom(spans).Draw(t, "time"))
				enough := rapid.IntRange(1, 20).Draw(t, "enough")
				for w.next() <= now {
					for _, found := range w.take(now, enough) {
						if at, is := due[found]; is && at > now {
							t.Fatalf("vertex %d is found at %v, before %v", found, now.time(), at.time())
						}
						delete(due, found)
					}
				}
				for n, at := range due {
					if at.ceilSecond().date() <= now {
						t.Fatalf("vertex %d is not found at %v", n, now.time())
					}
				}
			default:
				at := now.after(rapid.SampledFrom(spans).Draw(t, "wait"))
				w.set(n, at)
				due[n] = at
			}
			if at, is := due[n]; is && at != noDate && w.at(n) != at.ceilSecond().date() || is && at == noDate && w.at(n) != noDate {
				t.Fatalf("vertex %d: %v, not %v", n, w.at(n), at)
			}
		}
	})
}

var spans = []time.Duration{0, time.Millisecond, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond, time.Minute, 72 * time.Hour}
