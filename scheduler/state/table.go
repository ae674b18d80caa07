package state

// The table: what was saved of mail that is not loaded yet.

import (
	"maps"
	"slices"

	"zsched/scheduler"
)

// Table holds what a file says until the mail that was in the queue at the start is
// loaded. It is for one goroutine.
type Table struct {
	Skipped int // lines that are malformed

	entries     []entry
	messages    map[uint64]uint32 // index in entries, from 1, of the last one about a message
	diagnostics []diagnostic
	orders      map[scheduler.MessageID][]scheduler.SavedOrder
	late        map[scheduler.MessageID]bool // their control files are read again after the start
	events      []scheduler.Event
}

// entry is an r line.
type entry struct {
	before                    uint32 // index, from 1, of the one before about the same message
	offset                    uint32
	modifiedAt, nextAt, fedAt uint32
	diagnostic                uint32 // index in Table.diagnostics, from 1; 0: none
	attempts                  uint16
	step                      uint8
}

// newTable makes a table with room for so many recipients.
func newTable(recipients int) *Table {
	return &Table{
		entries: make([]entry, 0, recipients), messages: make(map[uint64]uint32, recipients),
		orders: make(map[scheduler.MessageID][]scheduler.SavedOrder), late: make(map[scheduler.MessageID]bool),
	}
}

// Recipients is how many lines about recipients the table has.
func (t *Table) Recipients() int { return len(t.entries) }

// Events returns what the file says about threads, as events for the core. They
// come before the mail.
func (t *Table) Events() []scheduler.Event { return t.events }

// SetLate notes that a control file could not be read at the start, for example because an agent of an
// earlier process has locked it, and is read again.
func (t *Table) SetLate(id scheduler.MessageID) { t.late[id] = true }

// Rest returns what is needed after the start: the orders on the messages that are late; nil: nothing.
func (t *Table) Rest() *Table {
	rest := newTable(0)
	for id := range t.late {
		if orders := t.orders[id]; orders != nil {
			rest.orders[id] = orders
		}
	}
	if len(rest.orders) == 0 {
		return nil
	}
	return rest
}

// LateOrders returns the orders that Orders has not returned yet, of what Rest has returned. They are to
// be saved again.
func (t *Table) LateOrders() (orders []scheduler.SavedOrder) {
	for _, id := range slices.Sorted(maps.Keys(t.orders)) {
		orders = append(orders, t.orders[id]...)
	}
	return orders
}

// Orders returns the orders on a message that have not been carried out, once.
func (t *Table) Orders(m *scheduler.Message) (orders []scheduler.Ordered) {
	defer delete(t.orders, m.ID)
	for _, o := range t.orders[m.ID] {
		if o.ModifiedAt.Unix() == m.ModifiedAt.Unix() {
			orders = append(orders, o.Ordered)
		}
	}
	return orders
}

// Of returns what the file says about the recipients of a message, by offset.
func (t *Table) Of(m *scheduler.Message) (known []scheduler.SavedRecipient) {
	for i := t.messages[uint64(m.ID)]; i != 0; i = t.entries[i-1].before {
		e := &t.entries[i-1]
		if int64(e.modifiedAt) != m.ModifiedAt.Unix() {
			continue
		}
		r := scheduler.SavedRecipient{
			Message: m.ID, Offset: int64(e.offset), ModifiedAt: int64(e.modifiedAt),
			Attempts: int(e.attempts), NextAt: int64(e.nextAt), FedAt: int64(e.fedAt), Step: int(e.step),
		}
		if e.diagnostic != 0 {
			d := &t.diagnostics[e.diagnostic-1]
			r.Notary, r.Text = d.notary, d.text
		}
		known = append(known, r)
	}
	// Of several lines about a recipient, the last one in the file is the first one here.
	slices.SortStableFunc(known, func(a, b scheduler.SavedRecipient) int { return int(a.Offset - b.Offset) })
	return slices.CompactFunc(known, func(a, b scheduler.SavedRecipient) bool { return a.Offset == b.Offset })
}
