package scheduler

import (
	"testing"
	"time"

	"zsched/ctlfile"
)

// TestReloadInterruptsAWalk: over everything, because the threads may be in other rings then.
func TestReloadInterruptsAWalk(t *testing.T) {
	q := newBenchQueue(1)
	q.fill(10, 10)
	all, one := q.s.Walk(Vertices), q.s.WalkThread("smtp", q.hosts[1])
	for _, w := range []*Walk{all, one} {
		w.Next(1)
	}
	q.s.Step(At(q.now), Reloaded{q.s.config})
	if items, more := all.Next(9); len(items) > 0 || more || !all.Interrupted() {
		t.Errorf("%v %v", items, more)
	}
	if one.Interrupted() {
		t.Error("the walk through a thread was interrupted")
	}
	one.Close()
}

// TestWalkInParts: a vertex with very many recipients is returned in parts, and
// a slice is bounded by what it shows.
func TestWalkInParts(t *testing.T) {
	const n = 3*maxBatch + 7
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	m := Message{ID: 1, Path: "1", ModifiedAt: now}
	for i := range n {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: "a"})
	}
	s.Step(At(now), Arrived{m})
	s.Step(At(now), Arrived{Message{ID: 2, Path: "2", ModifiedAt: now, Recipients: m.Recipients[:1]}})
	for name, w := range map[string]*Walk{"queue": s.Walk(Vertices), "thread": s.WalkThread("smtp", "a"), "message": s.WalkMessage(1)} {
		next, second := 0, false
		for more := true; more; {
			var items []Item
			items, more = w.Next(1000)
			shown := 0
			for _, item := range items {
				switch {
				case item.Vertex == nil:
				case item.Vertex.Message == 2:
					second = true
				case item.Vertex.First != next || item.Vertex.Recipients[0].Offset != int64(next):
					t.Fatalf("%s: a part begins with %d, want %d", name, item.Vertex.First, next)
				default:
					shown += len(item.Vertex.Recipients)
					next += len(item.Vertex.Recipients)
				}
			}
			if shown > maxBatch+maxPart {
				t.Errorf("%s: a slice shows %d recipients", name, shown)
			}
		}
		if next != n || second == (name == "message") {
			t.Errorf("%s: %d of %d recipients were returned; the other message: %v", name, next, n, second)
		}
	}
}

// TestWalkOfNothing: a walk over something that does not exist ends at once,
// and a walk over a message that leaves ends then.
func TestWalkOfNothing(t *testing.T) {
	q := newBenchQueue(1)
	for name, w := range map[string]*Walk{"queue": q.s.Walk(Vertices), "thread": q.s.WalkThread("smtp", "a"), "message": q.s.WalkMessage(1)} {
		if items, more := w.Next(9); len(items) > 0 || more {
			t.Errorf("%s: %v %v", name, items, more)
		}
		w.Close()
	}
	q.fill(1, 1)
	w := q.s.WalkMessage(1)
	mark := q.s.Step(At(q.now), Ordered{Verb: VerbKill, Targets: []Target{{Message: 1}}})[0].(Mark)
	finish := q.s.Step(At(q.now), Done{Op: mark.Op})[1].(Finish)
	q.s.Step(At(q.now), Done{Op: finish.Op})
	if items, more := w.Next(9); len(items) > 0 || more || len(q.s.walks) > 0 {
		t.Errorf("%v %v", items, more)
	}
}
