package admin

// Messages that are not loaded: an order that concerns only them says so.

import (
	"context"
	"fmt"
	"time"

	"zsched/mailq"
	"zsched/scheduler/spool"
)

// whyNotLoaded returns the error of an order that has matched nothing in the queue although
// it concerns messages in transport/ that are not loaded; nil: there are none. An order
// about a thread that is kept, and a move, which repeats its orders, need no such message.
func (q *Queue) whyNotLoaded(ctx context.Context, o *mailq.Order) error {
	isKept := o.Thread != nil && (o.Verb == mailq.Hold || o.Verb == mailq.Suspend || o.Verb == mailq.Lift)
	if isKept || isMove(o) || o.Verb == mailq.Release && o.Message == "" {
		return nil
	}
	unloaded := q.files.WhyUnloaded()
	if o.Message != "" {
		_, loaded, err := q.inQueue(ctx, o.Message)
		if err != nil || loaded {
			return err
		}
		m, found, err := q.files.Show(ctx, o.Message)
		if err != nil || !found || m.Place != spool.Queue || len(storedJobs(m)) == 0 {
			return err
		}
		why, known := unloaded[m.Name.Path]
		if !known {
			why = "the scheduler has not read it yet"
		}
		return fmt.Errorf("the message is not loaded: %s", why)
	}
	match := func(job *mailq.Job) bool { return o.Thread != nil && job.Name == *o.Thread }
	if o.Where != nil {
		match = isSelected(o.Where, time.Now())
	}
	count, reason := 0, ""
	for path, why := range unloaded {
		m, found, err := q.files.Show(ctx, path)
		if err != nil || !found || m.Place != spool.Queue {
			continue // it has left meanwhile, or nobody can say whether it matches
		}
		for _, job := range storedJobs(m) {
			if match(job) {
				count, reason = count+1, why
				break
			}
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s not loaded: %s", mailq.Plural(count, "message that matches is", "messages that match are"), reason)
}
