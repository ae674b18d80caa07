package admin

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/view"
	"zsched/ta"
)

// withLimit is a queue of twenty deferred messages, two of which may be in memory.
func withLimit(t *testing.T) *harness {
	h := newHarness(t, nil)
	h.Options.Config.ActiveLimit = 2
	h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { deferAll(a, job) }
	h.Run()
	for i := range 20 {
		h.Spool.Announce(uint64(i+1), []string{"a.example", "b.example"}[i%2])
		synctest.Wait()
	}
	if n := h.notLoaded(); n < 18 {
		t.Fatalf("%d messages are not loaded", n)
	}
	return h
}

func (h *harness) notLoaded() (n int) {
	if err := h.Daemon.Ask(h.t.Context(), func(l *daemon.Loop) { n = l.Core().Counts().NotLoaded }); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// Orders count mail that is not loaded as any other, and are carried out on it. An order by
// last replies says how much it has not looked at.
func TestOrdersAboutMailBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withLimit(t)
		h.want("KILL MSG 1 DRYRUN", 1, 1, 1)
		h.want("KILL MSG 1", 1, 1, 1)
		h.want("EXPIRE MSG 2", 1, 1, 1)
		h.wantOutcome("EXPIRE WHERE reason=nothing* host=b.example", mailq.Outcome{NotLoaded: 9})
		h.want("KILL WHERE host=a.example state=waiting", 9, 9, 1)
		synctest.Wait()
		if n := h.Spool.Left(); n != 9 {
			t.Errorf("%d control files are left", n)
		}
		h.want("HOLD MSG 4", 1, 1, 1)
		h.want("HOLD WHERE sender=rayan host=b.* younger=1d", 9, 9, 1)
		synctest.Wait()
		if n := h.Spool.HeldFiles(); n != 9 {
			t.Errorf("%d messages are held", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Mail that is not loaded is retried without being read for the order.
func TestRetryOfMailBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withLimit(t)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.ReportAll(job, ta.OK2, "delivered") }
		h.want("RETRY THREAD smtp b.example", 10, 10, 1)
		synctest.Wait()
		if n := h.Spool.Left(); n != 10 {
			t.Errorf("%d control files are left", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A list of jobs has the senders and recipients, which only the files know, and what the core
// remembers.
func TestListsHaveMailBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withLimit(t)
		n := 0
		for job, err := range h.queue().Jobs(t.Context(), mailq.Name{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if job.Sender != "rayan" || len(job.Recipients) != 1 || job.Recipients[0].Attempts != 1 || job.Recipients[0].Offset != 100 ||
				job.State != view.Waiting || job.WakeAt.IsZero() {
				t.Errorf("%+v", job)
			}
		}
		totals, err := h.queue().Totals(t.Context())
		if err != nil || n != 20 || totals.Messages != 20 || totals.Recipients != 20 {
			t.Errorf("%d jobs, %+v, %v", n, totals, err)
		}
		x, err := h.queue().Explain(t.Context(), mailq.Name{Channel: "smtp", Host: "b.example"})
		if err != nil || x.Thread.NotLoaded < 2 {
			t.Errorf("%v, %v", x, err)
		}
		m, found, err := h.queue().Message(t.Context(), "7")
		if err != nil || !found || m.Recipients[0].Attempts != 1 || m.Recipients[0].State != "waiting" {
			t.Errorf("%+v, %v", m, err)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Mail that is not loaded is read again when it is due. A message whose file is gone by
// then is dropped, and the others are delivered.
func TestMailBeyondTheLimitComesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withLimit(t)
		deliver := func(*daemon.Loop) { // in the loop, which gives the agents their job lines
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.ReportAll(job, ta.OK2, "delivered") }
		}
		if err := h.Daemon.Ask(t.Context(), deliver); err != nil {
			t.Fatal(err)
		}
		h.Spool.Mu.Lock()
		delete(h.Spool.Files, "3")
		h.Spool.Mu.Unlock()
		h.pass(48 * time.Hour)
		totals, err := h.queue().Totals(t.Context())
		if err != nil || totals.Messages != 0 || h.Spool.Left() != 0 {
			t.Errorf("%+v, %d control files are left, %v", totals, h.Spool.Left(), err)
		}
		h.Stop(syscall.SIGTERM)
	})
}
