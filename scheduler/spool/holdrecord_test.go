package spool

import (
	"errors"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHoldRecordsAreReadAsTheyAreWritten(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	if records, err := s.holds.HoldRecords(); len(records) > 0 || err != nil {
		t.Fatalf("%+v, %v", records, err)
	}
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	first := HoldRecord{HoldOrder: HoldOrder{since, since.Add(2 * time.Hour), "root uid 0", "they\nasked"}, Messages: []string{"S1A", "S2B"}}
	second := HoldRecord{HoldOrder: HoldOrder{Since: since}, Threads: []Thread{{"#a", "b"}, {"smtp", `"x y"`}, {"smtp", "example.org"}}}
	for _, r := range []HoldRecord{first, second} {
		if err := s.holds.RecordHold(r); err != nil {
			t.Fatal(err)
		}
	}
	first.Number, first.Because, second.Number = 1, "they asked", 2
	records, err := s.holds.HoldRecords()
	for i := range records {
		if records[i].WrittenAt.IsZero() {
			t.Errorf("record %d was written at no time", i)
		}
		records[i].WrittenAt = time.Time{}
	}
	if err != nil || !reflect.DeepEqual(records, []HoldRecord{first, second}) {
		t.Errorf("%+v, %v", records, err)
	}
	check(t, s.holds.DropHolds(1, first.Messages, false))
	if err := s.holds.RecordHold(first); err != nil {
		t.Fatal(err)
	}
	if records, err := s.holds.HoldRecords(); err != nil || len(records) != 2 || records[0].Number != 2 || records[1].Number != 3 {
		t.Errorf("%+v, %v", records, err)
	}
}

// A record that could not be written leaves no temporary file, and the start removes what a
// scheduler has left that died.
func TestTemporaryFilesOfHoldRecordsAreRemoved(t *testing.T) {
	o := newTestSpool(t)
	o.write("hold/orders/.new-999999999", "since")
	own := "hold/orders/.new-" + strconv.Itoa(os.Getpid())
	o.write(own, "since")
	s := o.open(Options{}).s
	o.holds()
	var limit syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 4096
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	err := s.holds.RecordHold(HoldRecord{HoldOrder: HoldOrder{Because: strings.Repeat("x", 8192)}, Messages: []string{"S1A"}})
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if err == nil {
		t.Error("a file beyond the limit was written")
	}
	o.holds()
}

// A record that is cut or filled with zero bytes ends no hold, and what it names is held.
func TestDamagedHoldRecordsEndNoHold(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	now := time.Now()
	check(t, s.holds.RecordHold(HoldRecord{HoldOrder: HoldOrder{now, now.Add(time.Hour), "root", "why"}, Messages: []string{"S1A", "S2B"}}))
	text := o.read("hold/orders/1")
	texts := []string{strings.Repeat("\x00", len(text))}
	for n := range len(text) {
		texts = append(texts, text[:n])
	}
	for _, damaged := range texts {
		o.write("hold/orders/1", damaged)
		records, err := s.holds.LoadHolds()
		if !errors.Is(err, ErrDamagedHolds) || len(records) != 1 || !records[0].Damaged {
			t.Fatalf("%q: %+v, %v", damaged, records, err)
		}
		if records[0].Ended(now.Add(2 * time.Hour)) {
			t.Errorf("%q: its hold ends", damaged)
		}
		if len(records[0].Messages) > 0 && records[0].Messages[0] != "S1A" {
			t.Errorf("%q: %q", damaged, records[0].Messages)
		}
	}
}

// What is released leaves the records that name it; a message stays in its record
// until it is back in the queue. A record of which nothing is left is removed.
func TestEndedHoldsLeaveTheirRecords(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	a, b := Thread{"smtp", "a"}, Thread{"smtp", "b"}
	for _, r := range []HoldRecord{{Threads: []Thread{a, b}}, {Threads: []Thread{a}}, {Messages: []string{"S1A", "S2B"}}} {
		check(t, s.holds.RecordHold(r))
	}
	check(t, s.holds.EndHolds(HoldRecord{Threads: []Thread{a}}))
	check(t, s.holds.EndHolds(HoldRecord{Messages: []string{"S2B"}}))
	o.holds("hold/orders/1", "hold/orders/3")
	records, err := s.holds.HoldRecords()
	check(t, err)
	if !slices.Equal(records[0].Threads, []Thread{b}) || !slices.Equal(records[1].Messages, []string{"S1A"}) || !slices.Equal(records[1].Released, []string{"S2B"}) {
		t.Errorf("%+v", records)
	}
	check(t, s.holds.DropHolds(3, []string{"S1A", "S2B"}, false))
	o.holds("hold/orders/1")
}
