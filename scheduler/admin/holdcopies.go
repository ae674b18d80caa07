package admin

// Holds of messages that REROUTE has made from held ones: they stay held, and have the
// record of the old hold.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler/spool"
)

// losesHold reports whether an order would end a hold: what the router gets is not held, and
// the thread to which mail is rerouted may not be.
func losesHold(o *mailq.Order) bool {
	return o.Verb == mailq.Requeue || o.Verb == mailq.Reroute && o.To.Channel != ctlfile.TransferChannel
}

// heldCopies are the held messages that a REROUTE has made.
type heldCopies struct {
	inForce map[string]*spool.HoldRecord   // by the spoolid of the held message
	made    map[*spool.HoldRecord][]string // spoolids, by the record of the old message
}

// copiesOf returns an empty list for the copies that an order is going to make; nil: it makes
// none. A copy of a message without a record has none either, and is held until it is released.
func (q *Queue) copiesOf(o *mailq.Order) *heldCopies {
	if o.Verb != mailq.Reroute || isMove(o) || o.DryRun {
		return nil
	}
	records, err := q.files.HoldRecords()
	if err != nil {
		q.log.Error().Err(err).Msg("mail is rerouted without some records of holds")
	}
	return &heldCopies{spool.InForce(records).Messages, make(map[*spool.HoldRecord][]string)}
}

// add adds what was made from the message whose spoolid is old.
func (c *heldCopies) add(old string, sent spool.Resubmitted) {
	if c == nil || !sent.Held {
		return
	}
	if r := c.inForce[old]; r != nil {
		c.made[r] = append(c.made[r], sent.SpoolID)
	}
}

// recordCopies writes the records of the copies' holds. The copies are in hold/ already.
func (q *Queue) recordCopies(c *heldCopies) error {
	if c == nil {
		return nil
	}
	older := func(a, b *spool.HoldRecord) int { return cmp.Compare(a.Number, b.Number) }
	for _, old := range slices.SortedFunc(maps.Keys(c.made), older) {
		r := spool.HoldRecord{Since: old.Since, Until: old.Until, By: old.By, Why: old.Why, Messages: c.made[old]}
		if old.EndUnknown {
			r.Until = time.Time{}
		}
		if err := q.files.RecordHold(r); err != nil {
			return fmt.Errorf("the mail was rerouted and is held until it is released: its hold cannot be recorded: %w", err)
		}
		if !r.Until.IsZero() {
			q.endsAt(r.Until)
		}
	}
	return nil
}
