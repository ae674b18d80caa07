package admin

// Mail that is kept back until somebody acts: held, parked, quarantined and
// poisoned mail, counted with the age and the reason of the oldest.

import (
	"cmp"
	"context"
	"sync"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// reuseFactor bounds how much of the time counting may take: a count is reused for
// reuseFactor times as long as the counting took. So the count of a few messages is
// always fresh, and a million held messages are not counted for each query.
const reuseFactor = 20

// countPause is the time until another attempt to count, after one has failed.
const countPause = time.Minute

// keptCounts are counts that need a search through directories or through the
// queue. The caller's goroutine makes that search.
type keptCounts struct {
	mu                        sync.Mutex
	held, parked, quarantined keptCount
	poisoned                  keptCount
}

type keptCount struct {
	kept       mailq.Kept
	freshUntil time.Time
}

// addKept adds the counts of mail that is kept back to the totals.
func (q *Queue) addKept(ctx context.Context, t *mailq.Totals) error {
	k := &q.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range []struct {
		count *keptCount
		place spool.Place
		to    *mailq.Kept
	}{
		{&k.held, spool.Hold, &t.Held}, {&k.parked, spool.Postman, &t.Parked}, {&k.quarantined, spool.Corrupt, &t.Quarantined},
	} {
		err := p.count.refresh(func() (mailq.Kept, error) { return q.countPlace(ctx, p.place) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// The other totals do not depend on these directories.
			q.log.Warn().Err(err).Msg("mail that is kept back cannot be counted; the last count is shown")
			p.count.freshUntil = time.Now().Add(countPause)
		}
		*p.to = p.count.kept
	}
	if t.Poisoned.Count == 0 {
		k.poisoned = keptCount{}
		return nil
	}
	err := k.poisoned.refresh(func() (mailq.Kept, error) { return q.countPoisoned(ctx) })
	t.Poisoned.OldestAt, t.Poisoned.Reason = k.poisoned.kept.OldestAt, k.poisoned.kept.Reason
	return err
}

// refresh counts again if the count is not fresh.
func (c *keptCount) refresh(count func() (mailq.Kept, error)) error {
	begun := time.Now()
	if begun.Before(c.freshUntil) {
		return nil
	}
	kept, err := count()
	if err != nil {
		return err
	}
	now := time.Now()
	c.kept, c.freshUntil = kept, now.Add(reuseFactor*now.Sub(begun))
	return nil
}

func (q *Queue) countPlace(ctx context.Context, p spool.Place) (kept mailq.Kept, err error) {
	census, err := q.files.Count(ctx, p)
	if err != nil || census.Messages == 0 {
		return kept, err
	}
	kept = mailq.Kept{Count: census.Messages, OldestAt: census.OldestAt}
	switch p {
	case spool.Hold:
		records, err := q.files.HoldRecords()
		if err != nil {
			return kept, err
		}
		id := (&spool.Stored{Name: census.Oldest, ModifiedAt: census.OldestAt}).SpoolID()
		if r := latest(records).messages[id]; r != nil {
			kept.Reason = r.Why
		}
	case spool.Postman:
		kept.Reason = "the notice cannot be written"
	default:
		for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{p}, SpoolID: census.Oldest.Path}) {
			if err == nil {
				kept.Reason = m.Reason
			}
		}
	}
	return kept, nil
}

// countPoisoned finds the oldest poisoned mail.
func (q *Queue) countPoisoned(ctx context.Context) (kept mailq.Kept, err error) {
	for item, err := range daemon.Walk(ctx, q.port, walkVertices) {
		if err != nil {
			return kept, err
		}
		v := item.Vertex
		if v == nil || v.State != scheduler.StatePoisoned {
			continue
		}
		kept.Count++
		if !kept.OldestAt.IsZero() && !v.ModifiedAt.Before(kept.OldestAt) {
			continue
		}
		kept.OldestAt, kept.Reason = v.ModifiedAt, "agents died on it"
		for _, r := range v.Recipients {
			kept.Reason = cmp.Or(mailq.LastReply(r.Last), kept.Reason)
		}
	}
	return kept, nil
}
