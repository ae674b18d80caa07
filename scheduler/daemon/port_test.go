package daemon_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

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
