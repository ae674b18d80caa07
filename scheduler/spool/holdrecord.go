package spool

// Hold records: who held what, when, why and until when, as the scheduler reads and
// writes them (internal/holdrecord has the files).

import (
	"fmt"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/holdrecord"
	"zsched/internal/postoffice"
)

// HoldRecord is one HOLD order, or the holds of messages that arrived from another node.
// Messages are held because their files are under hold/, and threads because
// hold/threads lists them; a record only adds who held them, why, and when the hold
// ends. Of two records about the same message or thread, the one with the higher number
// counts.
type HoldRecord struct {
	Number    uint64    // of the file, set by RecordHold
	WrittenAt time.Time // set by HoldRecords
	Since     time.Time // to the second
	Until     time.Time // to the second; zero: until it is released
	By, Why   string    // one line each
	Messages  []string  // spoolids
	Threads   []Thread
	// Damaged: the file is damaged, so messages and threads may be missing in the record.
	Damaged bool
	// EndUnknown: the end of these holds is lost in this record, or a later record that is
	// damaged may have changed it. They last until they are released.
	EndUnknown bool
}

// Ended reports whether the time of the hold is over.
func (r *HoldRecord) Ended(now time.Time) bool {
	return !r.EndUnknown && !r.Until.IsZero() && !r.Until.After(now)
}

// file returns the record as it is written.
func (r *HoldRecord) file() (holdrecord.Record, error) {
	f := holdrecord.Record{Since: r.Since, Until: r.Until, By: r.By, Why: r.Why, Messages: r.Messages}
	threads, err := printThreads(r.Threads)
	for line := range strings.Lines(string(threads)) {
		f.Threads = append(f.Threads, line)
	}
	return f, err
}

// holdRecordOf returns a record that was read.
func holdRecordOf(f *holdrecord.Record) HoldRecord {
	r := HoldRecord{
		Number: f.Number, WrittenAt: f.WrittenAt, Since: f.Since, Until: f.Until, By: f.By, Why: f.Why, Messages: f.Messages,
		Damaged: f.Damaged, EndUnknown: f.Damaged && (f.EndUnknown || f.Until.IsZero()),
	}
	for _, line := range f.Threads {
		threads, _ := parseThreads(line)
		r.Threads = append(r.Threads, threads...)
	}
	return r
}

// RecordHold writes a record durably, in the caller's goroutine.
func (s *Spool) RecordHold(r HoldRecord) error {
	f, err := r.file()
	if err != nil {
		return err
	}
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return errClosed
	}
	s.recording.Lock()
	defer s.recording.Unlock()
	if _, err := s.obtainPair(Hold); err != nil {
		return err
	}
	if err := postoffice.MakeDir(s.office, holdrecord.Dir, 0o750); err != nil {
		return fmt.Errorf("making %s: %w", holdrecord.Dir, err)
	}
	if err := holdrecord.Write(s.office, &f); err != nil {
		return err
	}
	return postoffice.SyncDirAt(s.office, holdrecord.Dir)
}

// HoldRecords reads all records, the oldest first. Together with an error, it
// returns what it could read.
func (s *Spool) HoldRecords() (records []HoldRecord, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return nil, errClosed
	}
	files, err := holdrecord.Read(s.office)
	for i := range files {
		records = append(records, holdRecordOf(&files[i]))
	}
	unknown := false
	for i := len(records) - 1; i >= 0; i-- {
		records[i].EndUnknown = records[i].EndUnknown || unknown
		unknown = unknown || records[i].Damaged
	}
	return records, err
}

// HoldRecordsChangedAt is when a record was last written or removed; zero: there is none.
func (s *Spool) HoldRecordsChangedAt() time.Time {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return time.Time{}
	}
	return holdrecord.ChangedAt(s.office)
}

// DropHoldRecord removes a record whose holds have all ended.
func (s *Spool) DropHoldRecord(number uint64) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return errClosed
	}
	return holdrecord.Remove(s.office, number)
}

// HoldsInForce has the record in force for each held message and thread: the last
// one about it.
type HoldsInForce struct {
	Messages map[string]*HoldRecord // by spoolid
	Threads  map[Thread]*HoldRecord
}

// InForce returns the records that are in force.
func InForce(records []HoldRecord) HoldsInForce {
	in := HoldsInForce{make(map[string]*HoldRecord), make(map[Thread]*HoldRecord)}
	for i := range records {
		r := &records[i]
		for _, id := range r.Messages {
			in.Messages[id] = r
		}
		for _, t := range r.Threads {
			in.Threads[t] = r
		}
	}
	return in
}

// line returns the H line of a recipient that is held: as part of a message under hold/,
// whose spoolid is id, or because its thread is. An id of "" says that its message is not
// held: a record of that is about a hold that was released. The line is "" without a
// record.
func (in *HoldsInForce) line(id string, to *ctlfile.Recipient) string {
	r := in.Messages[id]
	if r == nil {
		r = in.Threads[Thread{to.RouteChannel(), to.RouteHost()}]
	}
	if r == nil {
		return ""
	}
	f := holdrecord.Record{Since: r.Since, Until: r.Until, By: r.By, Why: r.Why}
	if r.EndUnknown {
		f.Until = time.Time{}
	}
	return f.Line()
}
