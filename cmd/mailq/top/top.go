// Package top is the live view of mailq --top: the threads of a queue on a full
// screen, with keys to sort and filter them, to open one, and to hold, release or
// retry its mail (mailq(1), "LIVE VIEW"). It is the only package that uses a
// terminal library.
//
//	          ┌── keys, sizes ◄── screen
//	one loop ─┼── ticks: ask again
//	          └── answers ◄── a goroutine that asks the server
//
// Only the loop touches the state and the screen. It never waits for the server,
// so keys work while the server is slow or gone. Only what has changed is drawn
// again.
package top

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// Top is the live view on a screen.
type Top struct {
	Screen tcell.Screen // initialised; the caller finishes it
	Source Source
	Every  time.Duration // between two snapshots
}

// Source provides the queue that the view shows, such as a client.Reconnecting.
// One goroutine calls its methods; they may block.
type Source interface {
	// Snapshot returns all threads.
	Snapshot() (*client.Snapshot, error)
	// Jobs returns the first jobs of a thread, and whether there are more.
	Jobs(name mailq.Name) (jobs []*mailq.Job, more bool, err error)
	// Report returns the lines of SHOW MSG or EXPLAIN.
	Report(command string) ([]string, error)
	// Order gives an order and returns the text of the reply.
	Order(order *mailq.Order) (string, error)
}

// Watch shows the view on the terminal of this process until the user quits or
// ctx is done.
func Watch(ctx context.Context, source Source, every time.Duration) error {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("this terminal has no full screen (TERM is %q): %w", os.Getenv("TERM"), err)
	}
	defer screen.Fini()
	(&Top{screen, source, every}).Run(ctx)
	return nil
}

// Run shows the view until the user quits, ctx is done or the screen is
// finished.
func (t *Top) Run(ctx context.Context) {
	events := make(chan tcell.Event)
	quit := make(chan struct{})
	defer close(quit)
	go t.Screen.ChannelEvents(events, quit)

	asker := startAsker(t.Source)
	defer close(asker.questions)
	ticker := time.NewTicker(t.Every)
	defer ticker.Stop()

	v := &view{every: t.Every}
	asker.ask(v.refresh())
	for !v.quit {
		v.draw(t.Screen, time.Now())
		t.Screen.Show()
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				return
			}
			switch event := event.(type) {
			case *tcell.EventResize:
				t.Screen.Sync()
			case *tcell.EventError:
				return // the terminal is gone
			case *tcell.EventKey:
				asker.ask(v.key(event))
			}
		case answer := <-asker.answers:
			asker.busy--
			asker.ask(answer(v))
		case <-ticker.C:
			if asker.busy == 0 {
				asker.ask(v.refresh())
			}
		}
	}
}

// A question asks the source. Its answer changes the view and may return another
// question.
type (
	question func(Source) answer
	answer   func(*view) question
)

// asker runs a goroutine that puts one question after the other to the source.
type asker struct {
	questions chan question
	answers   chan answer
	busy      int // questions without an answer; only the loop uses it
}

// maxQuestions is how many questions may wait. Keys that would add more, while the
// server is silent, have no effect.
const maxQuestions = 64

func startAsker(source Source) *asker {
	a := &asker{questions: make(chan question, maxQuestions), answers: make(chan answer, maxQuestions)}
	go func() {
		for q := range a.questions {
			// This does not block: every question that may wait has room for its
			// answer.
			a.answers <- q(source)
		}
	}()
	return a
}

func (a *asker) ask(q question) {
	if q == nil || a.busy == maxQuestions {
		return
	}
	a.busy++
	a.questions <- q
}
