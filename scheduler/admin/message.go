package admin

// Single messages: SHOW MSG.

import (
	"context"
	"strings"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// Message reads a control file and adds what the core knows.
func (q *Queue) Message(ctx context.Context, id string) (*mailq.Message, bool, error) {
	var m *mailq.Message
	found, err := q.read.withFile(ctx, id, func(stored *spool.Stored) (err error) {
		m, err = q.message(ctx, stored)
		return err
	})
	return m, found && err == nil, err
}

// message combines what the control file says with what the core knows about the
// recipients.
func (q *Queue) message(ctx context.Context, stored *spool.Stored) (*mailq.Message, error) {
	m := &mailq.Message{
		Message: stored.Name.ID, Path: stored.Name.Path, SpoolID: stored.SpoolID(),
		ArrivedAt: stored.ModifiedAt, Control: stored.Control, Size: max(0, stored.Size),
		Held: stored.Place == spool.Hold,
	}
	f := stored.File
	why := q.read.files.Unloaded()[stored.Path()].Reason
	if f == nil {
		m.Sender = "-"
		if why != "" {
			m.Recipients = []mailq.MessageRecipient{{Name: mailq.Name{Channel: "-", Host: "-"}, User: "-", State: "new", Reason: "not loaded: " + why}}
		}
		return m, nil
	}
	m.NoFile = stored.Size < 0 && (stored.Place == spool.Queue || stored.Place == spool.Hold)
	m.MessageID, m.ErrorsTo = f.MessageID, f.ErrorTo
	m.Sender = senderOf(f)
	known, err := q.known(ctx, stored)
	if err != nil {
		return nil, err
	}
	reasons := make(map[int64]string)
	for _, d := range f.Diagnostics {
		reasons[d.Recipient] = d.Text
	}
	for i := range f.Recipients {
		to := &f.Recipients[i]
		r, isKnown := known[to.Offset]
		if !isKnown || f.Done(i) {
			r = mailq.MessageRecipient{State: stateIn(f, i, stored.Place), Reason: reasons[to.Offset]}
			if stored.Place <= spool.Hold && !f.Done(i) && why != "" {
				r.Reason = strings.TrimPrefix(r.Reason+"\rnot loaded: "+why, "\r")
			}
		}
		r.Name, r.User, r.Offset = mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()}, to.User, to.Offset
		r.Originals = to.Originals()
		m.Recipients = append(m.Recipients, r)
	}
	return m, nil
}

// known returns what the core knows about the recipients of a message, by offset.
func (q *Queue) known(ctx context.Context, stored *spool.Stored) (map[int64]mailq.MessageRecipient, error) {
	if stored.Place > spool.Hold {
		return nil, nil
	}
	known := make(map[int64]mailq.MessageRecipient)
	for line, err := range q.read.lines(ctx, walkMessage(scheduler.MessageID(stored.Name.ID))) {
		if err != nil {
			return nil, err
		}
		for _, r := range line.Recipients {
			known[r.Offset] = mailq.MessageRecipient{
				State: line.State, Wait: line.Wait, WakeAt: line.WakeAt, Attempts: r.Attempts, Reason: r.Reason,
				Order: line.Order, OrderTo: line.OrderTo,
			}
		}
	}
	return known, nil
}

// stateIn returns the state of a recipient according to the control file alone.
func stateIn(f *ctlfile.File, i int, place spool.Place) string {
	switch {
	case f.Done(i): // it, or another of its alternatives
		return f.Outcome(i)
	case place == spool.Hold:
		return view.Held
	case place == spool.Queue:
		return "new" // the scheduler has not loaded it yet
	}
	return "open"
}
