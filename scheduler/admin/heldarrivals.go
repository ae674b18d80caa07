package admin

// Held messages that arrive: the event log is told of those that xferd has taken from
// another node, of those that come back from their way to one, and of the copies that REROUTE
// makes of held messages.

import (
	"context"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// orderedHolds are the spoolids of messages that HOLD orders have named since the last pass of
// heldArrivals. Their new records are not of messages that arrive.
type orderedHolds struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

func (o *orderedHolds) add(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = make(map[string]struct{})
	}
	for _, id := range ids {
		o.ids[id] = struct{}{}
	}
}

// take removes a spoolid and reports whether it was there.
func (o *orderedHolds) take(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, found := o.ids[id]
	delete(o.ids, id)
	return found
}

// heldArrivals finds the held messages that arrive: they have new hold records. The core does
// not know these messages.
type heldArrivals struct {
	queue *Queue
	known map[recordKey]bool // the records of the last pass; nil: there was none
	// awaited are the new records of messages whose files are not there yet, by spoolid.
	awaited map[string]*spool.HoldRecord
}

// recordKey identifies a record: a number is used again when all records are gone.
type recordKey struct {
	number    uint64
	writtenAt time.Time
}

// pass tells the event log which messages have arrived since the last pass. It reports
// whether files are still awaited.
func (a *heldArrivals) pass(ctx context.Context, records []spool.HoldRecord) (awaits bool) {
	before := a.known
	a.known = make(map[recordKey]bool, len(records))
	for i := range records {
		r := &records[i]
		key := recordKey{r.Number, r.WrittenAt}
		a.known[key] = true
		if before[key] {
			continue
		}
		for _, id := range r.Messages {
			if ordered := a.queue.ordered.take(id); !ordered && before != nil && a.queue.eventLog != "" {
				a.awaited[id] = r
			}
		}
	}
	for id, r := range a.awaited {
		m, found, err := a.queue.files.Show(ctx, id)
		switch {
		case (err != nil || !found) && time.Since(r.WrittenAt) < grace:
			continue // the record is written first
		case err == nil && found && m.Place == spool.Hold && m.File != nil:
			arrival := scheduler.HeldArrival{Message: messageOf(m), By: r.By, Why: r.Why}
			_ = a.queue.port.Ask(ctx, func(l *daemon.Loop) { l.HeldArrived(arrival) })
		}
		delete(a.awaited, id)
	}
	return len(a.awaited) > 0
}

// messageOf returns what the event log says about a held message.
func messageOf(m *spool.Stored) scheduler.Message {
	sender := senderOf(m.File)
	out := scheduler.Message{
		ID: scheduler.MessageID(m.Name.ID), Path: m.Name.Path, LogID: m.File.LogID, Sender: sender, NullSender: sender == "",
		ModifiedAt: m.ModifiedAt, ChangedAt: m.ChangedAt, Size: m.Size,
	}
	for i := range m.File.Recipients {
		if to := &m.File.Recipients[i]; !m.File.Done(i) {
			out.Recipients = append(out.Recipients, ctlfile.OpenRecipient{
				Offset: to.Offset, Channel: to.RouteChannel(), Host: to.RouteHost(), User: to.User, Originals: to.Originals(),
			})
		}
	}
	return out
}
