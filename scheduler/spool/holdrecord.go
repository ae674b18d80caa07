package spool

// Hold records: who holds what, why and until when. They are all that says so
// (holdfile.go has the files). A record is on disk before its order is carried out, and
// the release of a message is in its record before its files move back.

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler/view"
)

// HoldRecord is one order to hold messages or threads.
type HoldRecord struct {
	view.Hold
	Number   uint64      // of the file
	Messages []string    // spoolids
	Released []string    // spoolids of those that are still to be moved back, or were
	Threads  []view.Name // whose present and future mail is kept back; in lower case
	// Damaged: the file is damaged, so messages, threads and the end may be missing.
	Damaged   bool
	WrittenAt time.Time // mtime of the file, of a record that was read
}

// Holds writes and reads the records, and knows which messages they name.
type Holds struct {
	places *places

	mu       sync.Mutex              // held while records are read or written
	known    sync.Mutex              // guards messages, for those who do not wait for the disk
	messages map[uint64]recordedHold // by the number of the message
}

// recordedHold is what the records say about a message.
type recordedHold struct {
	spoolID  string
	order    *view.Hold
	released bool
}

// LoadHolds reads the records at the start, before any mail is loaded. An error that wraps
// ErrDamagedHolds comes with all that is readable.
func (h *Holds) LoadHolds() (records []HoldRecord, err error) {
	damage, err := h.recordLists()
	if err != nil {
		return nil, err
	}
	if records, err = h.HoldRecords(); err != nil {
		return nil, err
	}
	for i := range records {
		if r := &records[i]; r.Damaged {
			damage = errors.Join(damage, fmt.Errorf("%s/%d", ordersDir, r.Number))
		}
	}
	if damage != nil {
		damage = fmt.Errorf("%w: %w", ErrDamagedHolds, damage)
	}
	return records, damage
}

// ErrDamagedHolds says that a hold record is damaged, or a list of version 0.9.
var ErrDamagedHolds = errors.New("damaged, so holds and their ends may be missing")

// readHolds reads all records, the oldest first, and remembers which messages they name.
func (h *Holds) readHolds() (records []HoldRecord, err error) {
	if records, err = h.readRecords(); err != nil {
		return nil, err
	}
	messages := make(map[uint64]recordedHold)
	for i := range records {
		records[i].addTo(messages)
	}
	h.known.Lock()
	defer h.known.Unlock()
	h.messages = messages
	return records, nil
}

// addTo adds the messages of a record.
func (r *HoldRecord) addTo(messages map[uint64]recordedHold) {
	order := r.Hold
	for i, id := range slices.Concat(r.Messages, r.Released) {
		if n, ok := ctlfile.SpoolNumber(id); ok {
			messages[n] = recordedHold{id, &order, i >= len(r.Messages)}
		}
	}
}

// holdOf returns what the records say about a message that is loaded.
func (h *Holds) holdOf(id uint64, spoolID string, p Place) (its recordedHold, found bool) {
	h.known.Lock()
	defer h.known.Unlock()
	its, found = h.messages[id]
	found = found && its.spoolID == spoolID
	if found && p == Queue && (its.released || its.order.Ended(time.Now())) {
		found = false
	}
	return its, found
}

// RecordHold writes a record durably, in the caller's goroutine.
func (h *Holds) RecordHold(r HoldRecord) error {
	return h.changeHolds(func() error {
		if err := h.writeRecord(&r); err != nil {
			return err
		}
		h.known.Lock()
		defer h.known.Unlock()
		r.addTo(h.messages)
		return nil
	})
}

// EndHolds records that what a record names is released: before the files of the
// messages are moved back.
func (h *Holds) EndHolds(end HoldRecord) error {
	return h.changeHolds(func() error {
		ids, threads := setOf(end.Messages), setOf(end.Threads)
		err := h.editHolds(func(r *HoldRecord) bool {
			before := len(r.Messages) + len(r.Threads)
			r.Messages = slices.DeleteFunc(r.Messages, func(id string) bool {
				if ids[id] {
					r.Released = append(r.Released, id)
				}
				return ids[id]
			})
			r.Threads = slices.DeleteFunc(r.Threads, func(t view.Name) bool { return threads[t] })
			return len(r.Messages)+len(r.Threads) < before
		})
		if err == nil {
			h.release(end.Messages)
		}
		return err
	})
}

// release remembers that messages are released.
func (h *Holds) release(spoolIDs []string) {
	h.known.Lock()
	defer h.known.Unlock()
	for _, id := range spoolIDs {
		if n, ok := ctlfile.SpoolNumber(id); ok && h.messages[n].spoolID == id {
			its := h.messages[n]
			its.released = true
			h.messages[n] = its
		}
	}
}

// HoldRecords reads all records, the oldest first.
func (h *Holds) HoldRecords() (records []HoldRecord, err error) {
	err = h.changeHolds(func() error {
		records, err = h.readHolds()
		return err
	})
	return records, err
}

// DropHolds removes messages that are not there any more, and threads whose time is over, from the
// record with this number and from earlier ones, which would hold the threads again.
func (h *Holds) DropHolds(over HoldRecord) error {
	return h.changeHolds(func() error {
		ids, threads := setOf(over.Messages), setOf(over.Threads)
		return h.editHolds(func(r *HoldRecord) bool {
			if r.Number > over.Number || r.Damaged {
				return false
			}
			before := len(r.Messages) + len(r.Released) + len(r.Threads)
			isGone := func(id string) bool { return ids[id] }
			r.Messages, r.Released = slices.DeleteFunc(r.Messages, isGone), slices.DeleteFunc(r.Released, isGone)
			r.Threads = slices.DeleteFunc(r.Threads, func(t view.Name) bool { return threads[t] })
			return len(r.Messages)+len(r.Released)+len(r.Threads) < before
		})
	})
}

// changeHolds runs a change of the records, and makes it durable.
func (h *Holds) changeHolds(change func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	return postoffice.SyncDirAt(h.places.office, ordersDir)
}

// editHolds writes those of the records again that edit has changed.
func (h *Holds) editHolds(edit func(*HoldRecord) bool) error {
	records, err := h.readRecords()
	if err != nil {
		return err
	}
	for i := range records {
		if edit(&records[i]) {
			err = errors.Join(err, h.replaceRecord(&records[i]))
		}
	}
	return err
}

func setOf[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}
