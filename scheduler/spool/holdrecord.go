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

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// HoldOrder says who keeps mail back, why and until when, as scheduler.HoldOrder does.
type HoldOrder struct {
	Since, Until time.Time // to the second; Until zero: until somebody ends it
	By, Why      string    // one line each
}

// Ended reports whether its time is over.
func (o *HoldOrder) Ended(now time.Time) bool { return !o.Until.IsZero() && !o.Until.After(now) }

// Thread names a thread, whose present and future mail is kept back. Both words are
// in lower case, because the scheduler groups by them.
type Thread struct{ Channel, Host string }

// HoldRecord is one order to hold messages or threads.
type HoldRecord struct {
	HoldOrder
	Number   uint64   // of the file
	Messages []string // spoolids
	Released []string // spoolids of those that are still to be moved back, or were
	Threads  []Thread
	// Damaged: the file is damaged, so messages, threads and the end may be missing.
	Damaged bool
	// Old: version 0.9 wrote it, so that messages are held only if they lie under hold/.
	Old       bool
	WrittenAt time.Time // mtime of the file, of a record that was read
}

// holds knows which messages the records name, for the loaders.
type holds struct {
	mu       sync.Mutex              // held while records are read or written
	messages map[uint64]recordedHold // by the number of the message; nil: not read yet
	readAt   time.Time
}

// recordedHold is what the records say about a message.
type recordedHold struct {
	spoolID  string
	order    *HoldOrder
	released bool
	old      bool // HoldRecord.Old
}

// LoadHolds reads the records at the start, before any mail is loaded, and converts what
// version 0.9 has left. An error that wraps ErrDamagedHolds comes with all that is readable.
func (s *Spool) LoadHolds() (records []HoldRecord, err error) {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	damage, err := s.convertHolds()
	if err != nil {
		return nil, err
	}
	if records, err = s.readHolds(); err != nil {
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
func (s *Spool) readHolds() (records []HoldRecord, err error) {
	if records, err = s.readRecords(); err != nil {
		return nil, err
	}
	s.holds.messages, s.holds.readAt = make(map[uint64]recordedHold), time.Now()
	for i := range records {
		s.holds.remember(&records[i])
	}
	return records, nil
}

// remember remembers the messages of a record.
func (h *holds) remember(r *HoldRecord) {
	if h.messages == nil {
		return
	}
	order := r.HoldOrder
	for i, id := range slices.Concat(r.Messages, r.Released) {
		if n, ok := ctlfile.SpoolNumber(id); ok {
			h.messages[n] = recordedHold{id, &order, i >= len(r.Messages), r.Old}
		}
	}
}

// holdOf returns what the records say about a message that is loaded. One under hold/ may have
// come from another process, with a record that is not known yet.
func (s *Spool) holdOf(id uint64, spoolID string, p Place) (h recordedHold, found bool, err error) {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	h, found = s.holds.messages[id]
	if (!found || h.spoolID != spoolID) && p == Hold && time.Since(s.holds.readAt) > time.Second || s.holds.messages == nil {
		if _, err := s.readHolds(); err != nil {
			return h, false, err
		}
		h, found = s.holds.messages[id]
	}
	switch found = found && h.spoolID == spoolID; {
	case !found || p == Hold:
	case h.released, h.old, h.order.Ended(time.Now()):
		found = false
	}
	return h, found, nil
}

// RecordHold writes a record durably, in the caller's goroutine.
func (s *Spool) RecordHold(r HoldRecord) error {
	return s.changeHolds(func() error { return s.writeHold(&r) })
}

func (s *Spool) writeHold(r *HoldRecord) error {
	if err := s.writeRecord(r); err != nil {
		return err
	}
	s.holds.remember(r)
	return nil
}

// EndHolds records that what a record names is released: before the files of the
// messages are moved back.
func (s *Spool) EndHolds(end HoldRecord) error {
	return s.changeHolds(func() error {
		for _, id := range end.Messages {
			if n, ok := ctlfile.SpoolNumber(id); ok && s.holds.messages[n].spoolID == id {
				h := s.holds.messages[n]
				h.released = true
				s.holds.messages[n] = h
			}
		}
		ids, threads := setOf(end.Messages), setOf(end.Threads)
		return s.editHolds(func(r *HoldRecord) bool {
			before := len(r.Messages) + len(r.Threads)
			r.Messages = slices.DeleteFunc(r.Messages, func(id string) bool {
				if ids[id] {
					r.Released = append(r.Released, id)
				}
				return ids[id]
			})
			r.Threads = slices.DeleteFunc(r.Threads, func(t Thread) bool { return threads[t] })
			return len(r.Messages)+len(r.Threads) < before
		})
	})
}

// HoldRecords reads all records, the oldest first.
func (s *Spool) HoldRecords() (records []HoldRecord, err error) {
	err = s.changeHolds(func() error {
		records, err = s.readHolds()
		return err
	})
	return records, err
}

// DropHolds removes from a record messages that are not there any more and, if it has ended,
// its threads.
func (s *Spool) DropHolds(number uint64, spoolIDs []string, threads bool) error {
	return s.changeHolds(func() error {
		gone := setOf(spoolIDs)
		return s.editHolds(func(r *HoldRecord) bool {
			if r.Number != number {
				return false
			}
			isGone := func(id string) bool { return gone[id] }
			r.Messages, r.Released = slices.DeleteFunc(r.Messages, isGone), slices.DeleteFunc(r.Released, isGone)
			if threads {
				r.Threads = nil
			}
			return true
		})
	})
}

// changeHolds runs a change of the records, and makes it durable.
func (s *Spool) changeHolds(change func() error) error {
	return s.whileOpen(func() error {
		s.holds.mu.Lock()
		defer s.holds.mu.Unlock()
		if err := change(); err != nil {
			return err
		}
		return s.syncHolds()
	})
}

func (s *Spool) syncHolds() error {
	if err := postoffice.SyncDirAt(s.office, ordersDir); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// editHolds writes those of the records again that edit has changed.
func (s *Spool) editHolds(edit func(*HoldRecord) bool) error {
	records, err := s.readRecords()
	for i := range records {
		if edit(&records[i]) {
			err = errors.Join(err, s.replaceRecord(&records[i]))
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
