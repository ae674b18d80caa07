package admin

// Messages that are not loaded: lists of them, and orders that concern them, which say so.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"zsched/mailq"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// addNotLoaded adds to an outcome how many messages the order concerns that are not loaded,
// and why they are not. It is an error if the order has matched nothing else. An order for a
// thread that stays in force will apply to such messages too. A move is
// repeated until nothing is left, so one that matches nothing does not fail.
func (q *Queue) addNotLoaded(ctx context.Context, o *mailq.Order, did *mailq.Outcome) error {
	staysInForce := o.Thread != nil && (o.Verb == mailq.Hold || o.Verb == mailq.Lift)
	isEmpty := *did == (mailq.Outcome{})
	switch {
	case staysInForce, isEmpty && isMove(o), o.Verb == mailq.Release && o.Message == "":
		return nil
	case o.Message != "" && isEmpty:
		return q.whyNotLoaded(ctx, o.Message)
	case o.Message != "":
		return nil
	}
	count, reason := q.countUnloaded(ctx, selectedBy(o))
	if isEmpty && count > 0 {
		return fmt.Errorf("%s not loaded: %s", mailq.Plural(count, "message that matches is", "messages that match are"), reason)
	}
	did.NotLoaded, did.WhyNotLoaded = did.NotLoaded+count, cmp.Or(did.WhyNotLoaded, reason)
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
	if err != nil || !found || m.Place > spool.Hold || len(storedJobs(m)) == 0 {
		return err
	}
	why, known := q.files.WhyUnloaded()[m.Path()]
	if !known {
		why = "the scheduler has not read it yet"
	}
	return fmt.Errorf("the message is not loaded: %s", why)
}

// countUnloaded counts the messages that are not loaded and have a job that matches, and
// returns the reason of one of them.
func (q *Queue) countUnloaded(ctx context.Context, match func(*mailq.JobLine) bool) (count int, reason string) {
	messages := make(map[string]struct{})
	q.eachUnloaded(ctx, match, func(job *mailq.JobLine) bool {
		messages[job.Path], reason = struct{}{}, job.Recipients[0].Reason
		return true
	})
	return len(messages), reason
}

// eachUnloaded reads the messages that are not loaded and calls do with each of their jobs that
// matches, until do returns false. A control file that cannot be understood has one job, for -/-.
func (q *Queue) eachUnloaded(ctx context.Context, match func(*mailq.JobLine) bool, do func(*mailq.JobLine) bool) {
	unloaded := q.files.WhyUnloaded()
	for _, path := range slices.Sorted(maps.Keys(unloaded)) {
		m, found, err := q.files.Show(ctx, path)
		if ctx.Err() != nil {
			return
		}
		if err != nil || !found || m.Place > spool.Hold {
			continue // it has left meanwhile, or it is not known whether it matches
		}
		jobs := storedJobs(m)
		if m.File == nil {
			jobs = []*mailq.JobLine{{
				Name: mailq.Name{Channel: "-", Host: "-"}, Message: view.MessageID(m.Name.ID), Path: path, SpoolID: m.SpoolID(),
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
