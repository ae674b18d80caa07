package daemon

// Orders over a restart: those that wait at a stop are read at the start, before any mail.

import (
	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// restoreOrders tells the core which orders an earlier process has not carried out. A HOLD is
// of version 0.9, and its end is in its record.
func (d *Daemon) restoreOrders(records []spool.HoldRecord) {
	l := &d.loop
	orders, err := d.options.Spool.PendingOrders()
	if err != nil {
		l.log.Error().Err(err).Msg("orders that waited when the last scheduler stopped cannot be read, or not all of them")
	}
	holds := make(map[string]*spool.HoldOrder)
	for i := range records {
		for _, id := range records[i].Messages {
			holds[id] = &records[i].HoldOrder
		}
	}
	for _, o := range orders {
		l.Step(scheduler.RestoredOrder{Order: scheduler.SavedOrder{
			Message: scheduler.MessageID(o.ID), ModifiedAt: o.ModifiedAt, Path: o.Path, Channel: o.Channel, Host: o.Host,
			Verb: scheduler.VerbNamed(o.Verb), To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host},
			By: o.By, Why: o.Why, Only: o.Offsets, Hold: (*scheduler.HoldOrder)(holds[ctlfile.SpoolID(o.ID, o.ModifiedAt)]),
		}})
	}
	if d.ordersRestored = len(orders) > 0; d.ordersRestored {
		l.log.Info().Int("orders", len(orders)).Msg("orders of before the start are carried out when their mail is loaded")
	}
}

// pendingOrders returns the orders that wait.
func pendingOrders(core *scheduler.Scheduler) (orders []spool.PendingOrder) {
	for _, o := range core.PendingOrders() {
		orders = append(orders, spool.PendingOrder{
			ID: uint64(o.Message), ModifiedAt: o.ModifiedAt, Path: o.Path, Verb: o.Verb.Name(), Channel: o.Channel, Host: o.Host,
			To: spool.Thread{Channel: o.To.Channel, Host: o.To.Host}, Offsets: o.Only, By: o.By, Why: o.Why,
		})
	}
	return orders
}

// saveOrders writes the orders that wait, for the next start.
func (d *Daemon) saveOrders(orders []spool.PendingOrder) {
	log := &d.loop.log
	if err := d.options.Spool.SavePendingOrders(orders); err != nil {
		log.Error().Err(err).Int("orders", len(orders)).Msg("orders that wait cannot be saved: give them again after the next start")
	} else if len(orders) > 0 {
		log.Info().Int("orders", len(orders)).Msg("orders wait, and are carried out after the next start if the scheduler stops before")
	}
}
