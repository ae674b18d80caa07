package daemon

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/scheduler/spool"
)

// However many ask, every second turn is another's who has something.
func TestQuestionsLeaveOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := New(w.options)
		asked := 0
		for range 100 {
			w.spool.results <- []spool.Result{spool.Swept{}}
			go d.ask(t.Context(), func() { asked++ })
		}
		synctest.Wait()
		running := 0
		for range 200 {
			before, left := asked, len(w.spool.results)
			d.turn()
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
		if asked != 100 || len(w.spool.results) != 0 {
			t.Errorf("%d of 100 questions answered, %d results left", asked, len(w.spool.results))
		}
	})
}

func TestNobodyWaitsForALoopThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := New(w.options)
		early := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { early <- d.ask(ctx, func() { t.Error("answered") }) }()
		synctest.Wait()
		cancel()
		if err := <-early; !errors.Is(err, context.Canceled) {
			t.Errorf("given up with %v", err)
		}
		go d.Run()
		w.signals <- syscall.SIGTERM
		synctest.Wait()
		if err := d.ask(t.Context(), func() { t.Error("answered") }); !errors.Is(err, errLeft) {
			t.Errorf("answered with %v", err)
		}
	})
}
