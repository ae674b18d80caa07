package admin

// SHOW HELD and SHOW RULES: who keeps back what, since when, why and until when.
// Also the removal of records that nothing needs any more.

import (
	"context"
	"errors"
	"iter"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// Held yields the held threads and then the held messages, with an item for each
// destination of a message. Among them are those that are to be held when an agent reports.
func (q *Queue) Held(ctx context.Context) iter.Seq2[*mailq.HeldItem, error] {
	return func(yield func(*mailq.HeldItem, error) bool) {
		var threads []*mailq.HeldItem
		var messages []scheduler.MessageID
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			for _, t := range l.Core().HeldThreads() {
				item := heldItem(&mailq.JobLine{Name: t.Name, State: view.Held, Held: true}, &t.HoldOrder)
				item.Messages = threadOutcome(l.Core(), t.Name).Messages
				threads = append(threads, item)
			}
			messages = l.Core().HeldMessages()
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, item := range threads {
			if !yield(item, nil) {
				return
			}
		}
		for _, id := range messages {
			var order *view.Hold
			err := q.port.Ask(ctx, func(l *daemon.Loop) { order = l.Core().MessageHold(id) })
			if err != nil {
				yield(nil, err)
				return
			}
			for job, err := range q.jobs(ctx, walkMessage(id)) {
				if err != nil {
					yield(nil, err)
					return
				}
				if order != nil && !yield(heldItem(job, order), nil) {
					return
				}
			}
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

// Rules yields the reply rules in their order.
func (q *Queue) Rules(ctx context.Context) iter.Seq2[*mailq.RuleItem, error] {
	return func(yield func(*mailq.RuleItem, error) bool) {
		var items []*mailq.RuleItem
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			for _, r := range l.Core().Rules() {
				items = append(items, &mailq.RuleItem{
					File: r.File, Line: r.Line, Pattern: r.Channel + "/" + r.Host, Expression: r.Expression, Action: r.Action,
					Hits: r.Hits, LastAt: r.LastAt, Threads: r.Effects,
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

const (
	// recordsPause is the time between two searches for records that nothing needs. A record
	// that is younger than recordGrace is left: xferd writes it before the messages come.
	recordsPause = time.Hour
	recordGrace  = time.Hour
	// loadedPause is the time between two looks whether the queue is loaded.
	loadedPause = 100 * time.Millisecond
)

// KeepHolds removes records of holds that are over, until ctx is done. When the queue has been
// loaded, it logs how much mail is kept back.
func (s *Server) KeepHolds(ctx context.Context) {
	q := s.queue
	for pause := loadedPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if pause == loadedPause {
			loaded := false
			if q.port.Ask(ctx, func(l *daemon.Loop) { loaded = l.Status().Loaded }) != nil || !loaded {
				continue
			}
			q.logKept(ctx)
			pause = recordsPause
		}
		if err := q.pruneHolds(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, daemon.ErrStopped) {
			q.log.Error().Err(err).Msg("records of holds that are over stay")
		}
	}
}

// pruneHolds removes from the records what is not held any more.
func (q *Queue) pruneHolds(ctx context.Context) error {
	if err := q.beginHold(ctx); err != nil {
		return err
	}
	defer q.endHold()
	records, err := q.files.HoldRecords()
	now := time.Now()
	for i := range records {
		r := &records[i]
		if now.Sub(r.WrittenAt) < recordGrace || r.Damaged {
			continue
		}
		gone, e := q.goneOf(ctx, append(r.Messages, r.Released...))
		if e != nil {
			return e
		}
		if ended := r.Ended(now) && len(r.Threads) > 0; ended || len(gone) > 0 {
			err = errors.Join(err, q.files.DropHolds(r.Number, gone, ended))
		}
	}
	return err
}

// goneOf returns those of the messages that are not held, and are not to be.
func (q *Queue) goneOf(ctx context.Context, spoolIDs []string) (gone []string, err error) {
	for _, spoolID := range spoolIDs {
		var held, known bool
		n, _ := messageNumber(spoolID)
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			id, core := scheduler.MessageID(n), l.Core()
			m := core.Message(id)
			known = m != nil && ctlfile.SpoolID(n, m.ModifiedAt) == spoolID
			held = known && (m.UnderHold || core.MessageHold(id) != nil)
		})
		if err != nil {
			return nil, err
		}
		if !known { // perhaps it is not loaded yet
			m, found, err := q.files.Show(ctx, spoolID)
			if err != nil {
				return nil, err
			}
			held = found && (m.Place == spool.Hold || m.Place == spool.Queue)
		}
		if !held {
			gone = append(gone, spoolID)
		}
	}
	return gone, nil
}

// logKept logs at the start how much mail is kept back. Mail that is kept back
// later is logged at that time.
func (q *Queue) logKept(ctx context.Context) {
	t, err := q.Totals(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, daemon.ErrStopped) {
			q.log.Error().Err(err).Msg("mail that is kept back cannot be counted")
		}
		return
	}
	if t.KeptText(time.Now()) != "" {
		line := q.log.Warn()
		for _, kind := range mailq.KeptKinds {
			line = line.Int(kind.Name, kind.Of(&t).Count)
		}
		line.Msg("mail is kept back")
	}
}
