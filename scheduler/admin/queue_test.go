package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// deferAll is an agent that nobody takes mail from.
func deferAll(a *daemontest.FakeAgent, job ta.JobLine) { a.ReportAll(job, ta.Deferred, "451 busy") }

func TestQueueShowsWhatTheCoreHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = deferAll
		h.Run()
		q, ctx := h.queue(), t.Context()
		h.Spool.Announce(1, "a.example", "b.example")
		synctest.Wait()
		h.Spool.Announce(2, "a.example")
		synctest.Wait()

		totals, err := q.Totals(ctx)
		if err != nil || totals.Messages != 2 || totals.JobLines != 3 || totals.Threads != 2 || totals.RecipientsIn != 3 || !totals.StartedAt.Equal(h.Began) {
			t.Errorf("totals are %+v, %v", totals, err)
		}
		rings, rows := 0, []string{}
		for r, err := range q.Rings(ctx) {
			if err != nil || r.Channel != "smtp" || r.Threads != 2 || r.JobLines != 3 {
				t.Errorf("ring is %+v, %v", r, err)
			}
			rings++
		}
		for item, err := range q.Threads(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if t := item.Thread; t != nil {
				rows = append(rows, fmt.Sprint(t.Host, " ", t.JobLines, " ", t.Reason))
			}
		}
		if got := strings.Join(rows, ", "); rings != 1 || got != "a.example 2 451 busy, b.example 1 451 busy" {
			t.Errorf("%d rings, rows are %s", rings, got)
		}
		thread, err := q.Thread(ctx, mailq.Name{Channel: "smtp", Host: "b.example"})
		if err != nil || thread == nil || thread.Recipients != 1 || thread.WakeAt.IsZero() {
			t.Errorf("thread is %+v, %v", thread, err)
		}
		if thread, err := q.Thread(ctx, mailq.Name{Channel: "smtp", Host: "none.example"}); thread != nil || err != nil {
			t.Errorf("a thread without mail: %v, %v", thread, err)
		}
		jobs := []string{}
		for job, err := range q.Jobs(ctx, mailq.Name{Channel: "smtp", Host: "a.example"}) {
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, fmt.Sprint(job.Message, " ", job.State, " ", job.Recipients[0].Attempts, " ", job.Recipients[0].Reason))
		}
		if got := strings.Join(jobs, ", "); got != "1 waiting 1 451 busy, 2 waiting 1 451 busy" {
			t.Errorf("jobs are %s", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A job of many recipients comes in one piece, however the core gives it.
func TestLargeJobIsShownWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		hosts := make([]string, 5000)
		for i := range hosts {
			hosts[i] = "a.example"
		}
		h.Spool.Announce(1, hosts...)
		synctest.Wait()
		h.Spool.Announce(2, "a.example")
		synctest.Wait()
		var sizes []int
		for job, err := range h.queue().Jobs(t.Context(), mailq.Name{}) {
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(job.Recipients))
		}
		if fmt.Sprint(sizes) != "[5000 1]" {
			t.Errorf("jobs have %v recipients", sizes)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A list ends when its context is done.
func TestListThatIsBrokenOffEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		const jobs = 1000
		for i := range jobs {
			h.Spool.Announce(uint64(i+1), fmt.Sprintf("h%d.example", i))
		}
		synctest.Wait()

		begin := func(s *scheduler.Scheduler) *scheduler.Walk { return s.Walk(scheduler.Vertices) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range daemon.Walk(ctx, h.Daemon, begin) {
			if n++; n == 1 {
				cancel()
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if n >= jobs {
			t.Errorf("%d items after the context was done", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestMessageIsItsFileAndWhatTheCoreKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			if job.Host == "a.example" {
				a.ReportAll(job, ta.OK2, "delivered")
			} else {
				deferAll(a, job)
			}
		}
		h.Run()
		q, ctx := h.queue(), t.Context()
		h.Spool.Announce(7, "a.example", "b.example")
		synctest.Wait()
		id := ctlfile.SpoolID(7, h.Spool.Files["7"].Loaded.ModifiedAt)
		for _, name := range []string{"7", id} {
			m, found, err := q.Message(ctx, name)
			if err != nil || !found || m.SpoolID != id || m.Sender != "rayan" || m.MessageID != "<m7@here>" || m.Held {
				t.Fatalf("%s is %+v, %v, %v", name, m, found, err)
			}
			got := fmt.Sprint(m.Recipients[0].State, " ", m.Recipients[1].State, " ", m.Recipients[1].Attempts, " ", m.Recipients[1].Reason)
			if got != "delivered waiting 1 451 busy" {
				t.Errorf("recipients are %s", got)
			}
		}
		for _, name := range []string{"8", id + "x", "rubbish", ""} {
			if m, found, err := q.Message(ctx, name); found || err != nil {
				t.Errorf("%q is %+v, %v", name, m, err)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestExplanationSaysWhatMailWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = deferAll
		h.Run()
		q, ctx := h.queue(), t.Context()
		x, err := q.Explain(ctx, mailq.Name{Channel: "SMTP", Host: "A.example"})
		if err != nil || x.Thread != nil || len(x.Clauses) != 1 || x.Clauses[0].Pattern != "smtp/*" {
			t.Errorf("%+v, %v", x, err)
		}
		h.act("HOLD THREAD smtp c.example")
		if x, err := q.Explain(ctx, mailq.Name{Channel: "smtp", Host: "c.example"}); err != nil || x.Hold == nil || x.Hold.By == "" {
			t.Errorf("%+v, %v", x, err)
		}
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		x, err = q.Explain(ctx, mailq.Name{Channel: "SMTP", Host: "A.example"})
		if err != nil || x.Thread == nil || x.Wait != "retry" || x.Until.IsZero() || x.Thread.States["waiting"] != 1 {
			t.Errorf("%+v, %v", x, err)
		}
		got := fmt.Sprint(x.Settings)
		if want := "[{command agent  0}]"; got != want {
			t.Errorf("settings are %s, want %s", got, want)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestCountersAreWhatTheSchedulerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = deferAll
		h.options.ControlDir = t.TempDir()
		h.Run()
		h.Spool.Announce(1, "a.example", "b.example")
		synctest.Wait()
		all, err := h.queue().Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"SC.ReceivedMessages": 1, "SC.ReceivedRecipients": 2, "SC.StoredMessages-G": 1, "SC.StoredThreads-G": 2,
			"SC.StoredVertices-G": 2, "SC.TransportAgentForks": 2, "SYS.SchedulerMasterPID": float64(os.Getpid()),
			"SYS.SchedulerMasterStartTime": float64(h.Began.Unix()),
		} {
			if all[name] != want {
				t.Errorf("%s is %v, want %v", name, all[name], want)
			}
		}
		if all["SYS.TportSpoolFreeSpace-kB-G"] == 0 || all["SYS.TportSpoolUsedFiles-G"] == 0 {
			t.Errorf("no space: %v", all)
		}
		if _, ok := all["SYS.Load-Avg-1-min-G"]; !ok {
			t.Error("no load")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// [BUG] of old: the host was compared as it was said.
func TestTriggerMindsNoCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		q, ctx := h.queue(), t.Context()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		if started, err := q.Trigger(ctx, "b.example", ""); started || err != nil {
			t.Errorf("a host without mail: %v, %v", started, err)
		}
		if started, err := q.Trigger(ctx, "A.Example", ""); !started || err != nil {
			t.Errorf("a host with mail: %v, %v", started, err)
		}
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it was not delivered")
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestRendezvousFileIsWrittenAtSIGUSR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = deferAll
		h.options.Rendezvous = filepath.Join(t.TempDir(), "mailq.text")
		h.options.Settings = server.Settings{Version: 2}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGUSR2
		synctest.Wait()
		text, err := os.ReadFile(h.options.Rendezvous)
		if err != nil || !strings.HasPrefix(string(text), "version zmailer 1.0\nVertices:\n1:\t1\t1; 100\t#451 busy (retry in ") {
			t.Errorf("%v:\n%s", err, text)
		}
		h.Stop(syscall.SIGTERM)
	})
}
