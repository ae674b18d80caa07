package admin

// SHOW HELD: who held what, when, why and until when. Also the end of holds that
// have a time limit.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Held yields the held threads and then the held messages, with an item for each
// destination of a message.
func (q *Queue) Held(ctx context.Context) iter.Seq2[*mailq.HeldItem, error] {
	return func(yield func(*mailq.HeldItem, error) bool) {
		records, err := q.files.HoldRecords()
		if err != nil && !yield(nil, err) {
			return
		}
		by := spool.InForce(records)
		lost := slices.ContainsFunc(records, func(r spool.HoldRecord) bool { return r.Damaged })
		heldItem := func(job *mailq.Job, r *spool.HoldRecord) *mailq.HeldItem {
			item := heldItem(job, r)
			item.EndUnknown = item.EndUnknown || r == nil && lost
			return item
		}
		var threads []spool.Thread
		if err := q.port.Ask(ctx, func(l *daemon.Loop) { threads = l.HeldThreads() }); err != nil {
			yield(nil, err)
			return
		}
		for _, t := range threads {
			item := heldItem(&mailq.Job{Name: mailq.Name(t), State: mailq.StateHeld, Held: true}, by.Threads[t])
			err := q.port.Ask(ctx, func(l *daemon.Loop) { item.Messages = threadOutcome(l.Core(), item.Name).Messages })
			if !yield(item, err) || err != nil {
				return
			}
		}
		for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Hold}}) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			for _, job := range storedJobs(m) {
				if !yield(heldItem(job, by.Messages[job.SpoolID]), nil) {
					return
				}
			}
			delete(by.Messages, m.SpoolID())
		}
		q.toBeHeld(ctx, by.Messages, yield)
	}
}

// toBeHeld yields those of the messages that are in the queue and are to be held when an
// agent reports, and those that have just been moved to hold/.
func (q *Queue) toBeHeld(ctx context.Context, records map[string]*spool.HoldRecord, yield func(*mailq.HeldItem, error) bool) {
	for _, spoolID := range slices.Sorted(maps.Keys(records)) {
		id, found, err := q.inQueue(ctx, spoolID)
		if err != nil {
			yield(nil, err)
			return
		}
		if !found {
			// It may have been moved to hold/ since that was searched.
			m, found, err := q.files.Show(ctx, spoolID)
			if err == nil && found && m.Place == spool.Hold {
				for _, job := range storedJobs(m) {
					if !yield(heldItem(job, records[spoolID]), nil) {
						return
					}
				}
			}
			continue
		}
		for job, err := range q.jobs(ctx, walkMessage(id)) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case job.Order == mailq.Hold:
				if !yield(heldItem(job, records[spoolID]), nil) {
					return
				}
			}
		}
	}
}

func heldItem(job *mailq.Job, r *spool.HoldRecord) *mailq.HeldItem {
	item := &mailq.HeldItem{Job: *job}
	if item.Recipients == nil {
		item.Recipients = []mailq.Recipient{}
	}
	if r != nil {
		item.HeldAt, item.Until, item.By, item.Why = r.Since, r.Until, r.By, r.Why
		if item.EndUnknown = r.EndUnknown; r.EndUnknown {
			item.Until = time.Time{}
		}
	}
	return item
}

// recordHold records a HOLD before it is executed. If it cannot be recorded,
// nothing is held.
func (q *Queue) recordHold(o *mailq.Order, messages []string, threads ...spool.Thread) error {
	now := time.Now()
	r := spool.HoldRecord{Since: now, By: actorText(o), Why: mailq.TrimBlanks(mailq.OneReply(o.Why)), Messages: messages, Threads: threads}
	if o.For > 0 {
		r.Until = wholeSecond(now.Add(o.For))
	}
	if err := q.files.RecordHold(r); err != nil {
		return err
	}
	if o.For > 0 {
		q.endsAt(r.Until)
	}
	return nil
}

// wholeSecond returns the next whole second, to which the end of a hold or suspension is
// recorded: neither ends early.
func wholeSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// endsAt makes KeepHolds wake at the given time or earlier.
func (q *Queue) endsAt(at time.Time) {
	for {
		select {
		case q.ends <- at:
			return
		case sooner := <-q.ends:
			if sooner.Before(at) {
				at = sooner
			}
		}
	}
}

const (
	// holdPause is the time until another attempt to end a hold that could not
	// be ended: an agent still has the message, or files cannot be moved.
	holdPause = time.Minute
	// recordsPause is the time between two searches for records of holds that are
	// over. A record is kept for at least grace, because its order may not have been
	// carried out yet.
	recordsPause = time.Hour
	grace        = time.Minute
	// arrivalPause is how often KeepHolds looks whether there are new records. xferd
	// writes those of held messages that arrive from another node.
	arrivalPause = 5 * time.Second
)

