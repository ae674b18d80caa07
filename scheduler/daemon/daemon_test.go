package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/ta"
	"zsched/ta/child"
)

func TestFreshMessageIsDeliveredAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run()
		w.spool.bring(258367, "funet.fi", "utu.fi", "funet.fi")
		synctest.Wait()
		if n := w.spool.left(); n != 0 {
			t.Errorf("%d control files are left", n)
		}
		if took := w.since(); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := strings.Count(w.stats.String(), " ok2 smtp/"); got != 3 {
			t.Errorf("statistics are %q", w.stats)
		}
		w.stop(syscall.SIGTERM)
	})
}

// Three days pass in no time: a host that never takes its mail.
func TestUndeliverableMessageExpiresAfterThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		tries := 0
		w.play = func(p *puppet, job ta.Job) {
			tries++
			p.reportAll(job, ta.Deferred, "no route to host")
		}
		w.run()
		w.spool.bring(1, "nowhere.example")
		time.Sleep(72*time.Hour - time.Second)
		synctest.Wait()
		if w.spool.left() != 1 {
			t.Error("it is gone too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Error("it has not expired")
		}
		if !strings.HasSuffix(w.stats.String(), fmt.Sprintf(" %d expire smtp/nowhere.example\n", 72*60*60)) {
			t.Errorf("statistics are %q", w.stats)
		}
		if tries < 100 {
			t.Errorf("only %d attempts", tries)
		}
		w.stop(syscall.SIGTERM)
	})
}

// The inode of a message is reused at once: its name is found while the old
// message is still being removed.
func TestReusedNumberIsTakenWhenItsMessageHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.spool.slow = time.Second
		w.spool.removed = func() {
			w.spool.removed = func() {}
			w.spool.put(7, "b.example")
		}
		w.run()
		w.spool.bring(7, "a.example")
		synctest.Wait() // delivered, being removed
		w.spool.found <- []spool.Name{{Path: "7", ID: 7}}
		synctest.Wait()
		if got := w.spool.takes(); got != 1 {
			t.Errorf("taken %d times while it was leaving", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := strings.Count(w.stats.String(), "\n"); got != 2 || w.spool.left() != 0 {
			t.Errorf("%d recipients delivered, %d control files left", got, w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestNamesWaitWhileManyAreBeingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.MaxThr = 10 })
		w.run()
		const total = 20 * takingLimit
		for first := 0; first < total; first += 256 {
			var names []spool.Name
			for i := range 256 {
				names = append(names, w.spool.put(uint64(first+i+1), fmt.Sprintf("host%d.example", i)))
			}
			w.spool.found <- names
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Errorf("%d control files are left", w.spool.left())
		}
		if w.spool.most > takingLimit+255 {
			t.Errorf("%d names were being taken at once", w.spool.most)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestKnownNameIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) { p.reportAll(job, ta.Deferred, "later") }
		w.run()
		w.spool.bring(5, "a.example")
		w.spool.found <- []spool.Name{{Path: "5", ID: 5}, {Path: "5", ID: 5}}
		synctest.Wait()
		w.spool.found <- []spool.Name{{Path: "5", ID: 5}}
		synctest.Wait()
		if got := w.spool.takes(); got != 1 {
			t.Errorf("taken %d times", got)
		}
		w.stop(syscall.SIGTERM)
	})
}

// A fast stop lets open job lines end, but not for long. An agent that does not
// mind SIGTERM may finish its message by itself.
func TestFastStopLeavesAnAgentItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		hang := make(chan struct{})
		w.play = func(p *puppet, job ta.Job) { p.deafen(); <-hang }
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		began := w.since()
		w.signals <- syscall.SIGTERM
		<-w.ended
		if took := w.since() - began; took < 5*time.Second || took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if lines, signals := w.agent(0).given(); lines != "" || signals != "[terminated]" {
			t.Errorf("the agent was sent %q and %s", lines, signals)
		}
		w.agent(0).Signal(syscall.SIGKILL)
		close(hang)
		if w.spool.left() != 1 {
			t.Error("the message is gone")
		}
	})
}

