package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// Orders over a restart: those that wait at an orderly stop are saved, and are carried out when
// their mail is loaded, before any of it is fed.

// SavedOrder is an order on a vertex that an earlier process has not carried out.
type SavedOrder struct {
	Message       MessageID
	ModifiedAt    time.Time // of the message file
	Path          string    // of the control file below transport/
	Channel, Host string    // of the vertex
	Verb          Verb
	To            Target     // of VerbReroute
	By, Why       string     // as in Ordered
	Only          []int64    // offsets of the recipients, ascending; nil: all that are open
	Hold          *HoldOrder // of VerbHold; nil: not known
}

// PendingOrders returns the orders that wait, by message and in the order in which they were
// given, and the saved ones whose mail is not loaded yet.
func (s *Scheduler) PendingOrders() (list []SavedOrder) {
	for ref, p := range s.orders {
		v := s.vertices.At(ref)
		m, key := s.messageOf(v), s.threadOf(v).key
		for _, o := range p.list {
			if o.verb == VerbHold {
				continue // its record says so
			}
			list = append(list, SavedOrder{
				Message: m.id, ModifiedAt: m.modifiedAt.time(), Path: s.file(m), Channel: key.channel, Host: key.host,
				Verb: o.verb, To: o.target(), By: o.by, Why: o.why, Only: o.only,
			})
		}
	}
	for _, saved := range s.savedOrders {
		list = append(list, saved...)
	}
	slices.SortStableFunc(list, func(a, b SavedOrder) int {
		return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
	return list
}

// saveOrder keeps an order on a vertex that is not loaded, until it is. It replaces the earlier
// ones on all of the vertex, and a HOLD replaces all of the message.
func (dv *delivery) saveOrder(e *Ordered, n stubRef) {
	s := dv.unloaded.stubs.At(n)
	key := dv.stubThread(s).key
	o := SavedOrder{
		Message: s.id, ModifiedAt: s.modifiedAt.time(), Path: s.path(), Channel: key.channel, Host: key.host,
		Verb: e.Verb, To: e.To, By: e.By, Why: e.Why, Hold: e.Hold,
	}
	if e.Verb.takesParts() {
		o.Only = e.Only[s.id]
	}
	dv.savedOrders[s.id] = append(slices.DeleteFunc(dv.savedOrders[s.id], func(before SavedOrder) bool {
		isSame := before.Channel == o.Channel && before.Host == o.Host
		return o.Only == nil && isSame || o.Verb == VerbHold && before.Verb != VerbHold || before.Verb == VerbHold && o.Verb != VerbHold && o.Only == nil
	}), o)
}

// restoredOrder keeps a saved order until its mail is loaded.
func (dv *delivery) restoredOrder(o SavedOrder) {
	dv.savedOrders[o.Message] = append(dv.savedOrders[o.Message], o)
}

// restoreOrders carries out the saved orders on a message that has arrived, one after the
// other. It reports whether there are any.
func (dv *delivery) restoreOrders(m *message) (any bool) {
	saved := dv.savedOrders[m.id]
	delete(dv.savedOrders, m.id)
	for len(saved) > 0 {
		// What is left of one order is carried out together.
		o, threads := saved[0], make(map[threadKey]bool)
		for len(saved) > 0 && o.isPartOf(&saved[0]) {
			threads[threadKey{saved[0].Channel, saved[0].Host}] = true
			saved = saved[1:]
		}
		e := &Ordered{Verb: o.Verb, To: o.To, Back: true, By: o.By, Why: o.Why, Hold: o.Hold}
		if e.Hold == nil {
			e.Hold = &HoldOrder{By: o.By, Why: o.Why}
		}
		if o.Only != nil {
			e.Only = map[MessageID][]int64{m.id: o.Only}
		}
		vertices := slices.DeleteFunc(dv.openVertices(m), func(v *vertex) bool {
			return m.flags&removing != 0 || m.modifiedAt != dateOf(o.ModifiedAt) || !threads[dv.threadOf(v).key] || dv.affected(v, e) == 0
		})
		if len(vertices) > 0 {
			any = true
			dv.order(e, m, vertices)
		}
	}
	return any
}

// isPartOf reports whether two saved orders were one order on several vertices.
func (o *SavedOrder) isPartOf(other *SavedOrder) bool {
	return o.Verb == other.Verb && o.To == other.To && o.By == other.By && o.Why == other.Why && slices.Equal(o.Only, other.Only)
}
