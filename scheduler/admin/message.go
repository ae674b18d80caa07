package admin

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// likelyMost bounds the messages of one log identity that the core is asked
// for.
const likelyMost = 100

// Message reads the files and adds what the core knows.
func (q *Queue) Message(ctx context.Context, id string) (*mailq.Message, bool, error) {
	stored, found, err := q.files.Show(ctx, id)
	if err != nil || !found {
		return nil, false, err
	}
	m, err := q.message(ctx, stored)
	return m, err == nil, err
}

// Find looks through the control files of the queue and of what is held, by
// spoolid also through those that are parked or in quarantine. An identity
// without a pattern of a message in the queue is found at once.
func (q *Queue) Find(ctx context.Context, what mailq.Sought) iter.Seq2[*mailq.Message, error] {
	return func(yield func(*mailq.Message, error) bool) {
		sought := spool.Sought{Places: []spool.Place{spool.Queue, spool.Hold}}
		switch what.Kind {
		case "recipient":
			sought.Recipient = what.Value
		case "sender":
			sought.Sender = what.Value
		case "message-id":
			sought.LogID = what.Value
		case "spoolid":
			sought.SpoolID, sought.Places = what.Value, nil // everywhere
		default:
			yield(nil, fmt.Errorf("cannot look for a %q", what.Kind))
			return
		}
		if what.Kind == "message-id" && !strings.ContainsAny(what.Value, "*?") {
			for _, m := range q.byLogID(ctx, what.Value) {
				if !yield(m, nil) {
					return
				}
			}
			sought.Places = sought.Places[1:]
		}
		for stored, err := range q.files.Find(ctx, sought) {
			var m *mailq.Message
			if err == nil {
				m, err = q.message(ctx, stored)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// byLogID reads the messages in the queue that have a log identity, which is
// written with or without its angle brackets.
func (q *Queue) byLogID(ctx context.Context, logID string) (all []*mailq.Message) {
	bare := strings.TrimSuffix(strings.TrimPrefix(logID, "<"), ">")
	var likely []scheduler.MessageID
	err := q.port.Ask(ctx, func(l *daemon.Loop) {
		likely = append(l.Core().ByLogID(bare, likelyMost), l.Core().ByLogID("<"+bare+">", likelyMost)...)
	})
	if err != nil {
		return nil
	}
	for _, id := range likely {
		stored, found, err := q.files.Show(ctx, fmt.Sprint(id))
		if err != nil || !found || stored.File == nil {
			continue
		}
		if strings.EqualFold(strings.Trim(stored.File.LogID, "<>"), bare) {
			if m, err := q.message(ctx, stored); err == nil {
				all = append(all, m)
			}
		}
	}
	return all
}

// message says what a control file says of a message, and the core of its
// recipients.
func (q *Queue) message(ctx context.Context, stored *spool.Stored) (*mailq.Message, error) {
	m := &mailq.Message{
		Message: stored.Name.ID, Path: stored.Name.Path, SpoolID: stored.SpoolID(),
		ArrivedAt: stored.ModifiedAt, Control: stored.Control, Size: max(0, stored.Size),
		Held: stored.Place == spool.Hold,
	}
	f := stored.File
	if f == nil {
		return m, nil
	}
	m.LogID, m.ErrorsTo = f.LogID, f.ErrorTo
	if n := len(f.Senders); n > 0 && !f.NullSender {
		m.Sender = f.Senders[n-1].User
	}
	known, err := q.known(ctx, stored)
	if err != nil {
		return nil, err
	}
	said := make(map[int64]string)
	for _, d := range f.Diagnostics {
		said[d.Recipient] = d.Text
	}
	m.Recipients = make([]mailq.MessageRecipient, len(f.Recipients))
	for i := range f.Recipients {
		to := &f.Recipients[i]
		r := &m.Recipients[i]
		*r = mailq.MessageRecipient{
			Name: mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()},
			User: to.User, Offset: to.Offset, State: stateIn(f, i, stored.Place), Reason: said[to.Offset],
		}
		if k, ok := known[to.Offset]; ok && !f.Done(i) {
			r.State, r.Attempts, r.WakeAt, r.Reason = k.state, k.attempts, k.wakeAt, k.reason
		}
	}
	return m, nil
}

// knownRecipient is what the core has to say of a recipient.
type knownRecipient struct {
	state    string
	attempts int
	wakeAt   time.Time
	reason   string
}

// known asks the core about the recipients of a message in the queue.
func (q *Queue) known(ctx context.Context, stored *spool.Stored) (map[int64]knownRecipient, error) {
	if stored.Place != spool.Queue {
		return nil, nil
	}
	known := make(map[int64]knownRecipient)
	begin := func(s *scheduler.Scheduler) *scheduler.Walk {
		return s.WalkMessage(scheduler.MessageID(stored.Name.ID))
	}
	for job, err := range q.jobs(ctx, begin) {
		if err != nil {
			return nil, err
		}
		for _, r := range job.Recipients {
			known[r.Offset] = knownRecipient{job.State, r.Attempts, job.WakeAt, r.Reason}
		}
	}
	return known, nil
}

// stateIn is what a control file alone says of a recipient.
func stateIn(f *ctlfile.File, i int, place spool.Place) string {
	switch {
	case f.Recipients[i].Tag == ctlfile.Failed:
		return "failed"
	case f.Done(i): // it, or another of its alternatives
		return "delivered"
	case place == spool.Hold:
		return "held"
	case place == spool.Queue:
		return "new" // the scheduler has not taken it yet
	}
	return "open"
}
