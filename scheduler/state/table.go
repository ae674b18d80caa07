package state

import (
	"maps"
	"slices"
	"time"

	"zsched/scheduler"
)

// Table holds what a file says until the mail that was in the queue at the start is
// loaded. Its methods do not change it, so any goroutine may call them.
type Table struct {
	Skipped int // lines that are malformed

	recipients  map[recipientKey]entry
	diagnostics []diagnostic
	threads     map[[2]string]scheduler.SavedThread
	rates       map[scheduler.RateKey]scheduler.SavedRate
	nodes       []string
}

// recipientKey is a recipient: the number of its control file and its offset there. With
// offset 0, it is all recipients of a message that was not loaded.
type recipientKey struct {
	message uint64
	offset  uint32
}

// entry is the rest of an r line.
type entry struct {
	modifiedAt, nextAt, fedAt uint32
	diagnostic                uint32 // index in Table.diagnostics, from 1; 0: none
	attempts                  uint16
	step                      uint8
	destinationFailed         bool
	inRetryStep               bool
}

func newTable() *Table {
	return &Table{
		recipients: make(map[recipientKey]entry),
		threads:    make(map[[2]string]scheduler.SavedThread),
		rates:      make(map[scheduler.RateKey]scheduler.SavedRate),
	}
}

// Recipients is how many recipients the table has.
func (t *Table) Recipients() int { return len(t.recipients) }

// Events returns what the file says about rates and threads, as events for the core. They
// come before the mail.
func (t *Table) Events() []scheduler.Event {
	var events []scheduler.Event
	for _, r := range t.rates {
		events = append(events, scheduler.RestoredRate{Rate: r})
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.threads), compareNames) {
		events = append(events, scheduler.Restored{Thread: t.threads[key]})
	}
	return events
}

// compareNames puts threads into the order of channel and host.
func compareNames(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// Nodes has the names of the other nodes of the cluster.
func (t *Table) Nodes() []string { return t.nodes }

// Of returns what the file says about the recipients of a message, by offset. What it says
// about all of them has offset 0.
func (t *Table) Of(m *scheduler.Message) (known []scheduler.SavedRecipient) {
	find := func(offset int64) {
		e, found := t.recipients[recipientKey{uint64(m.ID), uint32(offset)}]
		if !found || int64(e.modifiedAt) != m.ModifiedAt.Unix() {
			return
		}
		r := scheduler.SavedRecipient{
			Message: m.ID, Offset: offset, ModifiedAt: int64(e.modifiedAt),
			Attempts: int(e.attempts), NextAt: int64(e.nextAt), FedAt: int64(e.fedAt), Step: int(e.step),
			DestinationFailed: e.destinationFailed, InRetryStep: e.inRetryStep,
		}
		if e.diagnostic != 0 {
			d := &t.diagnostics[e.diagnostic-1]
			r.Notary, r.Text = d.notary, d.text
		}
		known = append(known, r)
	}
	if len(t.recipients) == 0 {
		return nil
	}
	find(0)
	for i := range m.Recipients {
		find(m.Recipients[i].Offset)
	}
	slices.SortFunc(known, func(a, b scheduler.SavedRecipient) int { return int(a.Offset - b.Offset) })
	return known
}

// NewerThan reports whether a message has come after the file was last written, so
// that nothing in the file is about it.
func NewerThan(writtenAt time.Time, m *scheduler.Message, now time.Time) bool {
	return m.ModifiedAt.After(writtenAt) && !m.ModifiedAt.After(now)
}
