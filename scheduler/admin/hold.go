package admin

// Held messages: orders about messages under hold/, which the core does not
// know.

import (
	"context"
	"errors"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// actOnHeld carries out an order about a message that is held.
func (q *Queue) actOnHeld(ctx context.Context, o *mailq.Order, id string) (mailq.Outcome, error) {
	m, found, err := q.files.Show(ctx, id)
	if err != nil || !found || m.Place != spool.Hold {
		return mailq.Outcome{}, err
	}
	did := outcomeOf(m)
	if o.Verb == mailq.Hold || o.Verb == mailq.Retry {
		return mailq.Outcome{}, nil
	}
	if o.DryRun {
		return did, nil
	}
	newFiles := ""
	switch o.Verb {
	case mailq.Release:
		err = q.port.Release(ctx, m.Name, nil)
	case mailq.Requeue, mailq.Reroute:
		newFiles, err = q.resubmitHeld(ctx, m, o.To)
	default:
		err = q.port.Release(ctx, m.Name, outcomes(m, o.Verb))
	}
	if err != nil {
		return mailq.Outcome{}, err
	}
	q.touched(ctx, o, m, newFiles)
	return did, nil
}

// touched has the event log tell of an order about a held message. newFiles are
// those that it was resubmitted as.
func (q *Queue) touched(ctx context.Context, o *mailq.Order, m *spool.Stored, newFiles string) {
	// The order is carried out, so that a caller who is gone does not matter.
	_ = q.port.Ask(context.WithoutCancel(ctx), func(l *daemon.Loop) {
		l.Touched(scheduler.Touched{
			Message: scheduler.MessageID(m.Name.ID), ModifiedAt: m.ModifiedAt, Recipients: outcomeOf(m).Recipients,
			To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host}, Name: string(o.Verb), By: actorText(o), Why: o.Why, New: newFiles,
		})
	})
}

// outcomeOf counts the open recipients of a held message.
func outcomeOf(m *spool.Stored) mailq.Outcome {
	did := mailq.Outcome{Messages: 1}
	for _, job := range heldJobs(m) {
		did.Threads++
		did.Recipients += len(job.Recipients)
	}
	return did
}

// expiredByOrder is the diagnostic of a recipient that EXPIRE has failed, as the
// core words it.
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
		mark := ctlfile.Mark{Offset: m.File.Recipients[i].Offset, Tag: ctlfile.Delivered}
		if verb == mailq.Expire {
			mark.Tag, mark.Diagnose = ctlfile.Failed, true
			mark.Notary = strings.Join([]string{"\x03", "failed", "5.0.0 (" + expiredByOrder + ")", "smtp; 500 (" + expiredByOrder + ")", ""}, "\x01")
			mark.Text = expiredByOrder
		}
		marks = append(marks, mark)
	}
	return marks
}

// resubmitHeld sends the open recipients of a held message elsewhere. If no
// recipient is left open, the message is released, so that it is finished.
func (q *Queue) resubmitHeld(ctx context.Context, m *spool.Stored, to mailq.Name) (newFiles string, err error) {
	sent, err := q.port.ResubmitHeld(ctx, spool.Resubmission{From: spool.Hold, Path: m.Name.Path, Channel: to.Channel, Host: to.Host})
	if err != nil {
		return "", err
	}
	newFiles = sent.NewFiles()
	for _, r := range sent.Recipients {
		if r.Tag == ctlfile.Open || r.Tag == ctlfile.Locked {
			return newFiles, nil
		}
	}
	if err = q.port.Release(ctx, m.Name, nil); errors.Is(err, daemon.ErrNotHeld) {
		return newFiles, nil // somebody else has released it
	}
	return newFiles, err
}

// releaseHeld releases the held messages and threads that are selected.
func (q *Queue) releaseHeld(ctx context.Context, o *mailq.Order, released mailq.Outcome) (did mailq.Outcome, err error) {
	did = released
	where, now := o.Where, time.Now()
	names := make(map[mailq.Name]struct{})
	defer func() { did.Threads += len(names) }()
	for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Hold}}) {
		if err != nil {
			return did, err
		}
		if !selected(where, m, now) {
			continue
		}
		if !o.DryRun {
			err := q.port.Release(ctx, m.Name, nil)
			if errors.Is(err, daemon.ErrNotHeld) {
				continue // somebody else has released it
			}
			if err != nil {
				return did, err
			}
			q.touched(ctx, o, m, "")
		}
		did.Messages++
		for _, job := range heldJobs(m) {
			did.Recipients += len(job.Recipients)
			names[job.Name] = struct{}{}
		}
	}
	if where.Sender != "" || where.Reason != "" || where.Older > 0 || where.Younger > 0 {
		return did, nil
	}
	var threads []spool.Thread
	if err := q.port.Ask(ctx, func(l *daemon.Loop) { threads = l.HeldThreads() }); err != nil {
		return did, err
	}
	for _, t := range threads {
		name := mailq.Name(t)
		if !where.Matches(&mailq.Job{Name: name}, now) {
			continue
		}
		more, err := q.unholdThread(ctx, name, o.DryRun)
		did.Messages += more.Messages
		did.Recipients += more.Recipients
		if more.Threads > 0 {
			names[name] = struct{}{}
		}
		if err != nil {
			return did, err
		}
	}
	return did, nil
}

// selected says whether a job line of a held message is selected.
func selected(where *mailq.Selection, m *spool.Stored, now time.Time) bool {
	for _, job := range heldJobs(m) {
		if where.Matches(job, now) {
			return true
		}
	}
	return false
}

// heldJobs returns the job lines that a held message would have in the queue.
func heldJobs(m *spool.Stored) (jobs []*mailq.Job) {
	if m.File == nil {
		return nil
	}
	byName := make(map[mailq.Name]*mailq.Job)
	sender := ""
	if n := len(m.File.Senders); n > 0 && !m.File.NullSender {
		sender = m.File.Senders[n-1].User
	}
	for i := range m.File.Recipients {
		to := &m.File.Recipients[i]
		if m.File.Done(i) {
			continue
		}
		name := mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()}
		job := byName[name]
		if job == nil {
			job = &mailq.Job{Name: name, Sender: sender, ArrivedAt: m.ModifiedAt}
			byName[name] = job
			jobs = append(jobs, job)
		}
		job.Recipients = append(job.Recipients, mailq.Recipient{Offset: to.Offset})
	}
	return jobs
}
