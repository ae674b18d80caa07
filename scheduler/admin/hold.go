package admin

// Held messages: orders about messages under hold/, which the core does not
// know.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// actOnHeld carries out an order about a message that is held.
func (q *Queue) actOnHeld(ctx context.Context, o *mailq.Order, id string) (did mailq.Outcome, err error) {
	copies := q.copiesOf(o)
	did, err = q.actOnOneHeld(ctx, o, id, copies)
	return did, cmp.Or(err, q.recordCopies(copies))
}

// actOnOneHeld does the same, and adds the held copy that a REROUTE makes.
func (q *Queue) actOnOneHeld(ctx context.Context, o *mailq.Order, id string, copies *heldCopies) (mailq.Outcome, error) {
	m, found, err := q.files.Show(ctx, id)
	if err != nil || !found || m.Place != spool.Hold {
		return mailq.Outcome{}, err
	}
	if isMove(o) {
		return mailq.Outcome{}, errHeldStays
	}
	did := countJobs(storedJobs(m))
	if o.Verb == mailq.Requeue { // the router cannot hold it
		did.HoldsLost = 1
	}
	if o.Verb == mailq.Retry {
		return mailq.Outcome{}, errors.New("it is held; mailq release ends that")
	}
	again := *o
	if o.Verb == mailq.Hold {
		records, err := q.files.HoldRecords()
		if err == nil && !changesHold(&again, spool.InForce(records).Messages[m.SpoolID()]) {
			err = errAlreadyHeld
		}
		if err != nil {
			return mailq.Outcome{}, err
		}
	}
	if o.DryRun {
		return did, nil
	}
	if o.Verb == mailq.Hold {
		if err = q.recordHold(&again, []string{m.SpoolID()}); err == nil {
			q.touched(ctx, o, m, spool.Resubmitted{})
		}
		return did, err
	}
	switch o.Verb {
	case mailq.Release:
		err = q.port.Release(ctx, m.Name, nil, touchOf(o, m))
	case mailq.Requeue, mailq.Reroute:
		var sent spool.Resubmitted
		if sent, err = q.resubmitHeld(ctx, m, o.To); err == nil {
			q.touched(ctx, o, m, sent)
			copies.add(m.SpoolID(), sent)
		}
	default:
		err = q.port.Release(ctx, m.Name, outcomes(m, o.Verb), touchOf(o, m))
	}
	if err != nil {
		return mailq.Outcome{}, err
	}
	return did, nil
}

// touchOf returns what the event log says about an order on a held message.
func touchOf(o *mailq.Order, m *spool.Stored) *scheduler.Touched {
	return &scheduler.Touched{
		Message: scheduler.MessageID(m.Name.ID), ModifiedAt: m.ModifiedAt, Recipients: countJobs(storedJobs(m)).Recipients,
		To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host}, Name: string(o.Verb), By: actorText(o), Why: o.Why,
	}
}

// touched reports an order about a held message to the event log. sent says where it was
// resubmitted, if it was.
func (q *Queue) touched(ctx context.Context, o *mailq.Order, m *spool.Stored, sent spool.Resubmitted) {
	// The order has been carried out, so it is reported even if the caller is gone.
	_ = q.port.Ask(context.WithoutCancel(ctx), func(l *daemon.Loop) {
		touch := touchOf(o, m)
		touch.New, touch.NewSpoolID = sent.NewFiles(), sent.SpoolID
		l.Touched(*touch)
	})
}

// countJobs counts the job lines of a held message.
func countJobs(jobs []*mailq.Job) mailq.Outcome {
	did := mailq.Outcome{Messages: 1, Threads: len(jobs)}
	for _, job := range jobs {
		did.Recipients += len(job.Recipients)
	}
	return did
}

// expiredByOrder is the diagnostic of a recipient that failed because of EXPIRE.
// The core uses the same words.
const expiredByOrder = "expired by the administrator"

// outcomes returns what KILL and EXPIRE write about the open recipients of a
// held message.
func outcomes(m *spool.Stored, verb mailq.Verb) (marks []ctlfile.Mark) {
	if m.File == nil {
		return nil
	}
	for i := range m.File.Recipients {
		if m.File.Done(i) {
			continue
		}
		mark := ctlfile.Mark{Offset: m.File.Recipients[i].Offset, Tag: ctlfile.Delivered, Killed: true}
		if verb == mailq.Expire {
			mark.Tag, mark.Diagnose, mark.Killed = ctlfile.Failed, true, false
			mark.Notary = strings.Join([]string{"\x03", "failed", "5.0.0 (" + expiredByOrder + ")", "smtp; 500 (" + expiredByOrder + ")", ""}, "\x01")
			mark.Text = expiredByOrder
		}
		marks = append(marks, mark)
	}
	return marks
}

// resubmitHeld sends the open recipients of a held message elsewhere. If no
// recipient is left open, the message is released, so that it is finished.
func (q *Queue) resubmitHeld(ctx context.Context, m *spool.Stored, to mailq.Name) (sent spool.Resubmitted, err error) {
	sent, err = q.port.ResubmitHeld(ctx, spool.Resubmission{From: spool.Hold, Path: m.Name.Path, Channel: to.Channel, Host: to.Host})
	if err != nil {
		return sent, err
	}
	for _, r := range sent.Recipients {
		if r.Tag == ctlfile.Open || r.Tag == ctlfile.Locked {
			return sent, nil
		}
	}
	if err = q.port.Release(ctx, m.Name, nil, nil); errors.Is(err, daemon.ErrNotHeld) {
		return sent, nil // it was released meanwhile
	}
	return sent, err
}

