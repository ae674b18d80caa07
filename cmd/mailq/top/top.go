// Package top is the live view of mailq top: pages of threads, rings, agents,
// reasons and held mail on a full screen, with keys to sort, filter, mark and open
// what they show, and to give orders about it (mailq(1), "LIVE VIEW"). It is the
// only package that uses a terminal library.
//
//	          ┌── keys, sizes ◄── screen
//	one loop ─┼── ticks: ask again
//	          └── answers ◄── a goroutine that asks the server
//
// Only the loop touches the state and the screen. It never waits for the server,
// so keys work while the server is slow or gone. Only what has changed is drawn
// again.
//
// view.go has the state and the questions to the server, page.go the pages, rows.go
// their columns and rows, columns.go the places of the columns on the screen,
// filter.go filters, order.go orders, keys.go the keys, draw.go the screen and frame.go the
// lines above and below the page.
package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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
	// Trace returns what happened to a message, in lines, from the event log. nil:
	// there is no event log.
	Trace func(id string) ([]string, error)
	// Stop stops this process as Ctrl-Z does, and returns when it is continued.
	// nil: the job control of the shell does it.
	Stop func()
}

// Source provides the queue that the view shows, such as a client.Reconnecting.
// One goroutine calls its methods; they may block. more says that a list has more
// than was read.
type Source interface {
	// Snapshot returns all threads, rings and totals.
	Snapshot() (*client.Snapshot, error)
	// Jobs returns the first jobs of a thread, and Select those of a selection.
	Jobs(name mailq.Name) (jobs []*mailq.Job, more bool, err error)
	Select(where mailq.Selection) (jobs []*mailq.Job, more bool, err error)
	Reasons() ([]*mailq.ReasonItem, error)
	Held() (items []*mailq.HeldItem, more bool, err error)
	// Report returns the lines of SHOW MSG or EXPLAIN.
	Report(command string) ([]string, error)
	// Orders gives orders one after the other and returns what they did together.
	// failed has the errors of those that could not be executed, and err is the
	// error that stopped the rest.
	Orders(orders []mailq.Order) (did mailq.Outcome, failed []error, err error)
}

// Watch shows the view on the terminal of this process until the user quits or
// ctx is done. It sets Screen.
func (t *Top) Watch(ctx context.Context) error {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("this terminal cannot show a full screen (TERM is %q): %w", os.Getenv("TERM"), err)
	}
	defer screen.Fini()
	t.Screen = screen
	t.Run(ctx)
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

	v := newView(t.Every, time.Now())
	v.tracer = t.Trace
	asker.ask(v.refresh())
	for !v.quit {
		v.draw(t.Screen)
		t.Screen.Show()
		var next question
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			v.now = time.Now()
			switch event := event.(type) {
			case *tcell.EventResize:
				t.Screen.Sync()
			case *tcell.EventKey:
				if event.Key() == tcell.KeyCtrlL {
					t.Screen.Sync()
				}
				next = v.key(event)
			case *tcell.EventError:
				ok = false
			}
			if !ok {
				return // the terminal is gone
			}
		case answer := <-asker.answers:
			v.now = time.Now()
			asker.busy--
			next = answer(v)
		case <-ticker.C:
			v.now = time.Now()
			if asker.busy == 0 {
				next = v.refresh()
			}
		}
		asker.ask(next)
		if v.suspend {
			v.suspend = false
			if !t.suspend() {
				return
			}
			v.now = time.Now()
			asker.ask(v.refresh())
		}
	}
}

// suspend gives the terminal back as it was, stops this process, and takes the
// terminal again. It reports whether that was possible.
func (t *Top) suspend() bool {
	if t.Screen.Suspend() != nil {
		return false
	}
	if t.Stop != nil {
		t.Stop()
	} else {
		stopProcess()
	}
	if t.Screen.Resume() != nil {
		return false
	}
	t.Screen.Sync()
	return true
}

// stopTimeout is how long stopProcess waits for SIGCONT if the process was not
// stopped: the kernel does not stop a process that no shell would continue.
const stopTimeout = time.Second

// stopProcess stops the processes of this job, as the terminal does for Ctrl-Z,
// and returns when the shell has continued them.
func stopProcess() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(stopTimeout):
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
