package admin

import (
	"context"
	"iter"

	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// Queue is the scheduler's queue as the query server sees it: server.Queue. Its
// methods run in the goroutines of sessions and post short functions to the
// loop.
type Queue struct {
	port  daemon.Port
	files Files
	// params writes parameters as a clause would set them: Options.Params.
	params func(scheduler.Params) []string
	// Directories of which SHOW COUNTERS tells the free space.
	messageDir, controlDir, logDir string
}

var _ server.Queue = (*Queue)(nil)

func (q *Queue) Totals(ctx context.Context) (t mailq.Totals, err error) {
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		c := l.Core().Counts()
		t = mailq.Totals{
			Agents: c.Agents, IdleAgents: c.AgentsIdle,
			Messages: c.Messages, Threads: c.Threads, Jobs: c.Vertices, Recipients: c.Recipients,
			StartedAt:  l.Status().StartedAt,
			MessagesIn: c.MessagesIn, MessagesOut: c.MessagesOut,
			RecipientsIn: c.RecipientsIn, RecipientsOut: c.RecipientsOut,
		}
	})
	return t, err
}

func (q *Queue) Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error] {
	return func(yield func(*mailq.Ring, error) bool) {
		for item, err := range daemon.Walk(ctx, q.port, walkRings) {
			if err != nil {
				yield(nil, err)
				return
			}
			if item.Ring != nil && !yield(ringOf(item.Ring), nil) {
				return
			}
		}
	}
}

func walkRings(s *scheduler.Scheduler) *scheduler.Walk    { return s.Walk(scheduler.Rings) }
func walkThreads(s *scheduler.Scheduler) *scheduler.Walk  { return s.Walk(scheduler.Threads) }
func walkVertices(s *scheduler.Scheduler) *scheduler.Walk { return s.Walk(scheduler.Vertices) }

func (q *Queue) Threads(ctx context.Context) iter.Seq2[mailq.ThreadRow, error] {
	return func(yield func(mailq.ThreadRow, error) bool) {
		var row mailq.ThreadRow
		fresh := false // the ring has had no row yet
		for item, err := range daemon.Walk(ctx, q.port, walkThreads) {
			switch {
			case err != nil:
				yield(mailq.ThreadRow{}, err)
				return
			case item.Ring != nil:
				if fresh && !yield(row, nil) {
					return
				}
				row, fresh = mailq.ThreadRow{Ring: ringOf(item.Ring)}, true
			case item.Thread != nil:
				if !yield(mailq.ThreadRow{Ring: row.Ring, Thread: threadOf(item.Thread)}, nil) {
					return
				}
				fresh = false
			}
		}
		if fresh {
			yield(row, nil)
		}
	}
}

func (q *Queue) Thread(ctx context.Context, name mailq.Name) (row mailq.ThreadRow, found bool, err error) {
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		t, r := l.Core().Thread(name.Channel, name.Host)
		if t == nil {
			return
		}
		row.Thread, found = threadOf(t), true
		if r != nil {
			row.Ring = ringOf(r)
		}
	})
	if found && row.Ring == nil {
		row.Ring = new(mailq.Ring) // of no clause
	}
	return row, found, err
}

// Jobs puts together what the core gives in parts.
func (q *Queue) Jobs(ctx context.Context, name mailq.Name) iter.Seq2[*mailq.Job, error] {
	begin := walkVertices
	if name != (mailq.Name{}) {
		begin = func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
	}
	return q.jobs(ctx, begin)
}

func (q *Queue) jobs(ctx context.Context, begin func(*scheduler.Scheduler) *scheduler.Walk) iter.Seq2[*mailq.Job, error] {
	return func(yield func(*mailq.Job, error) bool) {
		var job *mailq.Job
		for item, err := range daemon.Walk(ctx, q.port, begin) {
			if err != nil {
				yield(nil, err)
				return
			}
			v := item.Vertex
			switch {
			case v == nil:
			case v.First > 0 && job != nil && job.Message == uint64(v.Message):
				job.Recipients = append(job.Recipients, recipientsOf(v)...)
			default:
				if job != nil && !yield(job, nil) {
					return
				}
				job = jobOf(v)
			}
		}
		if job != nil {
			yield(job, nil)
		}
	}
}
