package admin

// Orders: KILL, EXPIRE, RETRY, HOLD, RELEASE, REQUEUE and REROUTE of messages,
// threads and selections.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// Act carries out an order. The outcome counts what was done, even if there is
// an error.
func (q *Queue) Act(ctx context.Context, o mailq.Order) (mailq.Outcome, error) {
	o.To = lower(o.To)
	if o.Thread != nil {
		name := lower(*o.Thread)
		o.Thread = &name
	}
	if o.Verb == mailq.Reroute && (o.To.Channel == "" || o.To.Host == "") {
		return mailq.Outcome{}, errors.New("missing channel and host to reroute to")
	}
	if strings.ContainsAny(o.To.Channel+o.To.Host, "\n\x00") {
		return mailq.Outcome{}, errors.New("a channel or host cannot contain a line end or NUL")
	}
	if err := q.checkNode(&o); err != nil {
		return mailq.Outcome{}, err
	}
	if err := q.checkCommand(ctx, &o); err != nil {
		return mailq.Outcome{}, err
	}
	switch o.Verb {
	case mailq.Hold, mailq.Release:
		if err := q.beginHold(ctx); err != nil {
			return mailq.Outcome{}, err
		}
		defer q.endHold()
	}
	var did mailq.Outcome
	var err error
	switch {
	case o.Message != "":
		did, err = q.actOnMessage(ctx, &o)
	case o.Thread != nil:
		did, err = q.actOnThread(ctx, &o)
	case o.Where != nil:
		did, err = q.actOnSelection(ctx, &o)
	default:
		err = errors.New("missing message, thread or selection")
	}
	if err == nil {
		err = q.addNotLoaded(ctx, &o, &did)
	}
	return did, err
}

func (q *Queue) actOnMessage(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	id, found, err := q.inQueue(ctx, o.Message)
	if err != nil || !found {
		return mailq.Outcome{}, err
	}
	return q.actOnJobs(ctx, o, walkMessage(id), every)
}

func (q *Queue) actOnThread(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	switch o.Verb {
	case mailq.Hold:
		return q.holdThread(ctx, o)
	case mailq.Lift:
		return q.liftThread(ctx, o)
	case mailq.Release:
		return q.releaseThread(ctx, *o.Thread, o)
	}
	return q.actOnJobs(ctx, o, walkThread(*o.Thread), every)
}

// every selects all job lines.
func every(*view.JobLine) (only []mailq.Recipient, selected bool) { return nil, true }

// actOnSelection first looks through the queue and then acts. Otherwise it would
// find rerouted mail again and again.
func (q *Queue) actOnSelection(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	selected, err := q.selector(ctx, o.Where, time.Now())
	if err != nil {
		return mailq.Outcome{}, err
	}
	did := newTally()
	anyReason := *o.Where
	anyReason.Reason = ""
	jobs := countedJobs{walkOf(o.Where), func(v *view.JobLine) ([]mailq.Recipient, bool) {
		if o.Where.Sender != "" || o.Where.SelectsRecipients() {
			q.withFile(ctx, v)
		}
		if v.NotLoaded > 0 && o.Where.Reason != "" { // it has no last replies to look at
			if anyReason.Matches(v, time.Now()) {
				did.NotLoaded, did.WhyNotLoaded = did.NotLoaded+1, "the limits on memory leave no room for their last replies"
			}
			return nil, false
		}
		chosen, found := selected(v)
		if !o.Where.SelectsRecipients() {
			chosen = nil
		}
		return chosen, found
	}, did}
	if o.Verb == mailq.Release { // threads come first: their mail is counted before released messages join it
		if err := q.releaseThreads(ctx, o, did); err != nil {
			return did.outcome(), err
		}
	}
	err = q.orderJobs(ctx, o, jobs)
	return did.outcome(), err
}

// tally counts what an order has done so far.
type tally struct {
	mailq.Outcome // but for Threads: a thread counts once
	threads       map[mailq.Name]struct{}
}

func newTally() *tally { return &tally{threads: make(map[mailq.Name]struct{})} }

func (t *tally) outcome() mailq.Outcome {
	did := t.Outcome
	did.Threads = len(t.threads)
	return did
}

// isName reports whether a text is a name: not empty and not a pattern.
func isName(s string) bool { return s != "" && !strings.ContainsAny(s, "*?") }

// messageNumber returns the number in a spoolid, a path or a number.
func messageNumber(text string) (n uint64, ok bool) {
	return ctlfile.Number(strings.TrimPrefix(path.Base(text), "S"))
}

// inQueue finds a message of the queue by spoolid, number or path.
func (q *Queue) inQueue(ctx context.Context, text string) (id scheduler.MessageID, found bool, err error) {
	n, ok := messageNumber(text)
	if !ok {
		return 0, false, nil
	}
	id = scheduler.MessageID(n)
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		m := l.Core().Message(id)
		// Numbers are reused, spoolids are not.
		found = m != nil && (!strings.HasPrefix(text, "S") || ctlfile.SpoolID(n, m.ModifiedAt) == text)
	})
	return id, found, err
}

