package daemon

// The port: how queries, orders and metrics reach the loop from other
// goroutines.

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Port is the loop as packages admin and metrics see it; *Daemon is one.
type Port interface {
	// Ask runs f in the loop and returns when f has returned. f must be quick:
	// long work calls Ask many times, for a part of the work each time. The loop
	// handles one question a turn; while other things are ready, they get every
	// second turn. If the error is that of ctx or ErrStopped, f has not run.
	Ask(ctx context.Context, f func(*Loop)) error

	// SetHeld holds a thread or releases it, durably: HOLD THREAD and RELEASE
	// THREAD. A hold is in force at once, a release when it is recorded.
	SetHeld(ctx context.Context, e scheduler.HeldThread) error
	// SetSuspended suspends a thread durably (SUSPEND). Lift ends that and what
	// reply rules do to the thread (LIFT).
	SetSuspended(ctx context.Context, s spool.Suspension) error
	Lift(ctx context.Context, e scheduler.Lifted) error
	// Release moves a held message back into the queue, after it has recorded
	// the outcomes in ends, if any. The observer is told of the order, if there is one,
	// before the message arrives. The error is ErrNotHeld if the message is no longer held.
	Release(ctx context.Context, m spool.Name, ends []ctlfile.Mark, order *scheduler.Touched) error
	// ResubmitHeld sends the open recipients of a held message to the router
	// or to another thread. The error is ErrNotHeld as for Release.
	ResubmitHeld(ctx context.Context, r spool.Resubmission) (spool.Resubmitted, error)
}

var _ Port = (*Daemon)(nil)

var (
	// ErrStopped answers a question that comes after the loop has ended.
	ErrStopped = errors.New("the scheduler is stopping")
	// ErrNotHeld says that the message was released meanwhile.
	ErrNotHeld = errors.New("the message is no longer held")
)

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

// Order gives the core an order and returns its answer. Order chooses the number
// of the order.
func (l *Loop) Order(e scheduler.Ordered) scheduler.Answer {
	l.lastOrder++
	e.Order = l.lastOrder
	l.answer = scheduler.Answer{}
	l.Step(e)
	return l.answer
}

// maxUndone bounds Loop.undone.
const maxUndone = 1000

func (l *Loop) noteUndone(a scheduler.Undone) {
	l.undoneEver++
	if l.undone = append(l.undone, a); len(l.undone) > maxUndone {
		l.undone = l.undone[1:]
	}
}

// UndoneEver returns the number of orders so far that were not carried out.
func (l *Loop) UndoneEver() int { return l.undoneEver }

// Undone returns the orders that were not carried out since UndoneEver returned a number;
// at most the last maxUndone.
func (l *Loop) Undone(since int) []scheduler.Undone {
	return slices.Clone(l.undone[max(0, len(l.undone)-(l.undoneEver-since)):])
}

// Touched tells the observer of an order about a held message, which the core
// does not know.
func (l *Loop) Touched(t scheduler.Touched) {
	for _, o := range l.observers {
		o.Action(l.now, t)
	}
}

// HeldThreads returns all held threads, sorted.
func (l *Loop) HeldThreads() []spool.Thread { return l.held.sorted() }

// IsHeld says whether a thread is held.
func (l *Loop) IsHeld(t spool.Thread) bool {
	_, held := l.held.set[t]
	return held
}

// IsRecorded says whether the list of held threads is on disk as it is in memory. It may
// not be if the last write failed, and the next write ends that.
func (l *Loop) IsRecorded() bool { return !l.held.inDoubt }

// Suspensions returns the threads that SetSuspended suspends, sorted.
func (l *Loop) Suspensions() []spool.Suspension {
	list := make([]spool.Suspension, 0, len(l.held.suspended))
	for _, s := range l.held.suspended {
		if !s.Ended(l.now) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b spool.Suspension) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
	return list
}

// Status is what the loop knows besides the core.
type Status struct {
	StartedAt time.Time
	Taking    int  // control files being read
	Writing   int  // changes to files that the spool has not answered
	Starting  int  // agents whose process does not exist yet
	FilesOnly bool // the command line names the files; there are no sweeps
	Stopping  bool // agents end, and then the loop does
	Reload    Reload
}

// Status returns the status as of this turn.
func (l *Loop) Status() Status {
	return Status{
		StartedAt: l.startedAt, Taking: len(l.intake.taking), Writing: l.files.pending,
		Starting: l.agents.starting(), FilesOnly: l.files.only, Reload: l.lastReload,
		Stopping: l.core.Stopping(),
	}
}

// walkSlice is how many items of a walk one question takes: 50 µs of the loop's
// time, or 1 ms when the garbage collector makes it help.
const walkSlice = 64

// Walk yields the items of a walk over the queue, one slice per question. A walk
// that is abandoned is closed, even if ctx is done.
func Walk(ctx context.Context, port Port, begin func(*scheduler.Scheduler) *scheduler.Walk) iter.Seq2[scheduler.Item, error] {
	return func(yield func(scheduler.Item, error) bool) {
		var walk *scheduler.Walk
		var items []scheduler.Item
		more := true
		defer func() {
			if walk != nil && more {
				_ = port.Ask(context.WithoutCancel(ctx), func(*Loop) { walk.Close() })
			}
		}()
		for more {
			err := port.Ask(ctx, func(l *Loop) {
				if walk == nil {
					walk = begin(l.core)
				}
				items, more = walk.Next(walkSlice)
			})
			if err != nil {
				yield(scheduler.Item{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}
