package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"zsched/ta"
	"zsched/ta/child"
)

func TestFreshMessageIsDeliveredAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		h.Spool.Bring(258367, "funet.fi", "utu.fi", "funet.fi")
		synctest.Wait()
		if n := h.Spool.Left(); n != 0 {
			t.Errorf("%d control files are left", n)
		}
		if took := h.Since(); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := strings.Count(h.Stats.String(), " ok2 smtp/"); got != 3 {
			t.Errorf("statistics are %q", h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Three days pass in no time: a host that never takes its mail.
func TestUndeliverableMessageExpiresAfterThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		tries := 0
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			tries++
			a.ReportAll(job, ta.Deferred, "no route to host")
		}
		h.Run()
		h.Spool.Bring(1, "nowhere.example")
		time.Sleep(72*time.Hour - time.Second)
		synctest.Wait()
		if h.Spool.Left() != 1 {
			t.Error("it is gone too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it has not expired")
		}
		if !strings.HasSuffix(h.Stats.String(), fmt.Sprintf(" %d expire smtp/nowhere.example\n", 72*60*60)) {
			t.Errorf("statistics are %q", h.Stats)
		}
		if tries < 100 {
			t.Errorf("only %d attempts", tries)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The inode of a message is reused at once: its name is found while the old
// message is still being removed.
func TestReusedNumberIsTakenWhenItsMessageHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Slow = time.Second
		h.Spool.Finished = func() {
			h.Spool.Finished = func() {}
			h.Spool.Put(7, "b.example")
		}
		h.Run()
		h.Spool.Bring(7, "a.example")
		synctest.Wait() // delivered, being removed
		h.Spool.Names <- []spool.Name{{Path: "7", ID: 7}}
		synctest.Wait()
		if got := h.Spool.Takes(); got != 1 {
			t.Errorf("taken %d times while it was leaving", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := strings.Count(h.Stats.String(), "\n"); got != 2 || h.Spool.Left() != 0 {
			t.Errorf("%d recipients delivered, %d control files left", got, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestNamesWaitWhileManyAreBeingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *scheduler.Params) { p.MaxThr = 10 })
		h.Run()
		const total = 20 * daemon.MaxTaking
		for first := 0; first < total; first += 256 {
			var names []spool.Name
			for i := range 256 {
				names = append(names, h.Spool.Put(uint64(first+i+1), fmt.Sprintf("host%d.example", i)))
			}
			h.Spool.Names <- names
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Errorf("%d control files are left", h.Spool.Left())
		}
		if h.Spool.MaxTaking > daemon.MaxTaking+255 {
			t.Errorf("%d names were being taken at once", h.Spool.MaxTaking)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestKnownNameIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) { a.ReportAll(job, ta.Deferred, "later") }
		h.Run()
		h.Spool.Bring(5, "a.example")
		h.Spool.Names <- []spool.Name{{Path: "5", ID: 5}, {Path: "5", ID: 5}}
		synctest.Wait()
		h.Spool.Names <- []spool.Name{{Path: "5", ID: 5}}
		synctest.Wait()
		if got := h.Spool.Takes(); got != 1 {
			t.Errorf("taken %d times", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A fast stop lets open job lines end, but not for long. An agent that does not
// mind SIGTERM may finish its message by itself.
func TestFastStopLeavesAnAgentItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		hang := make(chan struct{})
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) { a.Deafen(); <-hang }
		h.Run()
		h.Spool.Bring(1, "a.example")
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
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			time.Sleep(time.Minute)
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Bring(1, "a.example")
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
			h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
				a.ReportAll(job, ta.OK2, "delivered")
				a.Deafen()
			}
			h.Run()
			h.Spool.Bring(1, "a.example")
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
			h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) { a.Deafen() }
			h.Run()
			h.Spool.Bring(1, "a.example")
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
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) { a.Deafen() }
		h.Run()
		h.Spool.Bring(1, "a.example")
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

// A spool that cannot be written stops the feeding; it is probed, and when it
// is back everything goes on.
func TestFullSpoolIsProbedUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", spool.ErrSpoolDown))
		h.Run()
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Spool.Bring(2, "b.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := strings.Count(h.Stats.String(), "\n"); n != 1 {
			t.Errorf("%d recipients were delivered", n)
		}
		h.Spool.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 || h.Spool.Probes < 10 {
			t.Errorf("%d control files are left after %d probes", h.Spool.Left(), h.Spool.Probes)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A fault of one file is that file's alone.
func TestFileThatCannotBeWrittenHindersNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", syscall.EACCES))
		h.Run()
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Spool.Bring(2, "b.example")
		synctest.Wait()
		if n := strings.Count(h.Stats.String(), "\n"); n != 2 {
			t.Errorf("%d recipients were delivered", n)
		}
		h.Spool.Fail(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Errorf("%d control files are left", h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// When the file knows of a recipient that the core does not, what the file
// says is found again.
func TestMessageThatIsNotDoneAfterAllIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", spool.ErrOpen))
		h.Run()
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		if h.Spool.Sweeps != 1 {
			t.Error("no sweep was asked for")
		}
		h.Spool.Fail(nil)
		h.Spool.Bring(1, "b.example")
		synctest.Wait()
		if h.Spool.Left() != 0 || h.Spool.Takes() != 2 {
			t.Errorf("%d control files are left, taken %d times", h.Spool.Left(), h.Spool.Takes())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// What is refused again and again is told of at doubling distances.
func TestRefusalIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		for tries := range 100 {
			h.Spool.Answer(spool.Refused{Name: spool.Name{Path: "1", ID: 1}, Why: spool.Busy, Reason: "locked", Tries: tries + 1})
		}
		synctest.Wait()
		if n := strings.Count(h.Log.String(), "locked"); n != 7 {
			t.Errorf("logged %d times", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// With -S no agent starts before the whole queue is loaded.
func TestSynchronousStartupLoadsEverythingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Synchronous = true
		h.Run()
		h.Spool.Bring(1, "a.example")
		h.Spool.Bring(2, "b.example", "c.example")
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
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Spool.Answer(spool.Swept{})
		synctest.Wait()
		if strings.Contains(h.Log.String(), "Arrived") {
			t.Errorf("it began too early:\n%s", h.Log)
		}
		h.Spool.Bring(2, "a.example")
		synctest.Wait()
		for _, want := range []string{`"event":"Arrived"`, `"action":"Feed"`, `"event":"AgentReported"`, `"action":"Finish"`} {
			if !strings.Contains(h.Log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, h.Log)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// With -p what is finished stays, and is not taken again.
func TestKeptMessageStaysAndIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Keep = true
		h.Run()
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Spool.Names <- []spool.Name{{Path: "1", ID: 1}}
		synctest.Wait()
		if h.Spool.Left() != 1 || h.Spool.Takes() != 1 || strings.Count(h.Stats.String(), "\n") != 1 {
			t.Errorf("%d control files left, taken %d times, statistics %q", h.Spool.Left(), h.Spool.Takes(), h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestOperandsAreAllThatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			if job.Host == "dead.example" {
				a.ReportAll(job, ta.Deferred, "later")
			} else {
				time.Sleep(time.Minute)
				a.ReportAll(job, ta.OK2, "delivered")
			}
		}
		h.Options.Files = []spool.Name{h.Spool.Put(1, "a.example"), h.Spool.Put(2, "dead.example"), {Path: "9", ID: 9}}
		h.Spool.Put(3, "b.example")
		h.Run()
		<-h.Ended
		if h.Spool.Left() != 2 || h.Spool.Takes() != 2 {
			t.Errorf("%d control files left, %d taken", h.Spool.Left(), h.Spool.Takes())
		}
		if h.Since() > 2*time.Minute {
			t.Errorf("it took %v", h.Since())
		}
	})
}

func TestReloadChangesWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		good := daemontest.OneClause(nil)
		h.Options.Config = daemontest.OneClause(func(p *scheduler.Params) { p.Command = nil })
		var bad error = errors.New("scheduler.cf:3:1: no such keyword")
		h.Options.Reload = func() (*scheduler.Config, error) {
			time.Sleep(time.Second) // a name server is asked for a user, say
			return good, bad
		}
		h.Run()
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGUSR1
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Started() != 0 || !strings.Contains(h.Log.String(), "scheduler.cf:3:1") {
			t.Errorf("after a bad file %d agents run, and the log is:\n%s", h.Started(), h.Log)
		}
		bad = nil
		h.Signals <- syscall.SIGUSR1
		h.Signals <- syscall.SIGUSR1 // while the first is under way
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("after a good file nothing is delivered")
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
		h.Signals <- syscall.SIGUSR2
		synctest.Wait()
		if reopened != 1 || h.Spool.Sweeps != 1 || !strings.Contains(h.Log.String(), `"Messages":0`) {
			t.Errorf("reopened %d times, swept %d times, log:\n%s", reopened, h.Spool.Sweeps, h.Log)
		}
		h.Stop(syscall.SIGTERM)
	})
}

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
		h.Spool.Bring(1, "a.example")
		synctest.Wait()
		h.Spool.Bring(2, "b.example")
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
		h.Spool.Bring(1, "a.example")
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
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			a.Say(
				child.Line{Kind: ta.Comment, Text: "# connecting"},
				child.Stderr("assertion missed"),
				child.Line{Kind: ta.Malformed, Text: "what\x01ever", Reason: "no slash"},
				child.Line{Kind: ta.Resync, Path: "none"},
			)
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Bring(1, "a.example")
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

// However much the spool has to say at once, a turn deals with a piece of it.
func TestManyResultsAreDealtWithInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *scheduler.Params) { p.QueueOnly = true })
		d := daemon.New(h.Options)
		var all []spool.Result
		for i := range 3*daemon.MaxBatch + 1 {
			name := h.Spool.Put(uint64(i+1), "a.example")
			all = append(all, h.Spool.Files[name.Path].Taken)
		}
		h.Spool.Answers <- all
		for turn := 1; turn <= 4; turn++ {
			d.Turn()
			if want := min(turn*daemon.MaxBatch, len(all)); d.Taken() != want {
				t.Errorf("after turn %d %d messages have arrived, want %d", turn, d.Taken(), want)
			}
		}
	})
}