// The agent has no handler: any signal would cost the messages it was given.
func TestSlowStopWaitsForOpenJobLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			time.Sleep(time.Minute)
			p.reportAll(job, ta.OK2, "delivered")
		}
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.signals <- syscall.SIGQUIT
		synctest.Wait()
		if lines, signals := w.agent(0).given(); lines != "" || signals != "[]" {
			t.Errorf("the agent was sent %q and %s", lines, signals)
		}
		<-w.ended
		if _, signals := w.agent(0).given(); signals != "[]" {
			t.Errorf("the agent was sent %s", signals)
		}
		if took := w.since(); took < time.Minute || took > 61*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if w.spool.left() != 0 {
			t.Error("the message was not finished")
		}
	})
}

// An agent that has nothing and does not leave would stay for ever.
func TestNoAgentWithoutAMessageOutlivesAStop(t *testing.T) {
	for sig, most := range map[os.Signal]time.Duration{syscall.SIGTERM: 6 * time.Second, syscall.SIGQUIT: 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.play = func(p *puppet, job ta.Job) {
				p.reportAll(job, ta.OK2, "delivered")
				p.deafen()
			}
			w.run()
			w.spool.bring(1, "a.example")
			synctest.Wait()
			began := w.since()
			w.signals <- sig
			<-w.ended
			if _, signals := w.agent(0).given(); signals != "[terminated killed]" {
				t.Errorf("%v: the agent was sent %s", sig, signals)
			}
			if took := w.since() - began; took > most {
				t.Errorf("%v: the stop took %v", sig, took)
			}
		})
	}
}

func TestSecondSignalHastensASlowStop(t *testing.T) {
	for _, second := range []os.Signal{syscall.SIGQUIT, syscall.SIGTERM} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.play = func(p *puppet, job ta.Job) { p.deafen() }
			w.run()
			w.spool.bring(1, "a.example")
			synctest.Wait()
			w.signals <- syscall.SIGQUIT
			time.Sleep(time.Minute)
			began := w.since()
			w.stop(second)
			if took := w.since() - began; took > 10*time.Second {
				t.Errorf("%v: the stop took another %v", second, took)
			}
		})
	}
}

// During a stop nothing is taken any more.
func TestStopTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) { p.deafen() }
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.signals <- syscall.SIGTERM
		synctest.Wait()
		select {
		case w.spool.found <- []spool.Name{w.spool.put(2, "b.example")}:
			t.Error("a name was received")
		case <-w.ended:
		}
	})
}

// A spool that cannot be written stops the feeding; it is probed, and when it
// is back everything goes on.
func TestFullSpoolIsProbedUntilItIsBack(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, spool.ErrShut} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.spool.fail(fmt.Errorf("finishing %q: %w", "1", fault))
			w.run()
			w.spool.bring(1, "a.example")
			synctest.Wait()
			w.spool.bring(2, "b.example")
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := strings.Count(w.stats.String(), "\n"); n != 1 {
				t.Errorf("%d recipients were delivered: %v", n, fault)
			}
			w.spool.fail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if w.spool.left() != 0 || w.spool.probes < 10 {
				t.Errorf("%d control files are left after %d probes", w.spool.left(), w.spool.probes)
			}
			w.stop(syscall.SIGTERM)
		})
	}
}

// A fault of one file is that file's alone.
func TestFileThatCannotBeWrittenHindersNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.spool.fail(fmt.Errorf("finishing %q: %w", "1", syscall.EACCES))
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.spool.bring(2, "b.example")
		synctest.Wait()
		if n := strings.Count(w.stats.String(), "\n"); n != 2 {
			t.Errorf("%d recipients were delivered", n)
		}
		w.spool.fail(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Errorf("%d control files are left", w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

// When the file knows of a recipient that the core does not, what the file
// says is found again.
func TestMessageThatIsNotDoneAfterAllIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.spool.fail(fmt.Errorf("finishing %q: %w", "1", spool.ErrOpen))
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		if w.spool.sweeps != 1 {
			t.Error("no sweep was asked for")
		}
		w.spool.fail(nil)
		w.spool.bring(1, "b.example")
		synctest.Wait()
		if w.spool.left() != 0 || w.spool.takes() != 2 {
			t.Errorf("%d control files are left, taken %d times", w.spool.left(), w.spool.takes())
		}
		w.stop(syscall.SIGTERM)
	})
}

// What is refused again and again is told of at doubling distances.
func TestRefusalIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run()
		for tries := range 100 {
			w.spool.answer(spool.Refused{Name: spool.Name{Path: "1", ID: 1}, Why: spool.Busy, Reason: "locked", Tries: tries + 1})
		}
		synctest.Wait()
		if n := strings.Count(w.log.String(), "locked"); n != 7 {
			t.Errorf("logged %d times", n)
		}
		w.stop(syscall.SIGTERM)
	})
}

