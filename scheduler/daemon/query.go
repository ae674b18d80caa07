package daemon

import (
	"context"
	"iter"

	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
)

// queries is the queue as mailq sees it. Its methods run in the goroutines of
// sessions; what they need of the core they ask the loop for.
type queries struct{ d *Daemon }

var _ server.Queue = queries{}

// walkSlice is how many things of a walk one question takes: 50 µs of the
// loop's time, and 1 ms when the collector has it help.
const walkSlice = 64

// walk yields what a walk comes by, a slice a question. A walk that is given
// up is closed, whatever it was given up for.
func (q queries) walk(ctx context.Context, begin func(*scheduler.Scheduler) *scheduler.Walk) iter.Seq2[scheduler.Item, error] {
	return func(yield func(scheduler.Item, error) bool) {
		var walk *scheduler.Walk
		var items []scheduler.Item
		more := true
		defer func() {
			if walk != nil && more {
				q.d.ask(context.WithoutCancel(ctx), walk.Close)
			}
		}()
		for more {
			err := q.d.ask(ctx, func() {
				if walk == nil {
					walk = begin(q.d.core)
				}
				items, more = walk.Next(walkSlice)
			})
			if err != nil {
				yield(scheduler.Item{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

func (q queries) Totals(ctx context.Context) (t mailq.Totals, err error) {
	err = q.d.ask(ctx, func() {
		c := q.d.core.Counts()
		t = mailq.Totals{
			Agents: c.Agents, IdleAgents: c.AgentsIdle,
			Messages: c.Messages, Threads: c.Threads, Jobs: c.Vertices, Recipients: c.Recipients,
			StartedAt:  q.d.startedAt,
			MessagesIn: c.MessagesIn, MessagesOut: c.MessagesOut,
			RecipientsIn: c.RecipientsIn, RecipientsOut: c.RecipientsOut,
		}
	})
	return t, err
}

func (q queries) Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error] {
	return func(yield func(*mailq.Ring, error) bool) {
		for item, err := range q.walk(ctx, walkRings) {
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

func (q queries) Threads(ctx context.Context) iter.Seq2[mailq.ThreadRow, error] {
	return func(yield func(mailq.ThreadRow, error) bool) {
		var row mailq.ThreadRow
		fresh := false // the ring has had no row yet
		for item, err := range q.walk(ctx, walkThreads) {
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

func (q queries) Thread(ctx context.Context, name mailq.Name) (row mailq.ThreadRow, found bool, err error) {
	err = q.d.ask(ctx, func() {
		t, r := q.d.core.Thread(name.Channel, name.Host)
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
func (q queries) Jobs(ctx context.Context, name mailq.Name) iter.Seq2[*mailq.Job, error] {
	begin := walkVertices
	if name != (mailq.Name{}) {
		begin = func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
	}
	return q.jobs(ctx, begin)
}

func (q queries) jobs(ctx context.Context, begin func(*scheduler.Scheduler) *scheduler.Walk) iter.Seq2[*mailq.Job, error] {
	return func(yield func(*mailq.Job, error) bool) {
		var job *mailq.Job
		for item, err := range q.walk(ctx, begin) {
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