// ETRN: a file in the spool asks for the mail of a host.
func TestTriggerStartsAThreadThatOnlyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *scheduler.Params) { p.QueueOnly = true })
		h.Run()
		h.Spool.Bring(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Spool.Left() != 1 {
			t.Error("it went out unasked")
		}
		h.Spool.Answer(spool.Triggered{Name: spool.Name{Path: "2-etrn", ID: 2}, Host: "a.example", Text: "a.example 192.0.2.1"})
		time.Sleep(time.Second)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it was not delivered")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A sender who asked for it can follow a message's way in a file.
func TestVerboseLogOfAMessageIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		name := h.Spool.Put(1, "a.example")
		h.Spool.Files["1"].Taken.Verbose = "../public/v_1"
		h.Spool.Names <- []spool.Name{name}
		synctest.Wait()
		if len(h.Spool.Lines) != 3 {
			t.Errorf("lines are %q", h.Spool.Lines)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// That agents do without their limit is said, and not of each of them.
func TestAgentsWithoutALimitAreToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			a.Say(child.Unlimited("operation not permitted"))
			a.ReportAll(job, ta.OK2, "delivered")
		}
		h.Run()
		h.Spool.Bring(1, "a.example")
		h.Spool.Bring(2, "b.example")
		synctest.Wait()
		if n := strings.Count(h.Log.String(), "operation not permitted"); n != 1 || h.Spool.Left() != 0 {
			t.Errorf("%d control files are left, and the log says %q", h.Spool.Left(), h.Log)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// lines returns the log as JSON objects.
func lines(t *testing.T, log *daemontest.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, fields)
	}
	return all
}

