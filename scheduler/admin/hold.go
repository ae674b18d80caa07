package admin

// HOLD, RELEASE and LIFT. Each hold is recorded before the core is told, and one comes
// after the other: so what was recorded last is what the core does.

import (
	"context"
	"slices"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// beginHold waits until no such order is being carried out; endHold lets the next one begin.
func (od *orders) beginHold(ctx context.Context) error {
	select {
	case od.holding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (od *orders) endHold() { <-od.holding }

// hold returns the hold that a HOLD puts in force.
func (o *order) hold() *view.Hold {
	now := time.Now()
	h := &view.Hold{Since: now.Truncate(time.Second), By: o.actor(), Because: mailq.TrimBlanks(mailq.OneReply(o.Because))}
	if o.For > 0 {
		h.Until = now.Add(o.For + time.Second - 1).Truncate(time.Second) // it does not end early
	}
	return h
}

// touch counts a thread, and its mail, among what an order has had an effect on.
func (o *order) touch(core *scheduler.Scheduler, name mailq.Name) {
	did := threadOutcome(core, name)
	o.did.Messages += did.Messages
	o.did.Recipients += did.Recipients
	o.threads[name] = struct{}{}
}

// threadOutcome counts the mail of a thread.
func threadOutcome(core *scheduler.Scheduler, name mailq.Name) (did mailq.Outcome) {
	if t := core.Thread(name.Channel, name.Host); t != nil {
		did.Messages, did.Recipients = t.JobLines, t.Recipients
	}
	return did
}

// holdThread carries out the HOLD of a thread, present or future.
func (od *orders) holdThread(ctx context.Context, o *order) error {
	name := *o.Thread
	err := od.port.Ask(ctx, func(l *daemon.Loop) {
		o.touch(l.Core(), name)
		if t := l.Core().Thread(name.Channel, name.Host); t != nil {
			o.did.WithAgents = t.States[view.Fed]
		}
	})
	if err != nil || o.DryRun {
		return err
	}
	h := o.hold()
	if err := od.files.RecordHold(spool.HoldRecord{Hold: *h, Threads: []view.Name{name}}); err != nil {
		return err
	}
	return od.step(ctx, scheduler.HeldThread{Channel: name.Channel, Host: name.Host, Held: true, HoldOrder: *h})
}

// step tells the core of an order that is recorded: even if the caller is gone.
func (od *orders) step(ctx context.Context, e scheduler.Event) error {
	return od.port.Ask(context.WithoutCancel(ctx), func(l *daemon.Loop) { l.Step(e) })
}

// liftThread carries out LIFT: it ends what reply rules do to the thread.
func (od *orders) liftThread(ctx context.Context, o *order) error {
	name := *o.Thread
	err := od.port.Ask(ctx, func(l *daemon.Loop) {
		t := l.Core().Thread(name.Channel, name.Host)
		if t != nil && slices.ContainsFunc(t.Effects, func(e view.Effect) bool { return e.Rule != "" }) {
			o.touch(l.Core(), name)
		} else {
			o.did.Loading = !l.Status().Loaded
		}
	})
	if err != nil || o.DryRun || len(o.threads) == 0 {
		return err
	}
	return od.step(ctx, scheduler.Lifted{Channel: name.Channel, Host: name.Host, By: o.actor(), Because: o.Because})
}

// releaseThread ends the hold of a thread, and reports whether it was held.
func (od *orders) releaseThread(ctx context.Context, o *order, name mailq.Name) (was bool, err error) {
	err = od.port.Ask(ctx, func(l *daemon.Loop) {
		x, _ := l.Core().Explain(name.Channel, name.Host)
		if was = x.Hold != nil; was {
			o.touch(l.Core(), name)
		}
	})
	if err != nil || !was || o.DryRun {
		return was, err
	}
	if err := od.files.EndHolds(spool.HoldRecord{Threads: []view.Name{name}}); err != nil {
		return was, err
	}
	return was, od.step(ctx, scheduler.HeldThread{
		Channel: name.Channel, Host: name.Host, HoldOrder: scheduler.HoldOrder{By: o.actor(), Because: o.Because},
	})
}

// releaseThreads releases the held threads that are selected. A selection by a
// property that only messages have selects no thread.
func (od *orders) releaseThreads(ctx context.Context, o *order) error {
	where, now := o.Where, time.Now()
	if where.NeedsFile() || len(where.Messages) > 0 || where.Sender+where.Source != "" || where.Reason != "" || where.Older > 0 || where.Younger > 0 {
		return nil
	}
	var threads []view.HeldThread
	err := od.port.Ask(ctx, func(l *daemon.Loop) { threads = l.Core().HeldThreads() })
	for i := 0; i < len(threads) && err == nil; i++ {
		if where.Matches(&mailq.JobLine{Name: threads[i].Name, State: view.Held, Held: true}, now) {
			_, err = od.releaseThread(ctx, o, threads[i].Name)
		}
	}
	return err
}

// recordOrder writes what a HOLD or RELEASE of messages changes in the records, and returns the
// hold that is in force then.
func (od *orders) recordOrder(o *order, t *targets) (h *view.Hold, err error) {
	if o.Verb == view.VerbHold {
		h = o.hold()
	}
	switch {
	case o.DryRun || len(t.list) == 0:
	case o.Verb == view.VerbHold:
		err = od.files.RecordHold(spool.HoldRecord{Hold: *h, Messages: t.sortedIDs()})
	case o.Verb == view.VerbRelease:
		err = od.files.EndHolds(spool.HoldRecord{Messages: t.sortedIDs()})
	}
	return h, err
}
