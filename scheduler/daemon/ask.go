package daemon

import (
	"context"
	"errors"
)

// errLeft answers questions that come when the loop has left.
var errLeft = errors.New("the scheduler is stopping")

// question is something that has to be done in the loop's goroutine for
// somebody outside of it. It must be short: what is long asks again and
// again, for a piece each time.
type question struct {
	run      func()
	answered chan struct{}
}

// ask has the loop run f, and returns when it has. The loop deals with at
// most one question a turn, and after each with something else that is ready,
// so that no number of questions holds up the mail.
func (d *Daemon) ask(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := question{f, make(chan struct{})}
	select {
	case d.questions <- q:
		<-q.answered
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.left:
		return errLeft
	}
}

// answer runs a question; after it comes the turn of others.
func (d *Daemon) answer(q question) {
	d.asked = true
	q.run()
	close(q.answered)
}