// With -v and at SIGUSR2 values are JSON too, so that jq can select by them.
func TestVerboseLogIsJSONThroughout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Verbose = true
		h.Run()
		h.Spool.Bring(7, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGUSR2
		synctest.Wait()
		h.Stop(syscall.SIGTERM)
		found := make(map[string]bool)
		for _, line := range lines(t, h.Log) {
			detail, _ := line["detail"].(map[string]any)
			if message, ok := detail["Message"].(map[string]any); ok && line["event"] == "Arrived" {
				found["arrived"] = message["ID"] == 7.0
			}
			if counts, ok := line["counts"].(map[string]any); ok {
				found["state"] = counts["MessagesIn"] == 1.0
			}
		}
		if !found["arrived"] || !found["state"] {
			t.Errorf("found only %v in:\n%s", found, h.Log)
		}
	})
}

// An agent that writes on and on does not fill the log: what is beyond a limit
// is counted, and if it does not stop, it is ended.
func TestAgentThatFloodsTheLogIsEnded(t *testing.T) {
	for name, flood := range map[string]child.Event{
		"stderr":    child.Stderr(strings.Repeat("e", 8000)),
		"malformed": child.Line{Kind: ta.Malformed, Text: "junk", Reason: "no slash"},
		"comments":  child.Line{Kind: ta.Comment, Text: "# junk"},
		"hungry":    child.Line{Kind: ta.Hungry},
		"reports":   child.Line{Kind: ta.Reported, Report: ta.Report{Message: 99, Offset: 1, Status: ta.OK2}},
		"resyncs":   child.Line{Kind: ta.Resync, Path: "99"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, nil)
			first := true
			h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
				if !first {
					a.ReportAll(job, ta.OK2, "delivered")
					return
				}
				first = false
				for range 200 {
					a.Say(slices.Repeat([]child.Event{flood}, 100)...)
				}
			}
			h.Run()
			h.Spool.Bring(1, "a.example")
			time.Sleep(time.Hour)
			synctest.Wait()
			if _, signals := h.Agent(0).Given(); signals != "[terminated]" {
				t.Errorf("%s: the agent was sent %s", name, signals)
			}
			if n := len(h.Log.String()); n > 100_000 || h.Spool.Left() != 0 {
				t.Errorf("%s: %d bytes of log, %d control files left", name, n, h.Spool.Left())
			}
			if !strings.Contains(h.Log.String(), "lines of the agent were not logged") {
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
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
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
		h.Spool.Bring(1, "a.example")
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if _, signals := h.Agent(0).Given(); !strings.HasPrefix(signals, "[terminated") || h.Spool.Left() != 0 {
			t.Errorf("the agent was sent %s, %d control files are left", signals, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}