// KeepHolds ends the holds whose time has come, and removes the records of holds
// that are over, until ctx is done.
func (s *Server) KeepHolds(ctx context.Context) {
	q := s.queue
	changedAt := q.files.HoldRecordsChangedAt()
	q.noteDamaged()
	next := q.endHolds(ctx)
	q.noteKept(ctx)
	for {
		timer := time.NewTimer(min(time.Until(next), arrivalPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case at := <-q.ends:
			timer.Stop()
			if at.Before(next) {
				next = at
			}
		case <-timer.C:
			if at := q.files.HoldRecordsChangedAt(); !at.Equal(changedAt) || !next.After(time.Now()) {
				changedAt = at
				next = q.endHolds(ctx)
			}
		}
	}
}

// noteDamaged logs at the start which hold records are damaged.
func (q *Queue) noteDamaged() {
	records, _ := q.files.HoldRecords() // endHolds logs the error
	for i := range records {
		if r := &records[i]; r.Damaged {
			q.log.Error().Str("file", fmt.Sprintf("hold/orders/%d", r.Number)).
				Msg("a hold record is damaged: its holds and earlier ones may last until they are released")
		}
	}
}

// noteKept logs at the start how much mail is kept back. Mail that is kept back
// later is logged at that time.
func (q *Queue) noteKept(ctx context.Context) {
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

// endHolds ends the holds whose time has come, and returns the time at which the
// next one ends.
func (q *Queue) endHolds(ctx context.Context) (next time.Time) {
	now := time.Now()
	next = now.Add(recordsPause)
	records, err := q.files.HoldRecords()
	if err != nil {
		q.log.Error().Err(err).Msg("some records of holds cannot be read")
	}
	by := spool.InForce(records)
	for i := range records {
		r := &records[i]
		p := &recordPass{queue: q, record: r, now: now}
		for _, id := range r.Messages {
			if by.Messages[id] == r {
				p.message(ctx, id)
			}
		}
		for _, t := range r.Threads {
			if by.Threads[t] == r {
				p.thread(ctx, t)
			}
		}
		if did := p.ended; did != (mailq.Outcome{}) {
			q.log.Info().Str("by", r.By).Str("because", r.Why).Time("since", r.Since).
				Int("messages", did.Messages).Int("recipients", did.Recipients).Int("threads", did.Threads).
				Err(p.err).Msg("a hold has reached its time limit")
		} else if p.err != nil && ctx.Err() == nil {
			q.log.Error().Err(p.err).Msg("a hold cannot be ended")
		}
		if ctx.Err() != nil {
			return next
		}
		switch {
		case p.alive && r.Ended(now):
			next = earlier(next, now.Add(holdPause))
		case p.alive && !r.Until.IsZero() && !r.EndUnknown:
			next = earlier(next, r.Until)
		case !p.alive && !r.Damaged && now.Sub(later(r.Since, r.WrittenAt)) >= grace:
			if err := q.files.DropHoldRecord(r.Number); err != nil {
				q.log.Error().Err(err).Msg("a record of a hold cannot be removed")
			}
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// endOfHold returns the order that the scheduler gives when the time of a hold is
// over. The message is "" if it was a thread.
func endOfHold(message string) *mailq.Order {
	return &mailq.Order{
		Verb: mailq.Release, Message: message, By: mailq.Actor{User: "scheduler"}, Why: "the hold has reached its time limit",
	}
}

// recordPass checks the messages and threads of one record.
type recordPass struct {
	queue  *Queue
	record *spool.HoldRecord
	now    time.Time
	alive  bool // something in the record is held or is still to be held
	ended  mailq.Outcome
	err    error // the last one
}

// message ends the hold of a message if its time has come.
func (p *recordPass) message(ctx context.Context, id string) {
	q := p.queue
	m, found, err := q.files.Show(ctx, id)
	switch {
	case err != nil:
		p.alive, p.err = true, err
		return
	case !found:
		return
	case m.Place == spool.Queue && !q.isToBeHeld(ctx, m), m.Place != spool.Queue && m.Place != spool.Hold:
		return
	case !p.record.Ended(p.now):
		p.alive = true
		return
	}
	q.holding <- struct{}{}
	defer func() { <-q.holding }()
	if !p.inForce(func(in *spool.HoldsInForce) *spool.HoldRecord { return in.Messages[id] }) {
		return
	}
	did, err := q.actOnMessage(ctx, endOfHold(id))
	if errors.Is(err, daemon.ErrNotHeld) {
		return
	}
	if err != nil {
		p.alive, p.err = true, err
		return
	}
	p.count(did)
}

// thread ends the hold of a thread if its time has come.
func (p *recordPass) thread(ctx context.Context, t spool.Thread) {
	did := mailq.Outcome{}
	var err error
	if p.record.Ended(p.now) {
		p.queue.holding <- struct{}{}
		defer func() { <-p.queue.holding }()
		if !p.inForce(func(in *spool.HoldsInForce) *spool.HoldRecord { return in.Threads[t] }) {
			return
		}
		did, err = p.queue.unholdThread(ctx, mailq.Name(t), endOfHold(""))
	} else {
		err = p.queue.port.Ask(ctx, func(l *daemon.Loop) { p.alive = p.alive || l.IsHeld(t) })
	}
	if err != nil {
		p.alive, p.err = true, err
		return
	}
	p.count(did)
}

// inForce reports whether the record is still the one in force: a HOLD may have been recorded
// since the pass began. The caller has filled queue.holding.
func (p *recordPass) inForce(find func(*spool.HoldsInForce) *spool.HoldRecord) bool {
	records, err := p.queue.files.HoldRecords()
	by := spool.InForce(records)
	last := find(&by)
	if err == nil && last != nil && last.Number == p.record.Number {
		return true
	}
	p.alive = true
	return false
}

func (p *recordPass) count(did mailq.Outcome) {
	p.ended.Messages += did.Messages
	p.ended.Recipients += did.Recipients
	p.ended.Threads += did.Threads
}

// isToBeHeld reports whether a message of the queue is to be held as soon as no
// agent is working on it.
func (q *Queue) isToBeHeld(ctx context.Context, m *spool.Stored) (pending bool) {
	id := scheduler.MessageID(m.Name.ID)
	for item, err := range daemon.Walk(ctx, q.port, walkMessage(id)) {
		if err != nil {
			return true
		}
		pending = pending || item.Vertex.Ordered == scheduler.VerbHold || item.Vertex.State == scheduler.StateHolding
	}
	return pending
}
