package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
)

// However many ask, every second turn is another's who has something.
func TestQuestionsLeaveOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		d := daemon.New(h.Options)
		asked := 0
		for range 100 {
			h.Spool.Answers <- []spool.Result{spool.Swept{}}
			go d.Ask(t.Context(), func(*daemon.Loop) { asked++ })
		}
		synctest.Wait()
		running := 0
		for range 200 {
			before, left := asked, len(h.Spool.Answers)
			d.Turn()
			synctest.Wait()
			switch {
			case asked == before:
				running = 0
			case left > 0:
				running++
			}
			if running > 1 {
				t.Fatalf("%d questions running while %d results waited", running, left)
			}
		}
		if asked != 100 || len(h.Spool.Answers) != 0 {
			t.Errorf("%d of 100 questions answered, %d results left", asked, len(h.Spool.Answers))
		}
	})
}

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

// A list that cannot be read for a while is read before any mail is delivered, and
// orders do not write a list without what it has.
func TestHeldThreadsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Threads = []spool.Thread{{Channel: "smtp", Host: "a.example"}}
		h.Spool.Unreadable = syscall.ENFILE
		h.Run()
		time.Sleep(3 * time.Second)
		h.Spool.Mu.Lock()
		h.Spool.Unreadable = nil
		h.Spool.Mu.Unlock()
		h.Spool.Announce(1, "a.example")
		if err := h.Daemon.SetHeld(t.Context(), scheduler.HeldThread{Channel: "smtp", Host: "b.example", Held: true}); err != nil {
			t.Error(err)
		}
		if len(h.Spool.Threads) != 2 || h.Started() != 0 {
			t.Errorf("held are %v; %d agents were started", h.Spool.Threads, h.Started())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The lists are written again after hold/ was replaced, also if that fails at first.
func TestReplacedHoldGetsItsListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Threads = []spool.Thread{{Channel: "smtp", Host: "a.example"}}
		h.Spool.Suspended = []spool.Suspension{{Thread: spool.Thread{Channel: "smtp", Host: "b.example"}, By: "root", Why: "maintenance"}}
		h.Run()
		synctest.Wait()
		after := func(fault error, results ...spool.Result) (held, suspended int) {
			h.Spool.Fail(fault)
			for _, r := range results {
				h.Spool.Answer(r)
			}
			synctest.Wait()
			h.Spool.Mu.Lock()
			defer h.Spool.Mu.Unlock()
			held, suspended = len(h.Spool.Threads), len(h.Spool.Suspended)
			h.Spool.Threads, h.Spool.Suspended = nil, nil
			return held, suspended
		}
		after(nil)
		if held, suspended := after(nil, spool.HoldReplaced{}); held != 1 || suspended != 1 {
			t.Errorf("%d held and %d suspended threads are recorded", held, suspended)
		}
		if held, _ := after(syscall.ENOSPC, spool.HoldReplaced{}); held != 0 {
			t.Errorf("%d recorded on a full disk", held)
		}
		if held, suspended := after(nil, spool.Swept{}); held != 1 || suspended != 1 {
			t.Errorf("%d held and %d suspended threads are recorded at last", held, suspended)
		}
		if held, _ := after(nil, spool.Swept{}); held != 0 {
			t.Error("each sweep writes the list")
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Of two orders about a thread, the second of which comes while the first is being written, the
// second is in force.
func TestLastOrderOnAThreadIsInForce(t *testing.T) {
	for _, second := range []bool{true, false} {
		t.Run(fmt.Sprintf("held=%v", second), func(t *testing.T) {
			lastOrderIsInForce(t, second, func(ctx context.Context, d *daemon.Daemon, held bool) error {
				return d.SetHeld(ctx, scheduler.HeldThread{Channel: "smtp", Host: "a.example", Held: held})
			})
		})
		t.Run(fmt.Sprintf("suspended=%v", second), func(t *testing.T) {
			lastOrderIsInForce(t, second, func(ctx context.Context, d *daemon.Daemon, suspended bool) error {
				if suspended {
					return d.SetSuspended(ctx, spool.Suspension{Thread: spool.Thread{Channel: "smtp", Host: "a.example"}})
				}
				return d.Lift(ctx, scheduler.Lifted{Channel: "smtp", Host: "a.example"})
			})
		})
	}
}

// lastOrderIsInForce gives the opposite of the order second, and that order shortly after.
func lastOrderIsInForce(t *testing.T, second bool, order func(ctx context.Context, d *daemon.Daemon, stop bool) error) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Slow = time.Millisecond
		h.Run()
		if err := order(t.Context(), h.Daemon, second); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		go func() { ended <- order(t.Context(), h.Daemon, !second) }()
		synctest.Wait()
		go func() { ended <- order(t.Context(), h.Daemon, second) }()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Minute)
		if recorded := len(h.Spool.Threads)+len(h.Spool.Suspended) > 0; recorded != second || h.Started() == 0 != second {
			t.Errorf("recorded: %v; %d agents were started", recorded, h.Started())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Of two releases of one message at the same time, the one that finds nothing does not take
// the attempt from the message that the other has released.
func TestTwoReleasesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		name := h.Spool.Put(1, "a.example")
		h.Spool.Held["1"] = h.Spool.Files["1"]
		delete(h.Spool.Files, "1")
		h.Run()
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- h.Daemon.Release(t.Context(), name, nil, nil) }()
		}
		if err := errors.Join(<-ended, <-ended); !errors.Is(err, daemon.ErrNotHeld) {
			t.Errorf("answered with %v", err)
		}
		synctest.Wait()
		_ = h.Daemon.Ask(t.Context(), func(l *daemon.Loop) {
			if c := l.Core().Counts(); c.MessagesReleased != 1 {
				t.Errorf("%d messages came as released ones", c.MessagesReleased)
			}
		})
		h.Stop(syscall.SIGTERM)
	})
}

func TestNothingBeginsWithoutTheHeldThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Unreadable = syscall.EIO
		if err := daemon.New(h.Options).Run(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Run returned %v", err)
		}
	})
}
