package scheduler

import (
	"testing"
	"time"

	"zsched/scheduler/view"
	"zsched/ta"
)

// TestPullForwardInSlices: an ETRN makes waiting mail due a slice at a time, so
// that agents are answered in between, and all of it in the end.
func TestPullForwardInSlices(t *testing.T) {
	const n = 3*wakeSlice + 7
	q := newBenchQueue(1)
	for range n {
		q.arrive(1)
	}
	q.startAgents()
	for len(q.feeds) > 0 {
		q.serve(ta.Deferred)
	}
	th := q.s.threads.byKey[threadKey{"smtp", q.hosts[0]}]
	if th.waiting.times.Len() != n || th.fair.Len() != 0 {
		t.Fatalf("%d wait, %d are due", th.waiting.times.Len(), th.fair.Len())
	}
	q.s.rules.config.Frozen = true
	q.step(Triggered{Host: q.hosts[0]})
	for before := 0; ; q.step(Tick{}) {
		due := th.fair.Len()
		if due == before || due > before+wakeSlice {
			t.Fatalf("%d were due, then %d", before, due)
		}
		if before = due; due == n {
			break
		}
		if next, ok := q.s.Next(); !ok || next.After(q.now) {
			t.Fatalf("%d of %d are due and nothing more comes", due, n)
		}
	}
	if th.nextUpdate != 0 {
		t.Error("the bulk update has not ended")
	}
}

// TestBulkUpdateEndsWithItsMail: the last vertex of a bulk update leaves before
// its turn.
func TestBulkUpdateEndsWithItsMail(t *testing.T) {
	q := newBenchQueue(1).fill(wakeSlice+1, 1)
	host := q.hosts[0]
	q.s.rules.config.Frozen = true
	q.step(HeldThread{Channel: "smtp", Host: host, Held: true})
	q.step(HeldThread{Channel: "smtp", Host: host, Held: false})
	th := q.s.threads.byKey[threadKey{"smtp", host}]
	if th.nextUpdate == 0 {
		t.Fatal("the bulk update has ended already")
	}
	mark := q.s.Step(At(q.now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: q.last}}})[0].(Mark)
	q.s.Step(At(q.now), Done{Op: mark.Op})
	q.s.check()
	if th.updates != 0 {
		t.Error("the bulk update has not ended")
	}
}

// TestReleaseInSlices: mail of a held thread that is past its expiry is
// released a slice at a time, and none of it expires before its slice.
func TestReleaseInSlices(t *testing.T) {
	const n = 3*wakeSlice + 7
	q := newBenchQueue(1).fill(n, 1)
	host := q.hosts[0]
	q.s.rules.config.Frozen = true
	q.step(HeldThread{Channel: "smtp", Host: host, Held: true})
	q.now = q.now.Add(1000 * time.Hour)
	q.step(HeldThread{Channel: "smtp", Host: host, Held: false})
	for next, ok := q.s.Next(); ok && !next.After(q.now); next, ok = q.s.Next() {
		q.step(Tick{})
	}
	q.s.check()
	if c := q.s.Counts(); c.States["blocked"] != n { // it is frozen
		t.Errorf("%+v", c)
	}
	if th := q.s.threads.byKey[threadKey{"smtp", host}]; th.updates != 0 || th.nextUpdate != 0 {
		t.Error("the bulk update has not ended")
	}
}
