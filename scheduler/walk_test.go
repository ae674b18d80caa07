package scheduler

import (
	"slices"
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
		w, shown, calls := s.WalkMessage(1), make(map[int64]bool), 0
		for more := true; more; calls++ {
			var items []view.Item
			items, more = w.Next(maxBatch)
			for _, item := range items {
				for _, r := range item.JobLine.Recipients {
					shown[r.Offset] = true
				}
			}
		}
		if len(shown) != n || calls < 11 {
			t.Errorf("%s: %d of %d recipients in %d slices", name, len(shown), n, calls)
		}

		w = s.WalkMessage(1)
		w.Next(1)
		s.Step(At(now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: 1}}})
		for more := true; more; {
			_, more = w.Next(maxBatch)
		}
	}
}

// TestWalkByMessage: the vertices of a message come one after the other, each once, and a reload does
// not matter. What has left is passed over, a part at a time.
func TestWalkByMessage(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	const messages = 3 * maxBatch
	for id := range MessageID(messages) {
		m := Message{ID: id + 1, Path: "1", ModifiedAt: now}
		for i := range 1 + id%3 {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: strconv.Itoa(int(i))})
		}
		s.Step(At(now), Arrived{m})
	}
	kept := []MessageID{1, 2, 3, messages - 1, messages}
	for id := range MessageID(messages) {
		if !slices.Contains(kept, id+1) {
			leave(s, now, id+1)
		}
	}
	w, calls := s.WalkMessages(), 0
	var got []MessageID
	for more := true; more; calls++ {
		var items []view.Item
		items, more = w.Next(2)
		for _, item := range items {
			got = append(got, item.JobLine.Message)
		}
		s.Step(At(now), Reloaded{new(*s.rules.config)})
	}
	if want := []MessageID{1, 2, 2, 3, 3, 3, messages - 1, messages - 1, messages, messages, messages}; !slices.Equal(got, want) || w.Interrupted() {
		t.Errorf("%v, want %v", got, want)
	}
	if calls < 8 {
		t.Errorf("%d calls", calls)
	}
}

// leave makes a message leave the queue.
func leave(s *Scheduler, now time.Time, id MessageID) {
	mark := s.Step(At(now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: id}}})[0].(Mark)
	finish := s.Step(At(now), Done{Op: mark.Op})[0].(*Finish)
	s.Step(At(now), Done{Op: finish.Op})
}

// TestWalkOfNothing: a walk over something that does not exist ends at once,
// and a walk over mail that leaves ends then.
func TestWalkOfNothing(t *testing.T) {
	q := newBenchQueue(1)
	for name, w := range map[string]*Walk{"queue": q.s.Walk(Vertices), "thread": q.s.WalkThread("smtp", "a"), "message": q.s.WalkMessage(1), "messages": q.s.WalkMessages()} {
		if items, more := w.Next(9); len(items) > 0 || more {
			t.Errorf("%s: %v %v", name, items, more)
		}
	}
	q.fill(1, 1)
	w := q.s.WalkThread("smtp", q.hosts[0])
	if w.vertex == 0 {
		t.Fatal("there is no mail")
	}
	leave(q.s, q.now, 1)
	if items, more := w.Next(9); len(items) > 0 || more {
		t.Errorf("%v %v", items, more)
	}
}
