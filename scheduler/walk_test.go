package scheduler

import (
	"strconv"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// TestReloadInterruptsAWalk: over everything, because the threads may be in other rings then.
func TestReloadInterruptsAWalk(t *testing.T) {
	q := newBenchQueue(1)
	q.fill(10, 10)
	all, one := q.s.Walk(Vertices), q.s.WalkThread("smtp", q.hosts[1])
	for _, w := range []*Walk{all, one} {
		w.Next(1)
	}
	q.s.Step(At(q.now), Reloaded{new(*q.s.rules.config)})
	if items, more := all.Next(9); len(items) > 0 || more || !all.Interrupted() {
		t.Errorf("%v %v", items, more)
	}
	if one.Interrupted() {
		t.Error("the walk through a thread was interrupted")
	}
}

// TestWalkShowsLittleAtATime: a slice is bounded by what it shows.
func TestWalkShowsLittleAtATime(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	for id := range MessageID(9) {
		m := Message{ID: id + 1, Path: "1", ModifiedAt: now}
		for i := range maxBatch/2 + 1 {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: "a"})
		}
		s.Step(At(now), Arrived{m})
	}
	for name, w := range map[string]*Walk{"queue": s.Walk(Vertices), "thread": s.WalkThread("smtp", "a")} {
		shown := 0
		for more := true; more; {
			var items []view.Item
			items, more = w.Next(1000)
			vertices := 0
			for _, item := range items {
				if item.JobLine != nil {
					vertices++
					shown += len(item.JobLine.Recipients)
				}
			}
			if vertices > 2 {
				t.Errorf("%s: a slice shows %d vertices", name, vertices)
			}
		}
		if want := 9 * (maxBatch/2 + 1); shown != want {
			t.Errorf("%s: %d of %d recipients were returned", name, shown, want)
		}
	}
}

// TestWalkDividesALargeMessage: one that has very many recipients, in one vertex or in as many, is shown a
// part at a time, and each of them once. What leaves meanwhile does not end the walk.
func TestWalkDividesALargeMessage(t *testing.T) {
	const n = 10*maxBatch + 1
	now := time.Unix(1_800_000_000, 0)
	for name, hosts := range map[string]int{"one destination": 1, "many": n} {
		s := plain(0)
		m := Message{ID: 1, Path: "1", ModifiedAt: now}
		for i := range n {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: strconv.Itoa(i % hosts)})
		}
		s.Step(At(now), Arrived{m})
		w, shown, slices := s.WalkMessage(1), make(map[int64]bool), 0
		for more := true; more; slices++ {
			var items []view.Item
			items, more = w.Next(maxBatch)
			for _, item := range items {
				for _, r := range item.JobLine.Recipients {
					shown[r.Offset] = true
				}
			}
		}
		if len(shown) != n || slices < 11 {
			t.Errorf("%s: %d of %d recipients in %d slices", name, len(shown), n, slices)
		}

		w = s.WalkMessage(1)
		w.Next(1)
		s.Step(At(now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: 1}}})
		for more := true; more; {
			_, more = w.Next(maxBatch)
		}
	}
}

// TestWalkOfNothing: a walk over something that does not exist ends at once,
// and a walk over mail that leaves ends then.
func TestWalkOfNothing(t *testing.T) {
	q := newBenchQueue(1)
	for name, w := range map[string]*Walk{"queue": q.s.Walk(Vertices), "thread": q.s.WalkThread("smtp", "a"), "message": q.s.WalkMessage(1)} {
		if items, more := w.Next(9); len(items) > 0 || more {
			t.Errorf("%s: %v %v", name, items, more)
		}
	}
	q.fill(1, 1)
	w := q.s.WalkThread("smtp", q.hosts[0])
	if w.vertex == 0 {
		t.Fatal("there is no mail")
	}
	mark := q.s.Step(At(q.now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: 1}}})[0].(Mark)
	finish := q.s.Step(At(q.now), Done{Op: mark.Op})[0].(*Finish)
	q.s.Step(At(q.now), Done{Op: finish.Op})
	if items, more := w.Next(9); len(items) > 0 || more {
		t.Errorf("%v %v", items, more)
	}
}
