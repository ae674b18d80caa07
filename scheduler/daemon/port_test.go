package daemon_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// However many ask and however long it takes, questions have half of the time while others have
// something.
func TestQuestionsLeaveOthersHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asks, results = 25, 100
		h := daemontest.New(t, nil)
		h.Options.Observers = append(h.Options.Observers, slowResults{})
		d := daemon.New(h.Options)
		asked := 0
		for range results {
			h.Spool.Answers <- []spool.Result{spool.Swept{}}
		}
		for range asks {
			go d.Ask(t.Context(), func(*daemon.Loop) {
				asked++
				time.Sleep(4 * resultTime)
			})
		}
		synctest.Wait()
		for range asks + results {
			d.Turn()
			synctest.Wait()
			left := len(h.Spool.Answers)
			if others := results - left; left > 0 && asked > others/4+1 {
				t.Fatalf("%d questions and %d results while %d results waited", asked, others, left)
			}
		}
		if asked != asks || len(h.Spool.Answers) != 0 {
			t.Errorf("%d of %d questions answered, %d results left", asked, asks, len(h.Spool.Answers))
		}
	})
}

// slowResults takes resultTime for each result.
type slowResults struct{}

const resultTime = time.Millisecond

func (slowResults) Result(time.Time, spool.Result)     { time.Sleep(resultTime) }
func (slowResults) Event(time.Time, scheduler.Event)   {}
func (slowResults) Turn(time.Duration)                 {}
func (slowResults) Action(time.Time, scheduler.Action) {}

func TestNobodyWaitsForALoopThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		d := daemon.New(h.Options)
		early := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { early <- d.Ask(ctx, func(*daemon.Loop) { t.Error("answered") }) }()
		synctest.Wait()
		cancel()
		if err := <-early; !errors.Is(err, context.Canceled) {
			t.Errorf("given up with %v", err)
		}
		go d.Run()
		h.Signals <- syscall.SIGTERM
		synctest.Wait()
		if err := d.Ask(t.Context(), func(*daemon.Loop) { t.Error("answered") }); !errors.Is(err, daemon.ErrStopped) {
			t.Errorf("answered with %v", err)
		}
	})
}

// threadRecord is the record of a thread that is held.
func threadRecord(host string) spool.HoldRecord {
	return spool.HoldRecord{Hold: view.Hold{By: "root"}, Threads: []view.Name{{Channel: "smtp", Host: host}}}
}

// Records that cannot be read for a while are read before any mail is delivered.
func TestHoldRecordsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Records = []spool.HoldRecord{threadRecord("a.example")}
		h.Spool.Unreadable = syscall.ENFILE
		h.Run()
		time.Sleep(3 * time.Second)
		h.Spool.Mu.Lock()
		h.Spool.Unreadable = nil
		h.Spool.Mu.Unlock()
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Minute)
		if h.Started() != 0 {
			t.Errorf("%d agents were started for a held thread", h.Started())
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestNothingBeginsWithoutTheHoldRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Unreadable = syscall.EIO
		if err := daemon.New(h.Options).Run(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Run returned %v", err)
		}
	})
}
