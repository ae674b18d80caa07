package admin

// Selections: which job lines an order with WHERE affects.

import (
	"context"
	"iter"
	"strings"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// Select yields the jobs that an order with this selection would affect. With
// state=unloaded, it yields mail that no order affects.
func (q *Queue) Select(ctx context.Context, where mailq.Selection) iter.Seq2[*mailq.JobLine, error] {
	return func(yield func(*mailq.JobLine, error) bool) {
		now := time.Now()
		selected, err := q.selector(ctx, &where, now)
		if err != nil {
			yield(nil, err)
			return
		}
		for job, err := range q.jobs(ctx, walkOf(&where)) {
			if err == nil {
				chosen, found := selected(job)
				if !found {
					continue
				}
				job.Recipients = chosen
			}
			if !yield(job, err) || err != nil {
				return
			}
		}
		if where.State == mailq.StateUnloaded {
			q.eachUnloaded(ctx, isSelected(&where, now), func(job *mailq.JobLine) bool { return yield(job, nil) })
		}
	}
}

// walkOf begins a walk over the part of the queue in which a selection can match.
func walkOf(where *mailq.Selection) walkFunc {
	if len(where.Messages) == 1 {
		if n, ok := messageNumber(where.Messages[0]); ok {
			return walkMessage(scheduler.MessageID(n))
		}
	}
	if len(where.Threads) == 1 {
		return walkThread(lower(where.Threads[0]))
	}
	if isName(where.Channel) && isName(where.Host) {
		return walkThread(lower(mailq.Name{Channel: where.Channel, Host: where.Host}))
	}
	return walkVertices
}

// chooser returns those recipients of a job that are selected, and whether there are any.
type chooser func(*mailq.JobLine) (chosen []mailq.Recipient, found bool)

// selector returns the chooser of a selection for jobs of the queue. Before that, it reads
// what only files contain, in the caller's goroutine.
func (q *Queue) selector(ctx context.Context, where *mailq.Selection, now time.Time) (chooser, error) {
	if !where.NeedsFile() {
		return func(job *mailq.JobLine) ([]mailq.Recipient, bool) {
			if !where.Matches(job, now) {
				return nil, false
			}
			return choose(where, job, nil), true
		}, nil
	}
	type part struct {
		spoolID string
		name    mailq.Name
	}
	parts := make(map[part]map[int64]struct{}) // offsets; nil: all
	err := q.eachStored(ctx, where, func(m *spool.Stored) {
		for _, job := range storedJobs(m) {
			if where.MatchesFile(job) {
				parts[part{job.SpoolID, job.Name}] = offsetsOf(where, job)
			}
		}
	})
	return func(job *mailq.JobLine) ([]mailq.Recipient, bool) {
		offsets, selected := parts[part{job.SpoolID, job.Name}]
		if !selected || !where.Matches(job, now) {
			return nil, false
		}
		chosen := choose(where, job, offsets)
		return chosen, len(chosen) > 0
	}, err
}

// offsetsOf returns the offsets of those recipients of a stored job whose addresses are
// selected; nil: all.
func offsetsOf(where *mailq.Selection, job *mailq.JobLine) map[int64]struct{} {
	if where.Recipient == "" {
		return nil
	}
	offsets := make(map[int64]struct{})
	for i := range job.Recipients {
		if r := &job.Recipients[i]; where.MatchesAddress(r) {
			offsets[r.Offset] = struct{}{}
		}
	}
	return offsets
}

// choose returns those recipients of a job of the queue whose reasons are selected, and whose
// offsets are among these; nil: any.
func choose(where *mailq.Selection, job *mailq.JobLine, offsets map[int64]struct{}) []mailq.Recipient {
	if !where.SelectsRecipients() {
		return job.Recipients
	}
	chosen := []mailq.Recipient{}
	for i := range job.Recipients {
		r := &job.Recipients[i]
		if _, found := offsets[r.Offset]; (found || offsets == nil) && where.MatchesReason(job, r) {
			chosen = append(chosen, *r)
		}
	}
	return chosen
}

// eachStored calls do with the messages of the queue that may be selected by
// what their files say. A Message-Id without wildcards is looked up in the core,
// to avoid reading the whole queue.
func (q *Queue) eachStored(ctx context.Context, where *mailq.Selection, do func(*spool.Stored)) error {
	if where.MessageID != "" && !strings.ContainsAny(where.MessageID, "*?") {
		stored, err := q.storedByMessageID(ctx, where.MessageID)
		for _, m := range stored {
			do(m)
		}
		return err
	}
	for _, p := range []spool.Place{spool.Queue, spool.Hold} {
		for m, err := range q.files.All(ctx, p) {
			if err != nil {
				return err
			}
			do(m)
		}
	}
	return nil
}

// isSelected returns a function that reports whether a job is selected. The job must
// have the fields that are read from files.
func isSelected(where *mailq.Selection, now time.Time) func(*mailq.JobLine) bool {
	return func(job *mailq.JobLine) bool { return where.Matches(job, now) && where.MatchesFile(job) }
}

// selectedBy returns a function that reports whether a stored job belongs to the thread or to
// the selection of an order.
func selectedBy(o *mailq.Order) func(*mailq.JobLine) bool {
	if o.Where != nil {
		return isSelected(o.Where, time.Now())
	}
	return func(job *mailq.JobLine) bool { return o.Thread != nil && job.Name == *o.Thread }
}

// storedJobs returns the job lines that the open recipients of a message have in
// the queue, or would have there.
func storedJobs(m *spool.Stored) (jobs []*mailq.JobLine) {
	if m.File == nil {
		return nil
	}
	byName := make(map[mailq.Name]*mailq.JobLine)
	whole := mailq.JobLine{
		Message: scheduler.MessageID(m.Name.ID), Path: m.Name.Path, SpoolID: m.SpoolID(), ArrivedAt: m.ModifiedAt,
		MessageID: m.File.MessageID,
	}
	if m.Place == spool.Hold {
		whole.State, whole.Held = view.Held, true
	}
	whole.Sender = senderOf(m.File)
	for i := range m.File.Recipients {
		to := &m.File.Recipients[i]
		if m.File.Done(i) {
			continue
		}
		name := mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()}
		job := byName[name]
		if job == nil {
			job = new(mailq.JobLine)
			*job = whole
			job.Name = name
			byName[name] = job
			jobs = append(jobs, job)
		}
		job.Recipients = append(job.Recipients, mailq.Recipient{Offset: to.Offset, User: to.User})
	}
	return jobs
}
