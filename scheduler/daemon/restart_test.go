package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
	"zsched/scheduler/state"
	"zsched/scheduler/view"
	"zsched/ta"
)

// queueText is what a query shows of the queue: the tries, the last report and
// the next time of each recipient, and the suspensions.
func queueText(t *testing.T, h *daemontest.Harness) string {
	t.Helper()
	var out strings.Builder
	err := h.Daemon.Ask(t.Context(), func(l *daemon.Loop) {
		w := l.Core().Walk(scheduler.Vertices)
		items, _ := w.Next(1000)
		for _, item := range items {
			if th := item.Thread; th != nil {
				fmt.Fprintf(&out, "%s until %s window %d\n", th.Host, clock(th.SuspendedUntil), th.Window)
			}
			if v := item.JobLine; v != nil {
				fmt.Fprintf(&out, "  %s %s until %s fed %s:", v.Path, v.State, clock(v.WakeAt), clock(v.FedAt))
				for _, r := range v.Recipients {
					fmt.Fprintf(&out, " %d tries %d %q", r.Offset, r.Attempts, r.Reason)
				}
				out.WriteString("\n")
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	threads := strings.SplitAfter(strings.ReplaceAll(out.String(), "\n  ", "\v  "), "\n")
	slices.Sort(threads) // they are in the order in which they were made
	return strings.ReplaceAll(strings.Join(threads, ""), "\v", "\n")
}

// clock is the time to the second, rounded up, as it is saved.
func clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Add(time.Second - 1).Truncate(time.Second).Format("15:04:05")
}

// deferring puts messages into the queue that are deferred, one of them by a host
// that is dead.
func deferring(t *testing.T) *daemontest.Harness {
	h := daemontest.New(t, nil)
	h.Options.State = filepath.Join(t.TempDir(), state.Name)
	h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
		if job.Host == "dead.example" {
			a.ReportAll(job, ta.DeferAll, "no route to host")
			return
		}
		a.ReportAll(job, ta.Deferred, "451 not yet, "+job.Host)
	}
	return h
}

// again is a daemon that finds the files of another in its queue.
func again(t *testing.T, before *daemontest.Harness) *daemontest.Harness {
	h := daemontest.New(t, nil)
	h.Options.State, h.Deliver = before.Options.State, before.Deliver
	before.Spool.Mu.Lock()
	defer before.Spool.Mu.Unlock()
	for path, f := range before.Spool.Files {
		h.Spool.Files[path] = f
	}
	return h
}

// sweep announces all files and says that the sweep has ended.
func sweep(h *daemontest.Harness, count int) {
	var names []spool.Name
	for id := 1; id <= count; id++ {
		names = append(names, spool.Name{Path: fmt.Sprint(id), ID: uint64(id)})
	}
	h.Spool.Names <- names
	synctest.Wait()
	h.Spool.Answer(spool.Swept{})
	synctest.Wait()
}

func TestRestartKeepsTriesAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		h.Run()
		h.Spool.Answer(spool.Swept{})
		h.Spool.Announce(1, "a.example", "b.example", "a.example")
		h.Spool.Announce(2, "dead.example")
		synctest.Wait()
		h.Spool.Announce(3, "dead.example")
		time.Sleep(5 * time.Minute)
		h.Spool.Announce(4, "b.example")
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		want := queueText(t, h)
		if !strings.Contains(want, "tries 4") || !strings.Contains(want, "dead.example until 0") {
			t.Errorf("nothing much to keep:\n%s", want)
		}
		h.Stop(syscall.SIGTERM)

		next := again(t, h)
		next.Run()
		sweep(next, 4)
		if got := queueText(t, next); got != want {
			t.Errorf("after the restart:\n%s\nbefore:\n%s", got, want)
		}
		if n := next.Started(); n != 0 {
			t.Errorf("%d agents were started early", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := queueText(t, next); !strings.Contains(got, "tries 9") {
			t.Errorf("an hour later:\n%s", got)
		}
		next.Stop(syscall.SIGTERM)
	})
}

// kill copies the file as a killed daemon leaves it.
func kill(t *testing.T, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), state.Name)
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestKillLosesAtMostOnePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		h.Options.SavePeriod = 10 * time.Second
		h.Run()
		h.Spool.Answer(spool.Swept{})
		h.Spool.Announce(1, "a.example")
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		saved := queueText(t, h)
		h.Spool.Announce(2, "b.example")
		synctest.Wait()
		next := again(t, h)
		next.Options.State = kill(t, h.Options.State)
		h.Stop(syscall.SIGTERM)

		next.Deliver = nil
		next.Run()
		sweep(next, 2)
		if got := queueText(t, next); got != saved {
			t.Errorf("after the restart:\n%s\nsaved was:\n%s", got, saved)
		}
		if got := strings.Count(next.Stats.String(), "ok2 smtp/b.example"); got != 1 {
			t.Errorf("the message without a line is not due: %s", next.Stats)
		}
		next.Stop(syscall.SIGTERM)
	})
}

