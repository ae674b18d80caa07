package state

import (
	"math"
	"slices"
	"time"

	"zsched/scheduler"
)

// Table is what a file says, for the time until the mail of the start is loaded.
// It takes about 40 bytes for each recipient. Reading it does not change it, so
// any goroutine may.
type Table struct {
	// Foreign says that there is a file which is none of ours, so that nothing can
	// be appended to it.
	Foreign bool
	Skipped int // lines that are malformed

	pages   []*[tablePage]entry
	entries int
	// index has numbers of entries, from 1, at the hash of their recipients or
	// after it; 0: none. Its length is a power of two.
	index       []uint32
	diagnostics []diagnostic
	threads     []scheduler.SavedThread
	threadIndex map[[2]string]int
}

// entry is an r line.
type entry struct {
	message    uint64
	offset     uint32
	modifiedAt uint32
	nextAt     uint32
	fedAt      uint32
	diagnostic uint32 // index in Table.diagnostics, from 1; 0: none
	attempts   uint16
	step       uint8
	flags      uint8
}

const (
	entryDestinationFailed = 1 << iota
	entryInRetryStep
)

// tablePage is how many entries are allocated at a time.
const tablePage = 1 << 14

// maxEntries bounds a table. Lines about further recipients are skipped.
const maxEntries = math.MaxInt32

func newTable() *Table { return &Table{threadIndex: make(map[[2]string]int)} }

// Recipients is how many recipients the table has.
func (t *Table) Recipients() int { return t.entries }

// Threads is what the file says of threads.
func (t *Table) Threads() []scheduler.SavedThread { return t.threads }

// Of returns what the file says of the recipients of a message, by offset.
func (t *Table) Of(m *scheduler.Message) (known []scheduler.SavedRecipient) {
	if t.entries == 0 {
		return nil
	}
	modifiedAt := m.ModifiedAt.Unix()
	for i := range m.Recipients {
		e := t.find(uint64(m.ID), uint32(m.Recipients[i].Offset))
		if e == nil || int64(e.modifiedAt) != modifiedAt {
			continue
		}
		r := scheduler.SavedRecipient{
			Message: m.ID, Offset: int64(e.offset), ModifiedAt: modifiedAt,
			Attempts: int(e.attempts), NextAt: int64(e.nextAt), FedAt: int64(e.fedAt), Step: int(e.step),
			DestinationFailed: e.flags&entryDestinationFailed != 0, InRetryStep: e.flags&entryInRetryStep != 0,
		}
		if e.diagnostic != 0 {
			d := &t.diagnostics[e.diagnostic-1]
			r.Notary, r.Text = d.notary, d.text
		}
		known = append(known, r)
	}
	slices.SortFunc(known, func(a, b scheduler.SavedRecipient) int { return int(a.Offset - b.Offset) })
	return known
}

// NewerThan reports whether a message has come after the file was last written, so
// that nothing in the file is about it.
func NewerThan(writtenAt time.Time, m *scheduler.Message, now time.Time) bool {
	return m.ModifiedAt.After(writtenAt) && !m.ModifiedAt.After(now)
}

func (t *Table) at(n uint32) *entry { return &t.pages[(n-1)/tablePage][(n-1)%tablePage] }

// slot returns where in the index a recipient is, or is to be.
func (t *Table) slot(message uint64, offset uint32) int {
	h := (message ^ uint64(offset)<<40) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	mask := len(t.index) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		n := t.index[i]
		if n == 0 {
			return i
		}
		if e := t.at(n); e.message == message && e.offset == offset {
			return i
		}
	}
}

func (t *Table) find(message uint64, offset uint32) *entry {
	if n := t.index[t.slot(message, offset)]; n != 0 {
		return t.at(n)
	}
	return nil
}

// reserve makes room in the index for so many entries.
func (t *Table) reserve(entries int) {
	size := 1024
	for size < entries+entries/3 {
		size *= 2
	}
	if size <= len(t.index) {
		return
	}
	t.index = make([]uint32, size)
	for n := uint32(1); n <= uint32(t.entries); n++ {
		e := t.at(n)
		t.index[t.slot(e.message, e.offset)] = n
	}
}

// add adds an entry, or replaces the one about the same recipient.
func (t *Table) add(e *entry) {
	if t.entries+1 > len(t.index)/4*3 {
		t.reserve(max(1024, 2*t.entries))
	}
	slot := t.slot(e.message, e.offset)
	if n := t.index[slot]; n != 0 {
		*t.at(n) = *e
		return
	}
	if t.entries == maxEntries {
		return
	}
	if t.entries%tablePage == 0 {
		t.pages = append(t.pages, new([tablePage]entry))
	}
	t.entries++
	t.index[slot] = uint32(t.entries)
	*t.at(uint32(t.entries)) = *e
}

// addThread adds a thread, or replaces it.
func (t *Table) addThread(thread scheduler.SavedThread) {
	key := [2]string{thread.Channel, thread.Host}
	if i, known := t.threadIndex[key]; known {
		t.threads[i] = thread
		return
	}
	t.threadIndex[key] = len(t.threads)
	t.threads = append(t.threads, thread)
}
