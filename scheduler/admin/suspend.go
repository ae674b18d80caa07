package admin

// SUSPEND and LIFT, and the lists of suspensions and reply rules.

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// suspendThread carries out SUSPEND and LIFT. It returns when the order is on disk. A
// SUSPEND without a reason keeps the reason of the one that is in force.
func (q *Queue) suspendThread(ctx context.Context, o *mailq.Order) (did mailq.Outcome, err error) {
	name, found, why := *o.Thread, false, ""
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		did = threadOutcome(l.Core(), name)
		did.WithAgents = l.Core().ThreadWithAgents(name.Channel, name.Host)
		for _, s := range l.Suspensions() {
			if s.Thread == spool.Thread(name) {
				found, why = true, s.Why
			}
		}
		if t, _ := l.Core().Thread(name.Channel, name.Host); t != nil {
			found = found || len(t.Effects) > 0
		}
	})
	switch {
	case err != nil:
	case o.Verb == mailq.Lift && !found:
		return mailq.Outcome{}, errors.New("it is not suspended")
	case o.Verb == mailq.Lift:
		did.WithAgents = 0
		if o.DryRun {
			break
		}
		err = q.port.Lift(ctx, scheduler.Lifted{Channel: name.Channel, Host: name.Host, By: actorText(o), Why: o.Why})
	case !o.DryRun:
		now := time.Now().Truncate(time.Second)
		s := spool.Suspension{Thread: spool.Thread(name), Since: now, By: actorText(o), Why: cmp.Or(mailq.TrimBlanks(mailq.OneReply(o.Why)), why)}
		if o.For > 0 {
			s.Until = wholeSecond(time.Now().Add(o.For))
		}
		err = q.port.SetSuspended(ctx, s)
	}
	return did, err
}

// Suspended yields the threads that SUSPEND suspends, by channel and host.
func (q *Queue) Suspended(ctx context.Context) iter.Seq2[*mailq.SuspendedItem, error] {
	return func(yield func(*mailq.SuspendedItem, error) bool) {
		var items []*mailq.SuspendedItem
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			for _, s := range l.Suspensions() {
				name := mailq.Name(s.Thread)
				items = append(items, &mailq.SuspendedItem{
					Name: name, SuspendedAt: s.Since, Until: s.Until, By: s.By, Why: s.Why,
					Messages: threadOutcome(l.Core(), name).Messages,
				})
			}
		})
		yieldAll(yield, items, err)
	}
}

// Rules yields the reply rules in their order.
func (q *Queue) Rules(ctx context.Context) iter.Seq2[*mailq.RuleItem, error] {
	return func(yield func(*mailq.RuleItem, error) bool) {
		var items []*mailq.RuleItem
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			for _, r := range l.Core().Rules() {
				items = append(items, &mailq.RuleItem{
					File: r.File, Line: r.Line, Pattern: r.Channel + "/" + r.Host, Expression: r.Expression, Action: r.Action,
					Hits: r.Hits, LastAt: r.LastAt, Threads: r.Effects,
				})
			}
		})
		yieldAll(yield, items, err)
	}
}

// yieldAll yields the items, or the error.
func yieldAll[T any](yield func(*T, error) bool, items []*T, err error) {
	if err != nil {
		yield(nil, err)
		return
	}
	for _, item := range items {
		if !yield(item, nil) {
			return
		}
	}
}

// effectsOf returns what reply rules and SUSPEND do to a thread.
func effectsOf(v *scheduler.ThreadView) (effects []mailq.Effect) {
	if o := v.Order; o != nil {
		effects = append(effects, mailq.Effect{Until: o.Until, By: o.By, Why: o.Why})
	}
	for _, e := range v.Effects {
		one := mailq.Effect{Rule: e.Rule.Place(), Action: e.Rule.Action, Until: e.Until}
		if e.Rule.Verb == scheduler.ReplySlow {
			one.Part = e.Part
		}
		effects = append(effects, one)
	}
	return effects
}
