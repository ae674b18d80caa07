package daemon_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/ta"
)

// A fast stop lets open job lines end, but not for long. An agent that does not
// mind SIGTERM may finish its message by itself.
func TestFastStopLeavesAnAgentItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		hang := make(chan struct{})
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.Deafen(); <-hang }
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		began := h.Since()
		h.Signals <- syscall.SIGTERM
		<-h.Ended
		if took := h.Since() - began; took < 5*time.Second || took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if lines, signals := h.Agent(0).Given(); lines != "" || signals != "[terminated]" {
			t.Errorf("the agent was sent %q and %s", lines, signals)
		}
		h.Agent(0).Signal(syscall.SIGKILL)
		close(hang)
		if h.Spool.Left() != 1 {
			t.Error("the message is gone")
		}
	})
}

// The agent has no handler: any signal would cost the messages it was given.
func TestSlowStopWaitsForOpenJobLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			time.Sleep(time.Minute)
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGQUIT
		synctest.Wait()
		if lines, signals := h.Agent(0).Given(); lines != "" || signals != "[]" {
			t.Errorf("the agent was sent %q and %s", lines, signals)
		}
		<-h.Ended
		if _, signals := h.Agent(0).Given(); signals != "[]" {
			t.Errorf("the agent was sent %s", signals)
		}
		if took := h.Since(); took < time.Minute || took > 61*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if h.Spool.Left() != 0 {
			t.Error("the message was not finished")
		}
	})
}

// An agent that has nothing and does not leave would stay for ever.
func TestNoAgentWithoutAMessageOutlivesAStop(t *testing.T) {
	for sig, most := range map[os.Signal]time.Duration{syscall.SIGTERM: 6 * time.Second, syscall.SIGQUIT: 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, nil)
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
				a.ReportAll(job, ta.OK2, "delivered")
				a.Deafen()
			}
			h.Run()
			h.Spool.Announce(1, "a.example")
			synctest.Wait()
			began := h.Since()
			h.Signals <- sig
			<-h.Ended
			if _, signals := h.Agent(0).Given(); signals != "[terminated killed]" {
				t.Errorf("%v: the agent was sent %s", sig, signals)
			}
			if took := h.Since() - began; took > most {
				t.Errorf("%v: the stop took %v", sig, took)
			}
		})
	}
}

func TestSecondSignalHastensASlowStop(t *testing.T) {
	for _, second := range []os.Signal{syscall.SIGQUIT, syscall.SIGTERM} {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, nil)
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.Deafen() }
			h.Run()
			h.Spool.Announce(1, "a.example")
			synctest.Wait()
			h.Signals <- syscall.SIGQUIT
			time.Sleep(time.Minute)
			began := h.Since()
			h.Stop(second)
			if took := h.Since() - began; took > 10*time.Second {
				t.Errorf("%v: the stop took another %v", second, took)
			}
		})
	}
}

// During a stop nothing is taken any more.
func TestStopTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.Deafen() }
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGTERM
		synctest.Wait()
		select {
		case h.Spool.Names <- []spool.Name{h.Spool.Put(2, "b.example")}:
			t.Error("a name was received")
		case <-h.Ended:
		}
	})
}

// With -S no agent starts before the whole queue is loaded.
func TestSynchronousStartupLoadsEverythingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Synchronous = true
		h.Run()
		h.Spool.Announce(1, "a.example")
		h.Spool.Announce(2, "b.example", "c.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Started() != 0 {
			t.Error("an agent was started")
		}
		h.Spool.Answer(spool.Swept{})
		time.Sleep(time.Second)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("nothing was delivered after it")
		}
		if want := "Synchronous startup completed, messages: 2 recipients: 3"; !strings.Contains(h.Log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, h.Log)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// With -W the verbose log begins after the startup scan.
func TestVerboseLogCanWaitForTheStartupScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.VerboseLater = true
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Answer(spool.Swept{})
		synctest.Wait()
		if strings.Contains(h.Log.String(), "Arrived") {
			t.Errorf("it began too early:\n%s", h.Log)
		}
		h.Spool.Announce(2, "a.example")
		synctest.Wait()
		for _, want := range []string{`"event":"Arrived"`, `"action":"Feed"`, `"event":"AgentReported"`, `"action":"Finish"`} {
			if !strings.Contains(h.Log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, h.Log)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestReloadChangesWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		good := daemontest.OneClause(nil)
		h.Options.Config = daemontest.OneClause(func(p *rule.Params) { p.Command = nil })
		var bad error = errors.New("scheduler.cf:3:1: no such keyword")
		h.Options.Reload = func() (*rule.Config, error) {
			time.Sleep(time.Second) // a name server is asked for a user, say
			return good, bad
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGUSR1
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Started() != 0 || !strings.Contains(h.Log.String(), "scheduler.cf:3:1") {
			t.Errorf("after a bad file %d agents run, and the log is:\n%s", h.Started(), h.Log)
		}
		reload := func() (r daemon.Reload) {
			_ = h.Daemon.Ask(t.Context(), func(l *daemon.Loop) { r = l.Status().Reload })
			return r
		}
		if r := reload(); r.At.IsZero() || r.Error != bad.Error() {
			t.Errorf("after a bad file the last reload is %+v", r)
		}
		bad = nil
		h.Signals <- syscall.SIGUSR1
		h.Signals <- syscall.SIGUSR1 // while the first is under way
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("after a good file nothing is delivered")
		}
		if r := reload(); r.At.IsZero() || r.Error != "" {
			t.Errorf("after a good file the last reload is %+v", r)
		}
		if n := strings.Count(h.Log.String(), "configuration read again"); n != 2 {
			t.Errorf("read again %d times", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestSignalsReopenSweepAndDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		reopened := 0
		h.Options.Reopen = func() { reopened++ }
		h.Run()
		h.Signals <- syscall.SIGHUP
		h.Signals <- syscall.SIGALRM
		h.Signals <- syscall.SIGUSR1
		h.Signals <- syscall.SIGUSR2
		synctest.Wait()
		if reopened != 1 || h.Spool.Sweeps != 2 || !strings.Contains(h.Log.String(), `"Messages":0`) {
			t.Errorf("reopened %d times, swept %d times, log:\n%s", reopened, h.Spool.Sweeps, h.Log)
		}
		h.Stop(syscall.SIGTERM)
	})
}
