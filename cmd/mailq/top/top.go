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

// Top is the live view of mailq --top: the threads of a queue on a full
// screen, with keys to sort and filter them, to look into one, and to hold,
// release or retry its mail.
//
//	          ┌── keys, sizes ◄── screen
//	one loop ─┼── time to ask again
//	          └── answers ◄── a goroutine that asks the server
//
// The loop alone has the state and draws it; it never waits for the server, so
// keys work while that is slow or gone. What has not changed is not drawn
// again.
type Top struct {
	Screen tcell.Screen // after Init; the caller's to Fini
	Source Source
	Every  time.Duration // between two questions
}

// TopSource is where the view has its queue from. Its methods are called by
// one goroutine, not that of the screen, and may take their time.
type Source interface {
	// Picture returns all threads.
	Picture() (*client.Snapshot, error)
	// Jobs returns the first job lines of a thread, and whether there are more.
	Jobs(name mailq.Name) (jobs []*mailq.Job, more bool, err error)
	// Text returns the lines of SHOW MSG or EXPLAIN.
	Text(command string) ([]string, error)
	// Give gives an order and returns what came of it, in words.
	Give(order *mailq.Order) (string, error)
}

// Watch shows the view on the terminal of this process until the user leaves
// or ctx ends.
func Watch(ctx context.Context, source Source, every time.Duration) error {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("no full screen here (TERM is %q): %w", os.Getenv("TERM"), err)
	}
	defer screen.Fini()
	(&Top{screen, source, every}).Run(ctx)
	return nil
}

// Run shows the view until the user leaves, ctx ends or the screen is
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

	v := &topView{every: t.Every}
	asker.ask(v.refresh())
	for !v.left {
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
				// The terminal is gone.
				return
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

// A question is put to the source; the answer is what to do with the view,
// and may lead to another question.
type (
	question func(Source) answer
	answer   func(*topView) question
)

// asker asks one question after the other. The loop owns busy.
type asker struct {
	questions chan question
	answers   chan answer
	busy      int
}

// maxQuestions is how many may wait. A user who gives more orders than that
// while the server is silent is not heard.
const maxQuestions = 64

func startAsker(source Source) *asker {
	a := &asker{questions: make(chan question, maxQuestions), answers: make(chan answer, maxQuestions)}
	go func() {
		for q := range a.questions {
			// There is room for an answer to every question that may wait.
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
