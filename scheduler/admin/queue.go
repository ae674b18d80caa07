package admin

// The lists: SHOW SNMP, SHOW QUEUE, SHOW THREAD; and ETRN.

import (
	"context"
	"iter"
	"strings"

	"github.com/rs/zerolog"

	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// Queue is the scheduler's queue as the query server sees it: server.Queue. Its
// methods run in the goroutines of sessions and post short functions to the
// loop.
type Queue struct {
	port                           daemon.Port
	files                          Files
	params                         func(rule.Params) []string // Options.Params
	messageDir, controlDir, logDir string                     // Options
	nodes                          func() ([]string, error)   // Options
	ownNames                       []string                   // Options
	cluster                        Cluster                    // Options
	log                            zerolog.Logger
	// holding has room for one. It is full while a HOLD or RELEASE is
	// carried out.
	holding chan struct{}
	kept    keptCounts
}

var _ server.Queue = (*Queue)(nil)

// Totals returns the totals at the end of every report.
func (q *Queue) Totals(ctx context.Context) (t mailq.Totals, err error) {
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		c, status := l.Core().Counts(), l.Status()
		t = mailq.Totals{
			Agents: c.Agents, IdleAgents: c.AgentsIdle,
			Messages: c.Messages, Threads: c.Threads, Jobs: c.Vertices, Recipients: c.Recipients, States: c.States,
			StartedAt:  status.StartedAt,
			MessagesIn: c.MessagesIn, MessagesOut: c.MessagesOut,
			RecipientsIn: c.RecipientsIn, RecipientsOut: c.RecipientsOut,
			Blocked:  mailq.Kept{Count: c.States[view.Blocked]},
			Reload:   mailq.Reload(status.Reload),
			Stopping: status.Stopping, Spool: mailq.Spool(l.Core().Trouble()),
		}
		t.HeldThreads = oldestOrder(l.Core().HeldThreads())
		t.Held.Count = c.UnderHold
	})
	if err != nil {
		return t, err
	}
	return t, q.addKept(ctx, &t)
}

// walkFunc begins a walk over the queue.
type walkFunc func(*scheduler.Scheduler) *scheduler.Walk

func walkRings(s *scheduler.Scheduler) *scheduler.Walk    { return s.Walk(scheduler.Rings) }
func walkThreads(s *scheduler.Scheduler) *scheduler.Walk  { return s.Walk(scheduler.Threads) }
func walkVertices(s *scheduler.Scheduler) *scheduler.Walk { return s.Walk(scheduler.Vertices) }

func walkThread(name mailq.Name) walkFunc {
	return func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
}

func walkMessage(id scheduler.MessageID) walkFunc {
	return func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkMessage(id) }
}

// Rings yields all rings.
func (q *Queue) Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error] {
	return func(yield func(*mailq.Ring, error) bool) {
		for item, err := range daemon.Walk(ctx, q.port, walkRings) {
			if !yield(item.Ring, err) {
				return
			}
		}
	}
}

// Threads yields all rings, each with its threads after it.
func (q *Queue) Threads(ctx context.Context) iter.Seq2[view.Item, error] {
	return daemon.Walk(ctx, q.port, walkThreads)
}

// Thread returns one thread; nil: there is none.
func (q *Queue) Thread(ctx context.Context, name mailq.Name) (t *mailq.Thread, err error) {
	err = q.port.Ask(ctx, func(l *daemon.Loop) { t = l.Core().Thread(name.Channel, name.Host) })
	return t, err
}

// Jobs yields the job lines of a thread; with an empty name, those of all threads.
func (q *Queue) Jobs(ctx context.Context, name mailq.Name) iter.Seq2[*mailq.JobLine, error] {
	if name == (mailq.Name{}) {
		return q.jobs(ctx, walkVertices)
	}
	return q.jobs(ctx, walkThread(name))
}

// jobs yields the job lines of a walk.
func (q *Queue) jobs(ctx context.Context, begin walkFunc) iter.Seq2[*mailq.JobLine, error] {
	return func(yield func(*mailq.JobLine, error) bool) {
		for item, err := range daemon.Walk(ctx, q.port, begin) {
			if err != nil {
				yield(nil, err)
				return
			}
			if item.JobLine != nil && !yield(q.withFile(ctx, item.JobLine), nil) {
				return
			}
		}
	}
}

// Trigger starts the delivery of a host's mail (ETRN). It reports whether there
// is any.
func (q *Queue) Trigger(ctx context.Context, host, _ string) (started bool, err error) {
	host = strings.ToLower(host)
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		if started = l.Core().HasMail(host); started {
			l.Step(scheduler.Triggered{Host: host})
		}
	})
	return started, err
}

// Cluster yields the store, the nodes and the limits of the cluster.
func (q *Queue) Cluster(ctx context.Context) iter.Seq2[*mailq.ClusterItem, error] {
	return func(yield func(*mailq.ClusterItem, error) bool) {
		if q.cluster == nil {
			yield(nil, server.Absent("this scheduler is in no cluster: PARAMcluster is not set"))
			return
		}
		items, err := q.cluster.Show(ctx)
		yieldAll(yield, items, err)
	}
}