// Files that are none of ours cost what they could say, and are replaced.
func TestForeignFilesAreReplaced(t *testing.T) {
	for name, text := range map[string]string{
		"foreign": "#!/bin/sh\nrm -rf /\n",
		"future":  "scheduler-state 99\nr 1 x\n",
		"empty":   "",
		"torn":    "scheduler-state 1\nr 1 100 ",
		"zeros":   string(make([]byte, 40000)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := deferring(t)
				if err := os.WriteFile(h.Options.State, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				h.Run()
				h.Spool.Put(1, "a.example")
				sweep(h, 1)
				want := queueText(t, h)
				if !strings.Contains(want, "tries 1") {
					t.Errorf("not tried at once:\n%s", want)
				}
				time.Sleep(2 * time.Minute)
				table, err := state.ReadFile(h.Options.State)
				if err != nil || table.Recipients() != 1 {
					t.Errorf("the file has %+v, %v", table, err)
				}
				h.Stop(syscall.SIGTERM)
			})
		})
	}
}

// A disk that is full costs knowledge, and is logged once.
func TestStateThatCannotBeSavedIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		dir := filepath.Dir(h.Options.State)
		h.Options.State = filepath.Join(dir, "missing", state.Name)
		h.Run()
		h.Spool.Answer(spool.Swept{})
		h.Spool.Announce(1, "a.example")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(h.Log.String(), "cannot be saved"); n != 1 {
			t.Errorf("logged %d times: %s", n, h.Log)
		}
		if err := os.Mkdir(filepath.Join(dir, "missing"), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(h.Log.String(), "saved again"); n != 1 {
			t.Errorf("saved again %d times: %s", n, h.Log)
		}
		want := queueText(t, h)
		h.Stop(syscall.SIGTERM)
		next := again(t, h)
		next.Run()
		sweep(next, 1)
		if got := queueText(t, next); got != want {
			t.Errorf("after the restart:\n%s\nbefore:\n%s", got, want)
		}
		next.Stop(syscall.SIGTERM)
	})
}

func TestStopThatSavesNothingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		h.Options.State = filepath.Join(filepath.Dir(h.Options.State), "missing", state.Name)
		h.Run()
		sweep(h, 1)
		h.Stop(syscall.SIGTERM)
		if !strings.Contains(h.Log.String(), "orders that waited for agents are lost") {
			t.Error(h.Log)
		}
	})
}

// What was saved of mail that is not loaded yet stays in the file over another
// restart.
func TestMailThatIsNotLoadedYetKeepsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		h.Run()
		h.Spool.Answer(spool.Swept{})
		h.Spool.Announce(1, "a.example")
		h.Spool.Announce(2, "b.example")
		synctest.Wait()
		want := queueText(t, h)
		h.Stop(syscall.SIGTERM)

		short := again(t, h)
		short.Run()
		short.Spool.Names <- []spool.Name{{Path: "2", ID: 2}}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		short.Stop(syscall.SIGTERM)

		next := again(t, short)
		next.Run()
		sweep(next, 2)
		if got := queueText(t, next); got != want {
			t.Errorf("after two restarts:\n%s\nbefore:\n%s", got, want)
		}
		next.Stop(syscall.SIGTERM)
	})
}

// What the file says is dropped when all mail of the start is loaded.
func TestSavedStateIsDroppedWhenAllMailIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := deferring(t)
		h.Run()
		h.Spool.Answer(spool.Swept{})
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Stop(syscall.SIGTERM)
		next := again(t, h)
		next.Run()
		synctest.Wait()
		knows := func() (knows bool) {
			if err := next.Daemon.Ask(t.Context(), func(l *daemon.Loop) { knows = l.KnowsSaved() }); err != nil {
				t.Fatal(err)
			}
			return knows
		}
		if !knows() {
			t.Error("it is not known at the start")
		}
		sweep(next, 1)
		if knows() {
			t.Error("it is still known")
		}
		next.Stop(syscall.SIGTERM)
	})
}

// An order that waits for an agent at the stop is carried out after the start, before the mail
// is fed, also if the agent has the file locked over that start and the next one.
func TestRestartKeepsOrdersThatWait(t *testing.T) {
	for _, lockedStarts := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, nil)
			h.Options.State = filepath.Join(t.TempDir(), state.Name)
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { time.Sleep(time.Hour) }
			h.Run()
			h.Spool.Announce(1, "a.example")
			sweep(h, 1)
			_ = h.Daemon.Ask(t.Context(), func(l *daemon.Loop) {
				l.Order(scheduler.Ordered{Verb: view.VerbKill, Targets: []scheduler.Target{{Message: 1}}})
			})
			h.Stop(syscall.SIGTERM)
			if h.Spool.Left() != 1 {
				t.Fatalf("%d messages are left", h.Spool.Left())
			}
			for start := range max(1, lockedStarts) {
				h = again(t, h)
				h.Spool.Busy = lockedStarts > 0
				h.Run()
				sweep(h, 1)
				if start < lockedStarts-1 {
					time.Sleep(2 * time.Minute) // the state is saved
					h.Stop(syscall.SIGTERM)
				}
			}
			h.Spool.Mu.Lock()
			h.Spool.Busy = false
			h.Spool.Mu.Unlock()
			sweep(h, 1)
			if h.Spool.Left() != 0 || h.Started() != 0 {
				t.Errorf("locked at %d starts: %d messages are left, %d agents were started", lockedStarts, h.Spool.Left(), h.Started())
			}
			h.Stop(syscall.SIGTERM)
			time.Sleep(2 * time.Hour) // the first agent ends
		})
	}
}
