// Package top is the live view of mailq top: tables of threads, rings, agents, reasons and held
// mail on a full screen, with keys to sort, filter and open what they show, and to give orders
// about the line under the cursor (mailq(1), "LIVE VIEW"). Package report has the tables; the
// terminal library draws them. This is the only package that uses a terminal library.
//
//	        ┌── keys ◄── the library's loop, which draws
//	view ───┤
//	        └── answers ◄── goroutines that ask the server, one session for each question
//
// Only the library's loop touches the view. It never waits for the server, so keys work while
// the server is slow or gone. Everything that is asked for begins with a new session, so it does
// not matter whether the server has closed an older one.
//
// page.go has the pages and the questions to the server, keys.go the keys, order.go the orders,
// frame.go the lines above and below the page.
package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"zsched/mailq/client"
)

// Top is the live view.
type Top struct {
	// Connect begins a session with the server. One goroutine at a time calls it.
	Connect func() (*client.Client, error)
	Every   time.Duration // between two updates
	// Trace returns what happened to a message, in lines, from the event log.
	Trace func(id string) ([]string, error)
	// Screen is where the view is shown; nil: on the terminal of this process.
	Screen tcell.Screen
}

// Watch shows the view until the user quits, ctx is done or the terminal is gone.
func (t *Top) Watch(ctx context.Context) error { return newView(t).run(ctx) }

func (v *view) run(ctx context.Context) error {
	ended, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, v.app.Stop)
	defer stop()
	go v.tick(ended)
	if err := v.app.Run(); err != nil {
		return fmt.Errorf("this terminal cannot show a full screen (TERM is %q): %w", os.Getenv("TERM"), err)
	}
	return nil
}

// tick updates the page at once and then again and again.
func (v *view) tick(ctx context.Context) {
	ticker := time.NewTicker(v.Every)
	defer ticker.Stop()
	for {
		v.app.QueueUpdateDraw(v.refresh)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask runs a question outside the loop, one at a time, and then calls show in the loop.
func (v *view) ask(question func() error, show func(error)) {
	go func() {
		v.asking.Lock()
		err := question()
		v.asking.Unlock()
		v.app.QueueUpdateDraw(func() { show(err) })
	}()
}

// session asks the server in a session of its own.
func (v *view) session(question func(*client.Client) error) error {
	c, err := v.Connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return question(c)
}

// stopTimeout is how long suspend waits for SIGCONT if the process was not
// stopped: the kernel does not stop a process that no shell would continue.
const stopTimeout = time.Second

// suspend stops the processes of this job, as the terminal does for Ctrl-Z, with the terminal as
// it was before, and returns when the shell has continued them.
func (v *view) suspend() {
	v.app.Suspend(func() {
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
	})
	v.refresh()
}

// newView returns the view with its first page.
func newView(t *Top) *view {
	tview.Styles.PrimitiveBackgroundColor, tview.Styles.PrimaryTextColor = tcell.ColorDefault, tcell.ColorDefault
	v := &view{
		Top: t, app: tview.NewApplication(), rows: tview.NewFlex().SetDirection(tview.FlexRow),
		head: tview.NewTextView(), foot: tview.NewTextView(), prompt: tview.NewInputField(),
	}
	if t.Screen != nil {
		v.app.SetScreen(t.Screen)
	}
	v.head.SetWrap(false).SetTextStyle(strong)
	v.prompt.SetLabelStyle(strong)
	v.prompt.SetFieldStyle(plain)
	v.app.SetRoot(v.rows, true)
	v.app.SetInputCapture(v.key)
	v.stack = []*page{mainPage(0)}
	v.layout()
	return v
}

var (
	plain  = tcell.StyleDefault
	strong = tcell.StyleDefault.Bold(true)
)
