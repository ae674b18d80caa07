package admin

// Held threads: HOLD THREAD and RELEASE THREAD.

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// holdThread holds a thread at once and until it is released, even across a
// restart. If that cannot be recorded, the thread is not held. For a thread that
// is already held, it changes when the hold ends, or the reason.
func (q *Queue) holdThread(ctx context.Context, o *mailq.Order) (did mailq.Outcome, err error) {
	name, t := *o.Thread, spool.Thread(*o.Thread)
	already := false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		already = l.IsHeld(t) && l.IsRecorded()
		did = threadOutcome(l.Core(), name)
		did.WithAgents = l.Core().ThreadWithAgents(name.Channel, name.Host)
	})
	if err != nil {
		return mailq.Outcome{}, err
	}
	again := *o
	if already {
		records, err := q.files.HoldRecords()
		if err == nil && !changesHold(&again, spool.InForce(records).Threads[t]) {
			err = errAlreadyHeld
		}
		if err != nil {
			return mailq.Outcome{}, err
		}
	}
	if o.DryRun {
		return did, nil
	}
	if err = q.recordHold(&again, nil, t); err != nil {
		return did, err
	}
	return did, q.port.SetHeld(ctx, scheduler.HeldThread{
		Channel: t.Channel, Host: t.Host, Held: true, By: actorText(o), Why: o.Why,
	})
}

// errAlreadyHeld refuses a HOLD that changes nothing.
var errAlreadyHeld = errors.New("it is already held")

// changesHold reports whether a HOLD of what is held already changes anything: the end of the
// hold or the reason. A HOLD without a time limit holds until the release. A HOLD without a
// reason is given the reason of the record.
func changesHold(o *mailq.Order, before *spool.HoldRecord) bool {
	if before == nil {
		return o.For > 0 || o.Why != ""
	}
	changed := o.For > 0 || !before.Until.IsZero() || o.Why != "" && o.Why != before.Why
	o.Why = cmp.Or(o.Why, before.Why)
	return changed
}

// unholdThread ends the hold of a thread, as soon as that is recorded. The order
// says who ends it and why; its target is not used.
func (q *Queue) unholdThread(ctx context.Context, name mailq.Name, o *mailq.Order) (did mailq.Outcome, err error) {
	t := spool.Thread(name)
	held := false
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		held = l.IsHeld(t)
		did = threadOutcome(l.Core(), name)
	})
	if !held {
		return mailq.Outcome{}, err
	}
	did.ThreadHolds = 1
	if err != nil || o.DryRun {
		return did, err
	}
	return did, q.port.SetHeld(ctx, scheduler.HeldThread{Channel: t.Channel, Host: t.Host, By: actorText(o), Why: o.Why})
}

// releaseThread ends the hold of a thread. If the thread is not held, it releases
// poisoned mail.
func (q *Queue) releaseThread(ctx context.Context, name mailq.Name, o *mailq.Order) (mailq.Outcome, error) {
	did, err := q.unholdThread(ctx, name, o)
	if err != nil || did.Threads > 0 {
		return did, err
	}
	return q.actOnJobs(ctx, o, walkThread(name), every)
}

// whyHeldWithThread returns the error of a RELEASE that selects nothing but mail of held
// threads; nil: it selects nothing at all.
func (q *Queue) whyHeldWithThread(ctx context.Context, begin walkFunc, selected selectFunc) error {
	held := make(map[scheduler.MessageID]struct{})
	for item, err := range daemon.Walk(ctx, q.port, begin) {
		if err != nil {
			return err
		}
		if v := item.Vertex; v != nil && v.Held {
			if _, isSelected := selected(v); isSelected {
				held[v.Message] = struct{}{}
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	return fmt.Errorf("%s held with the thread; mailq release of the thread ends that", mailq.Plural(len(held), "message is", "messages are"))
}

// threadOutcome counts the mail of a thread.
func threadOutcome(core *scheduler.Scheduler, name mailq.Name) mailq.Outcome {
	did := mailq.Outcome{Threads: 1}
	if t, _ := core.Thread(name.Channel, name.Host); t != nil {
		did.Messages, did.Recipients = t.Vertices, t.Recipients
	}
	return did
}
