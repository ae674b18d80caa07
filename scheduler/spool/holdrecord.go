package spool

// Hold records: who held what, when, why and until when, a file for each order
// under $POSTOFFICE/hold/orders.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// HoldRecord is one HOLD order. Messages are held because their files are under
// hold/, and threads because hold/threads lists them; a record only adds who held
// them, why, and when the hold ends. Of two records about the same message or
// thread, the one with the higher number counts.
type HoldRecord struct {
	Number   uint64    // of the file, set by RecordHold
	Since    time.Time // to the second
	Until    time.Time // to the second; zero: until it is released
	By, Why  string    // one line each
	Messages []string  // spoolids
	Threads  []Thread
}

// Ended reports whether the time of the hold is over.
func (r *HoldRecord) Ended(now time.Time) bool { return !r.Until.IsZero() && !r.Until.After(now) }

const (
	recordsDir = "hold/orders"
	recordTemp = recordsDir + "/.new"
)

// RecordHold writes a record durably, in the caller's goroutine. Each line of the
// file is a word and a value:
//
//	since 2026-11-22T08:00:00Z
//	until 2026-11-22T10:00:00Z
//	by root uid 0
//	because they asked for it
//	message S860194HfBVWBh
//	thread smtp<TAB>example.org
func (s *Spool) RecordHold(r HoldRecord) error {
	text, err := r.text()
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
	if err := postoffice.MakeDir(s.office, recordsDir, 0o750); err != nil {
		return fmt.Errorf("making %s: %w", recordsDir, err)
	}
	numbers, err := s.recordNumbers()
	if err != nil {
		return err
	}
	number := uint64(1)
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1] + 1
	}
	err = postoffice.WriteFile(s.office, recordTemp, text, true)
	if err == nil {
		err = postoffice.Rename(s.office, recordTemp, s.office, recordPath(number))
	}
	if err != nil {
		_ = postoffice.Remove(s.office, recordTemp)
		return fmt.Errorf("writing %s: %w", recordPath(number), err)
	}
	return syncdir.At(s.office, recordsDir)
}

func recordPath(number uint64) string { return recordsDir + "/" + strconv.FormatUint(number, 10) }

func (r *HoldRecord) text() ([]byte, error) {
	var b bytes.Buffer
	line := func(key, value string) {
		value = strings.Map(func(c rune) rune {
			if c < ' ' {
				return ' '
			}
			return c
		}, value)
		b.WriteString(key + " " + value + "\n")
	}
	line("since", r.Since.UTC().Format(time.RFC3339))
	if !r.Until.IsZero() {
		line("until", r.Until.UTC().Format(time.RFC3339))
	}
	line("by", r.By)
	line("because", r.Why)
	for _, id := range r.Messages {
		line("message", id)
	}
	threads, err := printThreads(r.Threads)
	for t := range strings.Lines(string(threads)) {
		b.WriteString("thread " + t)
	}
	return b.Bytes(), err
}

// HoldRecords reads all records, the oldest first. Together with an error, it
// returns what it could read.
func (s *Spool) HoldRecords() (records []HoldRecord, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return nil, errClosed
	}
	numbers, err := s.recordNumbers()
	for _, number := range numbers {
		text, e := postoffice.ReadFile(s.office, recordPath(number), math.MaxInt64)
		switch {
		case e == unix.ENOENT:
		case e != nil:
			err = errors.Join(err, fmt.Errorf("reading %s: %w", recordPath(number), e))
		default:
			records = append(records, parseHoldRecord(number, string(text)))
		}
	}
	return records, err
}

// parseHoldRecord reads a record. Lines that it does not know are skipped.
func parseHoldRecord(number uint64, text string) HoldRecord {
	r := HoldRecord{Number: number}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "since":
			r.Since, _ = time.Parse(time.RFC3339, value)
		case "until":
			r.Until, _ = time.Parse(time.RFC3339, value)
		case "by":
			r.By = value
		case "because":
			r.Why = value
		case "message":
			r.Messages = append(r.Messages, value)
		case "thread":
			threads, _ := parseThreads(value)
			r.Threads = append(r.Threads, threads...)
		}
	}
	return r
}

// DropHoldRecord removes a record whose holds have all ended.
func (s *Spool) DropHoldRecord(number uint64) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return errClosed
	}
	return postoffice.Remove(s.office, recordPath(number))
}

// recordNumbers returns the numbers of all records, ascending.
func (s *Spool) recordNumbers() (numbers []uint64, err error) {
	fd, err := postoffice.OpenDir(s.office, recordsDir)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", recordsDir, err)
	}
	defer postoffice.Close(fd)
	buf := make([]byte, direntBytes)
	for {
		read, err := getdents(fd, buf)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", recordsDir, err)
		}
		if len(read) == 0 {
			slices.Sort(numbers)
			return numbers, nil
		}
		for e := range read.all() {
			if n, err := strconv.ParseUint(string(e.name), 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
}
