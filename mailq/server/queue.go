package server

import (
	"context"
	"iter"

	"zsched/mailq"
)

// Queue is what queries are answered from and orders are given to: the
// scheduler, or a picture of one in tests. Its methods are called from any
// goroutine. A sequence takes what it needs in small pieces, so that a large
// queue is shown as it changes and not at one moment; it ends early when ctx
// is done.
type Queue interface {
	// Totals are counters that are kept as things change.
	Totals(ctx context.Context) (mailq.Totals, error)
	// Rings yields every ring, the oldest first.
	Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error]
	// Threads yields every thread, ring by ring, oldest first. A ring without
	// threads has one row whose Thread is nil.
	Threads(ctx context.Context) iter.Seq2[mailq.ThreadRow, error]
	// Thread finds one thread by name.
	Thread(ctx context.Context, name mailq.Name) (row mailq.ThreadRow, found bool, err error)
	// Jobs yields the job lines of one thread in the order taken, or those of
	// all threads when the name is empty.
	Jobs(ctx context.Context, name mailq.Name) iter.Seq2[*mailq.Job, error]
	// Find yields the messages that match, held ones too. It may read many
	// files.
	Find(ctx context.Context, what mailq.Sought) iter.Seq2[*mailq.Message, error]
	// Message is one message, by spoolid or number, held or not.
	Message(ctx context.Context, id string) (m *mailq.Message, found bool, err error)
	// Explain says what a destination's mail waits for.
	Explain(ctx context.Context, name mailq.Name) (*mailq.Explanation, error)
	// Counters are the numbers of SHOW COUNTERS and of metrics by name, such as
	// "SC.StoredMessages-G"; a name that is not there counts as 0.
	Counters(ctx context.Context) (map[string]float64, error)
	// Trigger starts the mail of a host now (ETRN) and says whether there was any.
	Trigger(ctx context.Context, host, text string) (bool, error)
	// Act gives an order.
	Act(ctx context.Context, order mailq.Order) (mailq.Outcome, error)
}
