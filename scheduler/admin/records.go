package admin

// Hold records that nothing needs any more are removed.

import (
	"context"
	"errors"
	"time"

	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

const (
	// recordsPause is the time between two searches for records that nothing needs. A record
	// that is younger than recordGrace is left: xferd writes it before the messages come.
	recordsPause = time.Hour
	recordGrace  = time.Hour
)

// KeepHolds removes records of holds that are over, until ctx is done.
func (s *Server) KeepHolds(ctx context.Context) {
	ticker := time.NewTicker(recordsPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.queue.orders.pruneHolds(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, daemon.ErrStopped) {
			s.options.Log.Error().Err(err).Msg("records of holds that are over stay")
		}
	}
}

// pruneHolds removes from the records what is not held any more.
func (od *orders) pruneHolds(ctx context.Context) error {
	records, err := od.files.HoldRecords()
	for i := range records {
		err = errors.Join(err, od.pruneRecord(ctx, &records[i]))
	}
	return err
}

// pruneRecord removes from a record what is not held any more. Orders to hold and to release wait for it.
func (od *orders) pruneRecord(ctx context.Context, r *spool.HoldRecord) error {
	now := time.Now()
	if now.Sub(r.WrittenAt) < recordGrace || r.Damaged {
		return nil
	}
	if err := od.beginHold(ctx); err != nil {
		return err
	}
	defer od.endHold()
	over := spool.HoldRecord{Number: r.Number}
	for _, spoolID := range append(r.Messages, r.Released...) {
		needed, err := od.needsHold(ctx, spoolID)
		if err != nil {
			return err
		}
		if !needed {
			over.Messages = append(over.Messages, spoolID)
		}
	}
	if r.Ended(now) {
		over.Threads = r.Threads
	}
	if over.IsEmpty() {
		return nil
	}
	return od.files.DropHolds(over)
}

// needsHold reports whether a message is held, or is to be.
func (od *orders) needsHold(ctx context.Context, spoolID string) (needed bool, err error) {
	known := false
	err = od.port.Ask(ctx, func(l *daemon.Loop) {
		var m view.Message
		m, known = inQueue(l.Core(), spoolID)
		needed = known && (m.UnderHold || m.Hold != nil)
	})
	if err != nil || known {
		return needed, err
	}
	m, err := od.files.Show(spoolID) // perhaps it is not loaded yet
	return m != nil && m.Place <= spool.Hold, err
}
