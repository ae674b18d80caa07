package daemon

// The port: how queries, orders and metrics reach the loop from other
// goroutines.

import (
	"context"
	"errors"
	"iter"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/view"
)

// Port is the loop as packages admin and metrics see it; *Daemon is one.
type Port interface {
	// Ask runs f in the loop and returns when f has returned. f must be quick:
	// long work calls Ask many times, for a part of the work each time. While other
	// things are ready, they get half of the loop's time. If the error is that of ctx or
	// ErrStopped, f has not run.
	Ask(ctx context.Context, f func(*Loop)) error
}

var _ Port = (*Daemon)(nil)

// ErrStopped answers a question that comes after the loop has ended.
var ErrStopped = errors.New("the scheduler is stopping")

// question is a function for the loop.
type question struct {
	run      func(*Loop)
	answered chan struct{}
}

// Ask runs f in the loop: Port.
func (d *Daemon) Ask(ctx context.Context, f func(*Loop)) error {
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
	case <-d.stopped:
		return ErrStopped
	}
}

// Core is the core, for views. Events go through Step.
func (l *Loop) Core() *scheduler.Scheduler { return l.core }

// Now is the time of the current turn.
func (l *Loop) Now() time.Time { return l.now }

// Order gives the core an order and returns its answer.
func (l *Loop) Order(e scheduler.Ordered) view.Outcome {
	l.answer = view.Outcome{}
	l.Step(e)
	return l.answer
}

// Status is what the loop knows besides the core.
type Status struct {
	StartedAt time.Time
	Taking    int  // control files being read
	Writing   int  // changes to files that the spool has not answered
	Starting  int  // agents whose process does not exist yet
	Stopping  bool // agents end, and then the loop does
	Loaded    bool // all that was there at the start is loaded
	Reload    Reload
}

// Status returns the status as of this turn.
func (l *Loop) Status() Status {
	return Status{
		StartedAt: l.startedAt, Taking: len(l.intake.taking), Writing: l.files.pending,
		Starting: l.agents.starting(), Reload: l.lastReload,
		Stopping: l.core.Stopping(), Loaded: l.loaded,
	}
}

// walkSlice is how many items of a walk one question takes: 0.4 ms of the loop's time. Much smaller
// slices make a long list wait for the processors, again for each slice, when the machine is busy.
const walkSlice = 512

// errReloaded ends a walk over the whole queue during which the configuration was read again.
var errReloaded = errors.New("the configuration was read again meanwhile: please repeat this")

// Walk yields the items of a walk over the queue, one slice per question.
func Walk(ctx context.Context, port Port, begin func(*scheduler.Scheduler) *scheduler.Walk) iter.Seq2[view.Item, error] {
	return func(yield func(view.Item, error) bool) {
		var walk *scheduler.Walk
		var items []view.Item
		more := true
		for more {
			err := port.Ask(ctx, func(l *Loop) {
				if walk == nil {
					walk = begin(l.core)
				}
				items, more = walk.Next(walkSlice)
			})
			if err != nil {
				yield(view.Item{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if walk.Interrupted() {
				yield(view.Item{}, errReloaded)
				return
			}
		}
	}
}
