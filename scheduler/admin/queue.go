package admin

// Questions: the totals and lists of server.Queue, EXPLAIN, SHOW HELD and SHOW RULES; and ETRN.

import (
	"context"
	"iter"
	"strings"

	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// Queue is the scheduler's queue as the query server sees it: server.Queue. Its
// methods run in the goroutines of sessions and post short functions to the
// loop.
type Queue struct {
	options *Options
	read    *reader
	orders  orders
	kept    kept
}

var _ server.Queue = (*Queue)(nil)

// Act carries out an order. The outcome counts what was done, even if there is an error.
func (q *Queue) Act(ctx context.Context, o mailq.Order) (mailq.Outcome, error) {
	return q.orders.act(ctx, &o)
}

// Totals returns the totals at the end of every report.
func (q *Queue) Totals(ctx context.Context) (t mailq.Totals, err error) {
	err = q.read.port.Ask(ctx, func(l *daemon.Loop) {
		c, status := l.Core().Counts(), l.Status()
		t = mailq.Totals{
			Agents: c.Agents, IdleAgents: c.AgentsIdle,
			Messages: c.Messages, Threads: c.Threads, JobLines: c.Vertices, Recipients: c.Recipients, States: c.States,
			StartedAt:  status.StartedAt,
			MessagesIn: c.MessagesIn, MessagesOut: c.MessagesOut,
			RecipientsIn: c.RecipientsIn, RecipientsOut: c.RecipientsOut,
			MessagesFound: c.MessagesFound, RecipientsFound: c.RecipientsFound,
			Reload:  mailq.Reload(status.Reload),
			Loading: !status.Loaded, Stopping: status.Stopping, Spool: mailq.Spool(l.Core().Trouble()),
		}
		t.HeldThreads = oldestOrder(l.Core().HeldThreads())
		t.Held.Count = c.Held
	})
	if err != nil {
		return t, err
	}
	return t, q.kept.addTo(ctx, &t)
}

// Rings yields all rings.
func (q *Queue) Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error] {
	return func(yield func(*mailq.Ring, error) bool) {
		for item, err := range daemon.Walk(ctx, q.read.port, walkRings) {
			if !yield(item.Ring, err) {
				return
			}
		}
	}
}

// Threads yields all rings, each with its threads after it.
func (q *Queue) Threads(ctx context.Context) iter.Seq2[view.Item, error] {
	return daemon.Walk(ctx, q.read.port, walkThreads)
}

// Thread returns one thread; nil: there is none.
func (q *Queue) Thread(ctx context.Context, name mailq.Name) (t *mailq.Thread, err error) {
	err = q.read.port.Ask(ctx, func(l *daemon.Loop) { t = l.Core().Thread(name.Channel, name.Host) })
	return t, err
}

// Jobs yields the job lines of a thread; with an empty name, those of all threads.
func (q *Queue) Jobs(ctx context.Context, name mailq.Name) iter.Seq2[*mailq.JobLine, error] {
	if name == (mailq.Name{}) {
		return q.read.lines(ctx, walkVertices)
	}
	return q.read.lines(ctx, walkThread(name))
}

// Select yields the jobs that an order with this selection would affect. With
// state=unloaded, it yields mail that no order affects.
func (q *Queue) Select(ctx context.Context, where mailq.Selection) iter.Seq2[*mailq.JobLine, error] {
	if where.State == mailq.StateUnloaded {
		return q.read.unloaded(ctx, &where)
	}
	return q.read.selected(ctx, &where)
}

// Explain says what the core knows about a destination.
func (q *Queue) Explain(ctx context.Context, name mailq.Name) (x *mailq.Explanation, err error) {
	name = lower(name)
	err = q.read.port.Ask(ctx, func(l *daemon.Loop) { x, _ = l.Core().Explain(name.Channel, name.Host) })
	return x, err
}

// Trigger starts the delivery of a host's mail (ETRN). It reports whether there
// is any.
func (q *Queue) Trigger(ctx context.Context, host, _ string) (started bool, err error) {
	host = strings.ToLower(host)
	err = q.read.port.Ask(ctx, func(l *daemon.Loop) {
		if started = l.Core().HasMail(host); started {
			l.Step(scheduler.Triggered{Host: host})
		}
	})
	return started, err
}

// Cluster yields the store, the nodes and the limits of the cluster.
func (q *Queue) Cluster(ctx context.Context) iter.Seq2[*mailq.ClusterItem, error] {
	return func(yield func(*mailq.ClusterItem, error) bool) {
		if q.options.Cluster == nil {
			yield(nil, server.Absent("this scheduler is in no cluster: PARAMcluster is not set"))
			return
		}
		items, err := q.options.Cluster(ctx)
		yieldAll(yield, items, err)
	}
}

// Rules yields the reply rules in their order.
func (q *Queue) Rules(ctx context.Context) iter.Seq2[*mailq.RuleItem, error] {
	return func(yield func(*mailq.RuleItem, error) bool) {
		var items []*mailq.RuleItem
		err := q.read.port.Ask(ctx, func(l *daemon.Loop) {
			for _, r := range l.Core().Rules() {
				items = append(items, &mailq.RuleItem{
					File: r.File, Line: r.Line, Pattern: r.Channel + "/" + r.Host, Expression: r.Expression, Action: r.Action,
					Hits: r.Hits, LastAt: r.LastAt,
				})
			}
		})
		yieldAll(yield, items, err)
	}
}

// yieldAll yields the items and then the error, if there is one.
func yieldAll[T any](yield func(*T, error) bool, items []*T, err error) {
	for _, item := range items {
		if !yield(item, nil) {
			return
		}
	}
	if err != nil {
		yield(nil, err)
	}
}

// Held yields the held threads and then the held messages, with an item for each
// destination of a message. Among them are those that are to be held when an agent reports.
func (q *Queue) Held(ctx context.Context) iter.Seq2[*mailq.HeldItem, error] {
	return func(yield func(*mailq.HeldItem, error) bool) {
		var threads []*mailq.HeldItem
		var messages []scheduler.MessageID
		err := q.read.port.Ask(ctx, func(l *daemon.Loop) {
			for _, t := range l.Core().HeldThreads() {
				item := heldItem(&mailq.JobLine{Name: t.Name, State: view.Held, Held: true}, &t.Hold)
				item.Messages = threadOutcome(l.Core(), t.Name).Messages
				threads = append(threads, item)
			}
			messages = l.Core().HeldMessages()
		})
		for _, item := range threads {
			if !yield(item, nil) {
				return
			}
		}
		for i := 0; i < len(messages) && err == nil; i++ {
			var order *view.Hold
			err = q.read.port.Ask(ctx, func(l *daemon.Loop) {
				m, _ := l.Core().Message(messages[i])
				order = m.Hold
			})
			for job, wrong := range q.read.lines(ctx, walkMessage(messages[i])) {
				if err == nil {
					err = wrong
				}
				if err != nil {
					break
				}
				if order != nil && !yield(heldItem(job, order), nil) {
					return
				}
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func heldItem(job *mailq.JobLine, o *view.Hold) *mailq.HeldItem {
	item := &mailq.HeldItem{JobLine: *job, Hold: *o}
	if item.Recipients == nil {
		item.Recipients = []mailq.Recipient{}
	}
	return item
}
