package admin

// Messages that are not loaded: lists of them, and orders that concern them, which say so.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"zsched/mailq"
	"zsched/scheduler/spool"
)

// addNotLoaded adds to an outcome how many messages in transport/ an order concerns too that
// are not loaded, and why. If it has matched nothing else, that is an error. An order about a
// thread that is kept needs no such message, and a move, which repeats its orders, does not fail.
func (q *Queue) addNotLoaded(ctx context.Context, o *mailq.Order, did *mailq.Outcome) error {
	isKept := o.Thread != nil && (o.Verb == mailq.Hold || o.Verb == mailq.Suspend || o.Verb == mailq.Lift)
	isEmpty := *did == (mailq.Outcome{})
	switch {
	case isKept, isEmpty && isMove(o), o.Verb == mailq.Release && o.Message == "":
		return nil
	case o.Message != "":
		if isEmpty {
			return q.whyNotLoaded(ctx, o.Message)
		}
		return nil
	}
	count, reason := q.countNotLoaded(ctx, o)
	if isEmpty && count > 0 {
		return fmt.Errorf("%s not loaded: %s", mailq.Plural(count, "message that matches is", "messages that match are"), reason)
	}
	did.NotLoaded, did.WhyNotLoaded = count, reason
	return nil
}

// whyNotLoaded returns the error of an order about a message that is not loaded; nil: it is
// loaded, or not in transport/.
func (q *Queue) whyNotLoaded(ctx context.Context, id string) error {
	_, loaded, err := q.inQueue(ctx, id)
	if err != nil || loaded {
		return err
	}
	m, found, err := q.files.Show(ctx, id)
	if err != nil || !found || m.Place != spool.Queue || len(storedJobs(m)) == 0 {
		return err
	}
	why, known := q.files.WhyUnloaded()[m.Name.Path]
	if !known {
		why = "the scheduler has not read it yet"
	}
	return fmt.Errorf("the message is not loaded: %s", why)
}

// countNotLoaded counts the messages that an order about a thread or a selection concerns and
// that are not loaded, and returns the reason of one of them.
func (q *Queue) countNotLoaded(ctx context.Context, o *mailq.Order) (count int, reason string) {
	match := func(job *mailq.Job) bool { return o.Thread != nil && job.Name == *o.Thread }
	if o.Where != nil {
		match = isSelected(o.Where, time.Now())
	}
	messages := make(map[string]struct{})
	q.eachUnloaded(ctx, match, func(job *mailq.Job) bool {
		messages[job.Path], reason = struct{}{}, job.Recipients[0].Reason
		return true
	})
	return len(messages), reason
}

// eachUnloaded calls do, until it returns false, with those jobs of messages that are not
// loaded that match. A control file that cannot be understood has one job, for -/-.
func (q *Queue) eachUnloaded(ctx context.Context, match func(*mailq.Job) bool, do func(*mailq.Job) bool) {
	unloaded := q.files.WhyUnloaded()
	for _, path := range slices.Sorted(maps.Keys(unloaded)) {
		m, found, err := q.files.Show(ctx, path)
		if ctx.Err() != nil {
			return
		}
		if err != nil || !found || m.Place != spool.Queue {
			continue // it has left meanwhile, or nobody can say whether it matches
		}
		jobs := storedJobs(m)
		if m.File == nil {
			jobs = []*mailq.Job{{
				Name: mailq.Name{Channel: "-", Host: "-"}, Message: m.Name.ID, Path: path, SpoolID: m.SpoolID(),
				Sender: "-", ArrivedAt: m.ModifiedAt, Recipients: []mailq.Recipient{{User: "-"}},
			}}
		}
		for _, job := range jobs {
			job.State = mailq.StateUnloaded
			for i := range job.Recipients {
				job.Recipients[i].Reason = unloaded[path]
			}
			if match(job) && !do(job) {
				return
			}
		}
	}
}

// explainUnloaded says which mail for a destination is not loaded, and why.
func (q *Queue) explainUnloaded(ctx context.Context, x *mailq.Explanation, found bool) {
	name, messages, reason := x.Name, 0, ""
	q.eachUnloaded(ctx, func(job *mailq.Job) bool { return job.Name == name }, func(job *mailq.Job) bool {
		messages, reason = messages+1, job.Recipients[0].Reason
		return true
	})
	if messages == 0 {
		return
	}
	text := mailq.Plural(messages, "message for it is", "messages for it are") + " not loaded: " + reason + "."
	if found {
		text = x.Waits + " " + text
	}
	x.Waits = text
}