// With -S no agent starts before the whole queue is loaded.
func TestSynchronousStartupLoadsEverythingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.options.Synchronous = true
		w.run()
		w.spool.bring(1, "a.example")
		w.spool.bring(2, "b.example", "c.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.started() != 0 {
			t.Error("an agent was started")
		}
		w.spool.answer(spool.Swept{})
		time.Sleep(time.Second)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Error("nothing was delivered after it")
		}
		if want := "Synchronous startup completed, messages: 2 recipients: 3"; !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.log)
		}
		w.stop(syscall.SIGTERM)
	})
}

// With -W the verbose log begins after the startup scan.
func TestVerboseLogCanWaitForTheStartupScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.options.VerboseLater = true
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.spool.answer(spool.Swept{})
		synctest.Wait()
		if strings.Contains(w.log.String(), "Arrived") {
			t.Errorf("it began too early:\n%s", w.log)
		}
		w.spool.bring(2, "a.example")
		synctest.Wait()
		for _, want := range []string{`"event":"Arrived"`, `"action":"Feed"`, `"event":"AgentReported"`, `"action":"Finish"`} {
			if !strings.Contains(w.log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, w.log)
			}
		}
		w.stop(syscall.SIGTERM)
	})
}

// With -p what is finished stays, and is not taken again.
func TestKeptMessageStaysAndIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.options.Keep = true
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.spool.found <- []spool.Name{{Path: "1", ID: 1}}
		synctest.Wait()
		if w.spool.left() != 1 || w.spool.takes() != 1 || strings.Count(w.stats.String(), "\n") != 1 {
			t.Errorf("%d control files left, taken %d times, statistics %q", w.spool.left(), w.spool.takes(), w.stats)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestOperandsAreAllThatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			if job.Host == "dead.example" {
				p.reportAll(job, ta.Deferred, "later")
			} else {
				time.Sleep(time.Minute)
				p.reportAll(job, ta.OK2, "delivered")
			}
		}
		w.options.Operands = []spool.Name{w.spool.put(1, "a.example"), w.spool.put(2, "dead.example"), {Path: "9", ID: 9}}
		w.spool.put(3, "b.example")
		w.run()
		<-w.ended
		if w.spool.left() != 2 || w.spool.takes() != 2 {
			t.Errorf("%d control files left, %d taken", w.spool.left(), w.spool.takes())
		}
		if w.since() > 2*time.Minute {
			t.Errorf("it took %v", w.since())
		}
	})
}

func TestReloadChangesWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		good := oneClause(nil)
		w.options.Config = oneClause(func(p *scheduler.Params) { p.Command = nil })
		var bad error = errors.New("scheduler.cf:3:1: no such keyword")
		w.options.Reload = func() (*scheduler.Config, error) {
			time.Sleep(time.Second) // a name server is asked for a user, say
			return good, bad
		}
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.signals <- syscall.SIGUSR1
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.started() != 0 || !strings.Contains(w.log.String(), "scheduler.cf:3:1") {
			t.Errorf("after a bad file %d agents run, and the log is:\n%s", w.started(), w.log)
		}
		bad = nil
		w.signals <- syscall.SIGUSR1
		w.signals <- syscall.SIGUSR1 // while the first is under way
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Error("after a good file nothing is delivered")
		}
		if n := strings.Count(w.log.String(), "configuration read again"); n != 2 {
			t.Errorf("read again %d times", n)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestSignalsReopenSweepAndDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		reopened := 0
		w.options.Reopen = func() { reopened++ }
		w.run()
		w.signals <- syscall.SIGHUP
		w.signals <- syscall.SIGALRM
		w.signals <- syscall.SIGUSR2
		synctest.Wait()
		if reopened != 1 || w.spool.sweeps != 1 || !strings.Contains(w.log.String(), "Messages:0") {
			t.Errorf("reopened %d times, swept %d times, log:\n%s", reopened, w.spool.sweeps, w.log)
		}
		w.stop(syscall.SIGTERM)
	})
}

// A process that takes long to start holds nobody up.
func TestSlowStartDoesNotHoldUpTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := true
		w.options.Start = func(spec child.Spec, sink func([]child.Heard)) (Agent, error) {
			if first {
				first = false
				time.Sleep(time.Minute)
			}
			return w.start(spec, sink)
		}
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.spool.bring(2, "b.example")
		time.Sleep(time.Second)
		synctest.Wait()
		if w.started() != 1 || w.spool.left() != 0 {
			t.Errorf("%d control files are left after a second", w.spool.left())
		}
		time.Sleep(time.Minute)
		w.stop(syscall.SIGTERM)
	})
}

func TestStartThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		failures := 2
		w.options.Start = func(spec child.Spec, sink func([]child.Heard)) (Agent, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("fork: resource temporarily unavailable")
			}
			return w.start(spec, sink)
		}
		w.run()
		w.spool.bring(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Error("it was not delivered")
		}
		w.stop(syscall.SIGTERM)
	})
}

// What an agent says beside the protocol is logged with its channel and pid.
func TestWhatAnAgentSaysIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			p.say(
				child.Said{Kind: ta.Comment, Text: "# connecting"},
				child.Stderr("assertion missed"),
				child.Said{Kind: ta.Garbled, Text: "what\x01ever", Reason: "no slash"},
				child.Said{Kind: ta.Resync, Path: "none"},
			)
			p.reportAll(job, ta.OK2, "delivered")
		}
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		for _, want := range []string{"connecting", "assertion missed", `what\u0001ever`, `"none"`} {
			line := ""
			for l := range strings.Lines(w.log.String()) {
				if strings.Contains(l, want) {
					line = l
				}
			}
			if !strings.Contains(line, `"channel":"smtp"`) || !strings.Contains(line, `"pid":1000`) {
				t.Errorf("%q is logged as %q", want, line)
			}
		}
		if w.spool.left() != 0 {
			t.Error("it was not delivered")
		}
		w.stop(syscall.SIGTERM)
	})
}

// An agent that says very much at once holds nobody up: it comes in pieces.
func TestChattyAgentIsHeardInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var heard int
		l := &listener{daemon: New(w.options), agent: 1, known: closed()}
		go func() {
			var all []child.Heard
			for range 1000 {
				all = append(all, child.Said{Kind: ta.Reported})
			}
			l.hear(append(all, child.Exited{}))
		}()
		for {
			h := <-l.daemon.heard
			if len(h.events) > turnLimit {
				t.Errorf("%d events in one piece", len(h.events))
			}
			if heard += len(h.events); h.exited {
				break
			}
		}
		if heard != 1001 {
			t.Errorf("%d events of 1001", heard)
		}
	})
}

// However much the spool has to say at once, a turn deals with a piece of it.
func TestManyResultsAreDealtWithInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.QueueOnly = true })
		d := New(w.options)
		var all []spool.Result
		for i := range 3*turnLimit + 1 {
			name := w.spool.put(uint64(i+1), "a.example")
			all = append(all, w.spool.files[name.Path].taken)
		}
		w.spool.results <- all
		for turn := 1; turn <= 4; turn++ {
			d.turn()
			if want := min(turn*turnLimit, len(all)); d.startup.messages != want {
				t.Errorf("after turn %d %d messages have arrived, want %d", turn, d.startup.messages, want)
			}
		}
	})
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// ETRN: a file in the spool asks for the mail of a host.
func TestTriggerStartsAThreadThatOnlyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.QueueOnly = true })
		w.run()
		w.spool.bring(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.spool.left() != 1 {
			t.Error("it went out unasked")
		}
		w.spool.answer(spool.Triggered{Name: spool.Name{Path: "2-etrn", ID: 2}, Host: "a.example", Text: "a.example 192.0.2.1"})
		time.Sleep(time.Second)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Error("it was not delivered")
		}
		w.stop(syscall.SIGTERM)
	})
}

// A sender who asked for it can follow a message's way in a file.
func TestVerboseLogOfAMessageIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run()
		name := w.spool.put(1, "a.example")
		w.spool.files["1"].taken.Verbose = "../public/v_1"
		w.spool.found <- []spool.Name{name}
		synctest.Wait()
		if len(w.spool.verbose) != 3 {
			t.Errorf("lines are %q", w.spool.verbose)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestStatisticsLine(t *testing.T) {
	changed := time.Date(2003, 3, 12, 22, 38, 24, 0, time.UTC)
	line := appendAccount(nil, scheduler.Account{
		Message: 258367, ModifiedAt: time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC), ChangedAt: changed,
		State: "ok3", Channel: "smtp", Host: "funet.fi",
	}, changed.Add(7*time.Second))
	if got, want := string(line), "S258367AbTCLWiT 5 7 ok3 smtp/funet.fi\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
