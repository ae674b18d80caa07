package admin

// Single messages: SHOW MSG.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// maxByLogID is how many messages with one Message-Id the core is asked for.
const maxByLogID = 5000

// Message reads a control file and adds what the core knows.
func (q *Queue) Message(ctx context.Context, id string) (*mailq.Message, bool, error) {
	stored, found, err := q.files.Show(ctx, id)
	if err != nil || !found {
		return nil, false, err
	}
	m, err := q.message(ctx, stored)
	return m, err == nil, err
}

// storedByLogID reads the messages in the queue that have a Message-Id, written
// with or without its angle brackets. The core knows only a hash of it.
func (q *Queue) storedByLogID(ctx context.Context, logID string) (all []*spool.Stored, err error) {
	bare := ctlfile.Unbracketed(logID)
	var candidates []scheduler.MessageID
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		candidates = append(l.Core().ByLogID(bare, maxByLogID), l.Core().ByLogID("<"+bare+">", maxByLogID)...)
	})
	for _, id := range candidates {
		stored, found, err := q.files.Show(ctx, fmt.Sprint(id))
		if err != nil || !found || stored.Place > spool.Hold || stored.File == nil {
			continue
		}
		if strings.EqualFold(ctlfile.Unbracketed(stored.File.LogID), bare) {
			all = append(all, stored)
		}
	}
	return all, err
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
	if f == nil {
		return m, nil
	}
	m.NoFile = stored.Size < 0 && (stored.Place == spool.Queue || stored.Place == spool.Hold)
	m.LogID, m.ErrorsTo = f.LogID, f.ErrorTo
	m.Sender = senderOf(f)
	known, err := q.known(ctx, stored)
	if err != nil {
		return nil, err
	}
	reasons := make(map[int64]string)
	for _, d := range f.Diagnostics {
		reasons[d.Recipient] = d.Text
	}
	m.Recipients = make([]mailq.MessageRecipient, len(f.Recipients))
	why := q.files.WhyUnloaded()[stored.Path()]
	for i := range f.Recipients {
		to := &f.Recipients[i]
		r := &m.Recipients[i]
		*r = mailq.MessageRecipient{
			Name: mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()},
			User: to.User, Originals: to.Originals(), Offset: to.Offset, State: stateIn(f, i, stored.Place), Reason: reasons[to.Offset],
		}
		if k, ok := known[to.Offset]; ok && !f.Done(i) {
			r.State, r.Attempts, r.WakeAt, r.Reason, r.Order, r.OrderTo, r.KeptBack = k.state, k.attempts, k.wakeAt, k.reason, k.order, k.orderTo, k.keptBack
		} else if stored.Place <= spool.Hold && !f.Done(i) && why != "" {
			r.Reason = strings.TrimPrefix(r.Reason+"\rnot loaded: "+why, "\r")
		}
	}
	return m, nil
}

// knownRecipient is what the core knows about a recipient.
type knownRecipient struct {
	state    string
	attempts int
	wakeAt   time.Time
	reason   string
	order    mailq.Verb
	orderTo  string
	keptBack string // MessageRecipient.KeptBack
}

// known returns what the core knows about the recipients of a message, by offset.
func (q *Queue) known(ctx context.Context, stored *spool.Stored) (map[int64]knownRecipient, error) {
	if stored.Place > spool.Hold {
		return nil, nil
	}
	known := make(map[int64]knownRecipient)
	threads := make(map[mailq.Name]*scheduler.ThreadView)
	for job, err := range q.jobs(ctx, walkMessage(scheduler.MessageID(stored.Name.ID))) {
		if err != nil {
			return nil, err
		}
		t, found := threads[job.Name]
		if !found {
			if err := q.port.Ask(ctx, func(l *daemon.Loop) { t, _ = l.Core().Thread(job.Channel, job.Host) }); err != nil {
				return nil, err
			}
			threads[job.Name] = t
		}
		keptBack, wakeAt := keptBack(job, t)
		for _, r := range job.Recipients {
			known[r.Offset] = knownRecipient{job.State, r.Attempts, wakeAt, r.Reason, job.Order, job.OrderTo, keptBack}
		}
	}
	return known, nil
}

// keptBack returns whether the thread of a waiting job is held, and when
// the job is tried next, if that is known: not before the suspension of the thread ends. t is
// nil if the thread is gone.
func keptBack(job *mailq.Job, t *scheduler.ThreadView) (why string, wakeAt time.Time) {
	wakeAt = job.WakeAt
	switch {
	case t == nil || job.State == string(scheduler.StateFed):
		return "", wakeAt
	case t.Held:
		return mailq.StateHeld, time.Time{}
	case t.SuspendedUntil.After(wakeAt):
		wakeAt = t.SuspendedUntil
	}
	return "", wakeAt
}

// stateIn returns the state of a recipient according to the control file alone.
func stateIn(f *ctlfile.File, i int, place spool.Place) string {
	switch {
	case f.Done(i): // it, or another of its alternatives
		return f.Outcome(i)
	case place == spool.Hold:
		return "held"
	case place == spool.Queue:
		return "new" // the scheduler has not loaded it yet
	}
	return "open"
}