// actOnJobs collects the selected job lines of a walk and carries out the order
// on them.
func (q *Queue) actOnJobs(ctx context.Context, o *mailq.Order, begin walkFunc, selected selectFunc) (mailq.Outcome, error) {
	did := newTally()
	err := q.orderJobs(ctx, o, countedJobs{begin, selected, did})
	return did.outcome(), err
}

// selectFunc reports whether a job line, or a part of it, is selected. If only some of its
// recipients may be, only has those; otherwise it is nil.
type selectFunc func(v *view.JobLine) (only []mailq.Recipient, selected bool)

// countedJobs are the selected job lines of a walk, and the tally that counts
// them.
type countedJobs struct {
	begin    walkFunc
	selected selectFunc
	did      *tally
}

// orderJobs does the work of actOnJobs and adds the outcome to jobs.did.
func (q *Queue) orderJobs(ctx context.Context, o *mailq.Order, jobs countedJobs) error {
	targets, err := q.collect(ctx, o, jobs)
	if err != nil {
		return err
	}
	if len(targets.list) == 0 && targets.stays != nil {
		return targets.stays
	}
	verb := scheduler.VerbNamed(string(o.Verb))
	if verb == 0 {
		return fmt.Errorf("%s is no order about mail", o.Verb)
	}
	hold, err := q.recordOrder(o, targets)
	if err != nil {
		return err
	}
	event := scheduler.Ordered{
		Verb: verb, DryRun: o.DryRun, Hold: hold,
		To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host},
		By: actorText(o), Because: o.Because, Only: targets.only,
	}
	if o.Verb == mailq.Hold || o.Verb == mailq.Release {
		ctx = context.WithoutCancel(ctx) // it is recorded
	}
	did, err := q.order(ctx, event, targets)
	if did.Recipients > 0 && o.Verb != mailq.Release {
		did.KeptBack = len(targets.keptBack)
	}
	jobs.did.Add(did)
	if did.Recipients > 0 {
		maps.Copy(jobs.did.threads, targets.threads)
	}
	switch {
	case err != nil || len(jobs.did.threads) > 0:
	case did.Refused > 0:
		err = errFed
	default:
		err = targets.whyUntouched(o)
	}
	if err == nil && !o.DryRun {
		err = targets.stays
	}
	return err
}

// collect finds the targets of an order. Those of a HOLD are whole messages: it also holds their
// mail for destinations that are not selected. So is the target of any other order about one
// message, except RELEASE, RETRY and a move to another node: its recipients that go to one
// destination then go as one message.
func (q *Queue) collect(ctx context.Context, o *mailq.Order, jobs countedJobs) (*targets, error) {
	whole := o.Verb == mailq.Hold || o.Message != "" && o.Verb != mailq.Release && o.Verb != mailq.Retry && !isMove(o)
	targets := newTargets()
	for item, err := range daemon.Walk(ctx, q.port, jobs.begin) {
		if err != nil {
			return nil, err
		}
		v := item.JobLine
		if v == nil {
			continue
		}
		only, selected := jobs.selected(v)
		if !selected {
			continue
		}
		if err := q.staysHere(o, v, targets); err != nil {
			if targets.stays = err; whole {
				return nil, err
			}
			continue
		}
		switch {
		case !leavesAlone(o, v):
			targets.add(o, v, only)
		case v.Held:
			targets.keptBack[v.Message] = struct{}{}
		case v.Order != "":
			targets.untouched = errOrdered
		}
	}
	targets.byMessage(whole)
	return targets, nil
}

// leavesAlone reports whether an order leaves a job line that it selects as it is. A RELEASE concerns
// held mail, and what is to be held; a RETRY does not concern held mail. The router cannot hold
// a message, so a REQUEUE of a held one must be about the message, or about held mail.
func leavesAlone(o *mailq.Order, v *view.JobLine) bool {
	switch o.Verb {
	case mailq.Release:
		return v.State != view.Held && v.Order != string(mailq.Hold)
	case mailq.Retry:
		return v.Held && v.State != view.Fed
	case mailq.Requeue:
		return v.State == view.Held && o.Message == "" && (o.Where == nil || o.Where.State != view.Held)
	}
	return false
}

// isRetryable reports whether a RETRY has an effect on a job line: no agent has it, no order
// waits for it, and nothing is being written about it.
func isRetryable(v *view.JobLine) bool {
	return v.Order == "" && (v.State == view.Due || v.State == view.Waiting)
}

// actorText says who gave an order, for the event log.
func actorText(o *mailq.Order) string { return strings.TrimSpace(o.By.User + " " + o.By.Peer) }
