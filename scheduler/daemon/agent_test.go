package daemon_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/ta"
)

// A process that takes long to start holds nobody up.
func TestSlowStartDoesNotHoldUpTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		first := true
		h.Options.Agents.Start = func(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
			if first {
				first = false
				time.Sleep(time.Minute)
			}
			return h.Start(spec, sink)
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Announce(2, "b.example")
		time.Sleep(time.Second)
		synctest.Wait()
		if h.Started() != 1 || h.Spool.Left() != 0 {
			t.Errorf("%d control files are left after a second", h.Spool.Left())
		}
		time.Sleep(time.Minute)
		h.Stop(syscall.SIGTERM)
	})
}

func TestStartThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		failures := 2
		h.Options.Agents.Start = func(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("fork: resource temporarily unavailable")
			}
			return h.Start(spec, sink)
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it was not delivered")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// What an agent says beside the protocol is logged with its channel and pid.
func TestWhatAnAgentSaysIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			a.Say(
				child.Line{Kind: ta.Comment, Text: "# connecting"},
				child.Stderr("assertion missed"),
				child.Line{Kind: ta.Malformed, Text: "what\x01ever", Reason: "no slash"},
				child.Line{Kind: ta.Resync, Path: "none"},
			)
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		for _, want := range []string{"connecting", "assertion missed", `what\u0001ever`, `"none"`} {
			line := ""
			for l := range strings.Lines(h.Log.String()) {
				if strings.Contains(l, want) {
					line = l
				}
			}
			if !strings.Contains(line, `"channel":"smtp"`) || !strings.Contains(line, `"pid":1000`) {
				t.Errorf("%q is logged as %q", want, line)
			}
		}
		if h.Spool.Left() != 0 {
			t.Error("it was not delivered")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// An agent works for several hosts: the line names the file, and not the agent's first host.
func TestResyncIsLoggedWithoutAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			if job.Host == "b.example" {
				a.Say(child.Line{Kind: ta.Resync, Path: job.Path})
			}
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Announce(2, "b.example")
		synctest.Wait()
		found := false
		for line := range strings.Lines(h.Log.String()) {
			if strings.Contains(line, "nothing to do") {
				found = true
				if !strings.Contains(line, `"file":"2"`) || strings.Contains(line, "a.example") || !strings.Contains(line, `"pid":1000`) {
					t.Errorf("it is logged as %q", line)
				}
			}
		}
		if !found {
			t.Error("it is not logged")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// An agent that writes on and on does not fill the log: what is beyond a limit is counted.
func TestAgentThatFloodsTheLogIsNotLoggedWhole(t *testing.T) {
	for name, flood := range map[string]child.Event{
		"stderr":    child.Stderr(strings.Repeat("e", 8000)),
		"malformed": child.Line{Kind: ta.Malformed, Text: "junk", Reason: "no slash"},
		"comments":  child.Line{Kind: ta.Comment, Text: "# junk"},
		"reports":   child.Line{Kind: ta.Reported, Report: ta.Report{Message: 99, Offset: 1, Status: ta.OK2}},
		"resyncs":   child.Line{Kind: ta.Resync, Path: "99"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, nil)
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
				for range 200 {
					a.Say(slices.Repeat([]child.Event{flood}, 100)...)
				}
				time.Sleep(2 * time.Minute)
				a.Say(flood)
				a.ReportAll(job, ta.OK2, "delivered")
			}
			h.Run()
			h.Spool.Announce(1, "a.example")
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := len(h.Log.String()); n > 100_000 || h.Spool.Left() != 0 {
				t.Errorf("%s: %d bytes of log, %d control files left", name, n, h.Spool.Left())
			}
			if !strings.Contains(h.Log.String(), `"unlogged":`) {
				t.Errorf("%s: the log does not count what it lacks", name)
			}
			h.Stop(syscall.SIGTERM)
		})
	}
}

// Output that moves no job line is no sign of life.
func TestNoisyAgentThatMovesNothingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		first := true
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			if !first {
				a.ReportAll(job, ta.OK2, "delivered")
				return
			}
			first = false
			for range 3 * 60 {
				time.Sleep(time.Minute)
				a.Say(child.Stderr("still there"), child.Line{Kind: ta.Malformed, Text: "junk"})
			}
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if _, signals := h.Agent(0).Given(); !strings.HasPrefix(signals, "[terminated") || h.Spool.Left() != 0 {
			t.Errorf("the agent was sent %s, %d control files are left", signals, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}
