package admin

// HOLD, RELEASE and LIFT. Each hold is recorded before the core is told, and one comes
// after the other: so what was recorded last is what the core does.

import (
	"context"
	"errors"
	"slices"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// beginHold waits until no such order is being carried out; endHold lets the next one begin.
func (q *Queue) beginHold(ctx context.Context) error {
	select {
	case q.holding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) endHold() { <-q.holding }

// holdOrder returns the order that a HOLD puts in force.
func holdOrder(o *mailq.Order) *view.Hold {
	now := time.Now()
	h := &view.Hold{Since: now.Truncate(time.Second), By: actorText(o), Because: mailq.TrimBlanks(mailq.OneReply(o.Because))}
	if o.For > 0 {
		h.Until = now.Add(o.For + time.Second - 1).Truncate(time.Second) // it does not end early
	}
	return h
}

// holdThread carries out the HOLD of a thread, present or future.
func (q *Queue) holdThread(ctx context.Context, o *mailq.Order) (did mailq.Outcome, err error) {
	name := *o.Thread
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		did = threadOutcome(l.Core(), name)
		if t := l.Core().Thread(name.Channel, name.Host); t != nil {
			did.WithAgents = t.States[view.Fed]
		}
	})
	if err != nil || o.DryRun {
		return did, err
	}
	h := holdOrder(o)
	if err := q.files.RecordHold(spool.HoldRecord{Hold: *h, Threads: []view.Name{name}}); err != nil {
		return mailq.Outcome{}, err
	}
	return did, q.step(ctx, scheduler.HeldThread{Channel: name.Channel, Host: name.Host, Held: true, HoldOrder: *h})
}

// step tells the core of an order that is recorded: even if the caller is gone.
func (q *Queue) step(ctx context.Context, e scheduler.Event) error {
	return q.port.Ask(context.WithoutCancel(ctx), func(l *daemon.Loop) { l.Step(e) })
}

// liftThread carries out LIFT: it ends what reply rules do to the thread.
func (q *Queue) liftThread(ctx context.Context, o *mailq.Order) (did mailq.Outcome, err error) {
	name, found := *o.Thread, false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		did = threadOutcome(l.Core(), name)
		t := l.Core().Thread(name.Channel, name.Host)
		found = t != nil && slices.ContainsFunc(t.Effects, func(e view.Effect) bool { return e.Rule != "" })
	})
	switch {
	case err != nil:
		return mailq.Outcome{}, err
	case !found:
		return mailq.Outcome{}, errors.New("no reply rule does anything to it")
	case o.DryRun:
		return did, nil
	}
	return did, q.step(ctx, scheduler.Lifted{Channel: name.Channel, Host: name.Host, By: actorText(o), Because: o.Because})
}

// unholdThread ends the hold of a thread; the outcome is empty if it is not held.
func (q *Queue) unholdThread(ctx context.Context, name mailq.Name, o *mailq.Order) (did mailq.Outcome, err error) {
	held := false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		held = l.Core().ThreadHold(name.Channel, name.Host) != nil
		did = threadOutcome(l.Core(), name)
	})
	if err != nil || !held {
		return mailq.Outcome{}, err
	}
	if o.DryRun {
		return did, nil
	}
	if err := q.files.EndHolds(spool.HoldRecord{Threads: []view.Name{name}}); err != nil {
		return mailq.Outcome{}, err
	}
	return did, q.step(ctx, scheduler.HeldThread{
		Channel: name.Channel, Host: name.Host, HoldOrder: scheduler.HoldOrder{By: actorText(o), Because: o.Because},
	})
}

// releaseThread ends the hold of a thread. If the thread is not held, it releases its held
// mail.
func (q *Queue) releaseThread(ctx context.Context, name mailq.Name, o *mailq.Order) (mailq.Outcome, error) {
	did, err := q.unholdThread(ctx, name, o)
	if err != nil || did.Threads > 0 {
		return did, err
	}
	return q.actOnJobs(ctx, o, walkThread(name), every)
}

// releaseThreads releases the held threads that are selected. A selection by a
// property that only messages have selects no thread.
func (q *Queue) releaseThreads(ctx context.Context, o *mailq.Order, did *tally) error {
	where, now := o.Where, time.Now()
	if where.NeedsFile() || len(where.Messages) > 0 || where.Sender != "" || where.Reason != "" || where.Older > 0 || where.Younger > 0 {
		return nil
	}
	var threads []scheduler.ThreadOrder
	if err := q.port.Ask(ctx, func(l *daemon.Loop) { threads = l.Core().HeldThreads() }); err != nil {
		return err
	}
	for _, t := range threads {
		if !where.Matches(&mailq.JobLine{Name: t.Name, State: view.Held, Held: true}, now) {
			continue
		}
		more, err := q.unholdThread(ctx, t.Name, o)
		did.Add(more)
		if more.Threads > 0 {
			did.threads[t.Name] = struct{}{}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recordOrder writes what a HOLD or RELEASE of messages changes in the records, and returns the
// order that holds them.
func (q *Queue) recordOrder(o *mailq.Order, t *targets) (h *view.Hold, err error) {
	if o.Verb == mailq.Hold {
		h = holdOrder(o)
	}
	switch {
	case o.DryRun || len(t.list) == 0:
	case o.Verb == mailq.Hold:
		err = q.files.RecordHold(spool.HoldRecord{Hold: *h, Messages: t.sortedIDs()})
	case o.Verb == mailq.Release:
		err = q.files.EndHolds(spool.HoldRecord{Messages: t.sortedIDs()})
	}
	return h, err
}

// threadOutcome counts the mail of a thread.
func threadOutcome(core *scheduler.Scheduler, name mailq.Name) mailq.Outcome {
	did := mailq.Outcome{Threads: 1}
	if t := core.Thread(name.Channel, name.Host); t != nil {
		did.Messages, did.Recipients = t.JobLines, t.Recipients
	}
	return did
}
