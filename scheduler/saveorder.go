package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// Orders that an earlier process has not carried out, because agents had the mail. They are
// applied, one after the other, when the mail arrives, before any of it is fed.

// SavedOrder is an order on one message, or on a part of it for one channel and host.
type SavedOrder struct {
	ModifiedAt time.Time // of the message file
	Ordered
}

// PendingOrders returns the orders that wait, by message and in the order in which they were
// given.
func (s *Scheduler) PendingOrders() (list []SavedOrder) {
	for ref, o := range s.orders.waiting {
		v := s.mail.vertices.At(ref)
		m, key := s.mail.messageOf(v), s.mail.threadOf(v).key
		saved := SavedOrder{m.modifiedAt.time(), *o}
		saved.Targets, saved.Back = []Target{{m.id, key.channel, key.host}}, true
		list = append(list, saved)
	}
	for _, saved := range s.orders.savedOrders {
		list = append(list, saved...)
	}
	slices.SortStableFunc(list, func(a, b SavedOrder) int {
		x, y := a.Targets[0], b.Targets[0]
		return cmp.Or(cmp.Compare(x.Message, y.Message), cmp.Compare(x.Channel, y.Channel), cmp.Compare(x.Host, y.Host))
	})
	return list
}

// keepOrder keeps an order, which is in the event log, until its message arrives.
func (od *orders) keepOrder(o SavedOrder) {
	id := o.Targets[0].Message
	o.recorded = true
	od.savedOrders[id] = append(od.savedOrders[id], o)
}

// restoreOrders applies the orders that wait for a message, which has arrived. It reports whether
// there are any.
func (od *orders) restoreOrders(m *message) (any bool) {
	saved := od.savedOrders[m.id]
	delete(od.savedOrders, m.id)
	for i := range saved {
		o := &saved[i]
		if o.ModifiedAt.Unix() == m.modifiedAt.unix() {
			any = od.apply(&o.Ordered, m, od.targetVertices(&o.Ordered, m, o.Targets), new(Answer)) > 0 || any
		}
	}
	return any
}
