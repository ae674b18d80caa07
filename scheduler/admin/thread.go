package admin

import (
	"context"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// holdThread holds a thread at once, and until it is released, also over a
// restart. If that cannot be written it is not held.
func (q *Queue) holdThread(ctx context.Context, name mailq.Name, dry bool) (did mailq.Outcome, err error) {
	t := spool.Thread(name)
	already := false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		already = l.IsHeld(t)
		did = threadOutcome(l.Core(), name)
	})
	if already {
		return mailq.Outcome{}, err
	}
	if err != nil || dry {
		return did, err
	}
	return did, q.port.SetHeld(ctx, t, true)
}

// liftThread ends the holding of a thread, when that is written.
func (q *Queue) liftThread(ctx context.Context, name mailq.Name, dry bool) (did mailq.Outcome, err error) {
	t := spool.Thread(name)
	held := false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		held = l.IsHeld(t)
		did = threadOutcome(l.Core(), name)
	})
	if !held {
		return mailq.Outcome{}, err
	}
	if err != nil || dry {
		return did, err
	}
	return did, q.port.SetHeld(ctx, t, false)
}

// releaseThread lifts a hold and lets go what of the thread was put aside.
func (q *Queue) releaseThread(ctx context.Context, name mailq.Name, o *mailq.Order) (mailq.Outcome, error) {
	did, err := q.liftThread(ctx, name, o.DryRun)
	if err != nil || did.Threads > 0 {
		return did, err
	}
	begin := func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
	return q.actOnJobs(ctx, o, begin, func(*scheduler.VertexView) bool { return true })
}

// threadOutcome is what an order about a whole thread concerns.
func threadOutcome(core *scheduler.Scheduler, name mailq.Name) mailq.Outcome {
	did := mailq.Outcome{Threads: 1}
	if t, _ := core.Thread(name.Channel, name.Host); t != nil {
		did.Messages, did.Recipients = t.Vertices, t.Recipients
	}
	return did
}