// releaseHeld releases the held threads and messages that are selected. Threads
// come first, so that their mail is counted before released messages join it.
func (q *Queue) releaseHeld(ctx context.Context, o *mailq.Order, did *tally) error {
	if err := q.releaseThreads(ctx, o, did); err != nil {
		return err
	}
	match := isSelected(o.Where, time.Now())
	for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Hold}}) {
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(storedJobs(m), match) {
			continue
		}
		if !o.DryRun {
			err := q.port.Release(ctx, m.Name, nil, touchOf(o, m))
			if errors.Is(err, daemon.ErrNotHeld) {
				continue // it was released meanwhile
			}
			if err != nil {
				return err
			}
		}
		did.Messages++
		for _, job := range storedJobs(m) {
			did.Recipients += len(job.Recipients)
			did.threads[job.Name] = struct{}{}
		}
	}
	return nil
}

// addHeld adds to an outcome how many held messages an order about a thread or a selection
// leaves as they are. If a thread has no other mail, that is an error.
func (q *Queue) addHeld(ctx context.Context, o *mailq.Order, did *mailq.Outcome) error {
	switch o.Verb {
	case mailq.Hold, mailq.Release, mailq.Suspend, mailq.Lift:
		return nil
	}
	isEmpty := *did == (mailq.Outcome{})
	takesHeld := o.Where != nil && o.Where.State == mailq.StateHeld && o.Verb != mailq.Retry
	switch {
	case o.Message != "", takesHeld, isEmpty && (isMove(o) || o.Where != nil):
		return nil
	case isEmpty:
		return q.whyHeld(ctx, o)
	}
	held, err := q.countHeld(ctx, o)
	did.Held = held
	if err == nil || ctx.Err() != nil {
		return err
	}
	if q.uncounted.Allow("", time.Now()) {
		q.log.Warn().Err(err).Msg("held mail that orders select cannot be counted")
	}
	return nil // the order has been carried out
}

// countHeld counts the held messages that an order about a thread or a selection selects, at
// least in part.
func (q *Queue) countHeld(ctx context.Context, o *mailq.Order) (held int, err error) {
	match := selectedBy(o)
	for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Hold}}) {
		if err != nil {
			return held, err
		}
		if slices.ContainsFunc(storedJobs(m), match) {
			held++
		}
	}
	return held, nil
}

// whyHeld returns the error of an order that has no effect on anything but selects held
// messages; nil: there are none either.
func (q *Queue) whyHeld(ctx context.Context, o *mailq.Order) error {
	held, err := q.countHeld(ctx, o)
	if err != nil {
		return err
	}
	switch are := mailq.Plural(held, "message is", "messages are"); {
	case held == 0:
		return nil
	case o.Verb == mailq.Retry:
		return fmt.Errorf("%s held; mailq release ends that", are)
	case o.Verb == mailq.Hold:
		return fmt.Errorf("%s already held", are)
	case o.Where != nil && o.Where.State == mailq.StateHeld:
		return fmt.Errorf("%s held; this order needs all recipients of a held message, which are not all selected", are)
	default:
		return fmt.Errorf("%s held: select held mail with state=held, or release it first", are)
	}
}

// releaseThreads releases the held threads that are selected. A selection by a
// property that only messages have selects no thread.
func (q *Queue) releaseThreads(ctx context.Context, o *mailq.Order, did *tally) error {
	where, now := o.Where, time.Now()
	if where.NeedsFile() || len(where.Messages) > 0 || where.Sender != "" || where.Reason != "" || where.Older > 0 || where.Younger > 0 {
		return nil
	}
	var threads []spool.Thread
	if err := q.port.Ask(ctx, func(l *daemon.Loop) { threads = l.HeldThreads() }); err != nil {
		return err
	}
	for _, t := range threads {
		name := mailq.Name(t)
		if !where.Matches(&mailq.Job{Name: name, State: mailq.StateHeld, Held: true}, now) {
			continue
		}
		more, err := q.unholdThread(ctx, name, o)
		did.Add(more)
		if more.Threads > 0 {
			did.threads[name] = struct{}{}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// actOnHeldSelection carries out KILL, EXPIRE, REQUEUE or REROUTE on the held
// messages that are selected. The order is about whole messages, so every open
// recipient of a message must be selected.
func (q *Queue) actOnHeldSelection(ctx context.Context, o *mailq.Order, did *tally) error {
	match := isSelected(o.Where, time.Now())
	var held []*spool.Stored
	for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Hold}}) {
		if err != nil {
			return err
		}
		jobs := storedJobs(m)
		if len(jobs) > 0 && !slices.ContainsFunc(jobs, func(j *mailq.Job) bool {
			return !match(j) || len(choose(o.Where, j, offsetsOf(o.Where, j))) < len(j.Recipients)
		}) {
			m.File = nil // read again when its turn comes
			held = append(held, m)
			for _, job := range jobs {
				did.threads[job.Name] = struct{}{}
			}
		}
	}
	copies := q.copiesOf(o)
	var err error
	for _, m := range held {
		var more mailq.Outcome
		more, err = q.actOnOneHeld(ctx, o, m.SpoolID(), copies)
		did.Add(more)
		if err != nil && !errors.Is(err, daemon.ErrNotHeld) {
			break
		}
		err = nil
	}
	return cmp.Or(err, q.recordCopies(copies))
}
