package state

import (
	"math"
	"slices"
	"time"

	"zsched/scheduler"
)

// Table holds what a file says until the mail that was in the queue at the start is
// loaded. It takes about 45 bytes for each recipient. Its methods Threads, Recipients
// and Of do not change it, so any goroutine may call them.
type Table struct {
	// Foreign says that there is a file that is not ours, so that nothing can be
	// appended to it.
	Foreign bool
	Skipped int // lines that are malformed

	pages   []*[tablePage]entry
	entries int
	// index has the number of each entry, from 1, in the lower half of a word at
	// the hash of its recipient or after it; 0: none. The upper half is part of the
	// hash, so that few entries have to be read: they are scattered over the memory.
	// The length is a power of two.
	index       []uint64
	pending     []entry // that are still to be added
	fetched     uint64  // keeps the compiler from leaving out what addPending reads
	diagnostics []diagnostic
	threads     []scheduler.SavedThread
	threadIndex map[[2]string]int
	rates       map[scheduler.RateKey]scheduler.SavedRate
	rules       map[scheduler.ReplyKey]scheduler.SavedRule
	nodes       []string
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

func newTable() *Table {
	return &Table{
		threadIndex: make(map[[2]string]int),
		rates:       make(map[scheduler.RateKey]scheduler.SavedRate),
		rules:       make(map[scheduler.ReplyKey]scheduler.SavedRule),
	}
}

// Recipients is how many recipients the table has.
func (t *Table) Recipients() int { return t.entries }

// Threads is what the file says about threads.
func (t *Table) Threads() []scheduler.SavedThread { return t.threads }

// Shared returns what the file says about rates that several threads share and about
// reply rules, as events for the core. They come before the threads.
func (t *Table) Shared() []scheduler.Event {
	var events []scheduler.Event
	for _, r := range t.rates {
		events = append(events, scheduler.RestoredRate{Rate: r})
	}
	for _, r := range t.rules {
		events = append(events, scheduler.RestoredRule{Rule: r})
	}
	return events
}

// Nodes has the names of the other nodes of the cluster.
func (t *Table) Nodes() []string { return t.nodes }

// Of returns what the file says about the recipients of a message, by offset.
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

// hash returns where a recipient belongs in the index, in the lower bits.
func hash(message uint64, offset uint32) uint64 {
	h := (message ^ uint64(offset)<<40) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// slot returns where in the index a recipient is, or is to be, and the upper half of
// its word.
func (t *Table) slot(message uint64, offset uint32) (i int, tag uint64) {
	h := hash(message, offset)
	tag = h &^ math.MaxUint32
	mask := len(t.index) - 1
	for i = int(h) & mask; ; i = (i + 1) & mask {
		word := t.index[i]
		if word == 0 {
			return i, tag
		}
		if word&^math.MaxUint32 != tag {
			continue
		}
		if e := t.at(uint32(word)); e.message == message && e.offset == offset {
			return i, tag
		}
	}
}

func (t *Table) find(message uint64, offset uint32) *entry {
	i, _ := t.slot(message, offset)
	if word := t.index[i]; word != 0 {
		return t.at(uint32(word))
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
	t.index = make([]uint64, size)
	for n := 1; n <= t.entries; n++ {
		e := t.at(uint32(n))
		i, tag := t.slot(e.message, e.offset)
		t.index[i] = tag | uint64(n)
	}
}

// maxPending is how many entries are added together.
const maxPending = 64

// addLater adds an entry together with others: when there are maxPending of them, or at
// the next addPending. A large index is not in the processor's cache: when many places
// in it are read one right after the other, the processor fetches them all at once.
func (t *Table) addLater(e *entry) {
	t.pending = append(t.pending, *e)
	if len(t.pending) == maxPending {
		t.addPending()
	}
}

func (t *Table) addPending() {
	if t.entries+len(t.pending) > len(t.index)/4*3 {
		t.reserve(max(1024, 2*t.entries))
	}
	mask := uint64(len(t.index) - 1)
	var fetched uint64
	for i := range t.pending {
		fetched |= t.index[hash(t.pending[i].message, t.pending[i].offset)&mask]
	}
	t.fetched = fetched
	for i := range t.pending {
		t.add(&t.pending[i])
	}
	t.pending = t.pending[:0]
}

// add adds an entry, or replaces the one about the same recipient.
func (t *Table) add(e *entry) {
	i, tag := t.slot(e.message, e.offset)
	if word := t.index[i]; word != 0 {
		*t.at(uint32(word)) = *e
		return
	}
	if t.entries == maxEntries {
		return
	}
	if t.entries%tablePage == 0 {
		t.pages = append(t.pages, new([tablePage]entry))
	}
	t.entries++
	t.index[i] = tag | uint64(t.entries)
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
