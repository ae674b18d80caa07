package spool

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/scheduler/view"
)

func TestHoldRecordsAreReadAsTheyAreWritten(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	if records, err := s.holds.HoldRecords(); len(records) > 0 || err != nil {
		t.Fatalf("%+v, %v", records, err)
	}
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	first := HoldRecord{Hold: view.Hold{Since: since, Until: since.Add(2 * time.Hour), By: "root uid 0", Because: "they\nasked"}, Messages: []string{"S1A", "S2B"}}
	second := HoldRecord{Hold: view.Hold{Since: since}, Threads: []view.Name{{Channel: "#a", Host: "b"}, {Channel: "smtp", Host: `"x y"`}, {Channel: "smtp", Host: "example.org"}}}
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
	check(t, s.holds.DropHolds(HoldRecord{Number: 1, Messages: first.Messages}))
	if err := s.holds.RecordHold(first); err != nil {
		t.Fatal(err)
	}
	if records, err := s.holds.HoldRecords(); err != nil || len(records) != 2 || records[0].Number != 2 || records[1].Number != 3 {
		t.Errorf("%+v, %v", records, err)
	}
}

// While hold/ is away, nothing can be released: the next start would hold it again.
func TestNothingIsReleasedWhileHoldIsAway(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	thread := HoldRecord{Threads: []view.Name{{Channel: "smtp", Host: "example.org"}}}
	check(t, s.holds.RecordHold(thread))
	check(t, os.Rename(o.dir+"/hold", o.dir+"/away"))
	if err := s.holds.EndHolds(thread); err == nil {
		t.Error("it is released")
	}
	if records, err := s.holds.HoldRecords(); err == nil {
		t.Errorf("the records are %+v", records)
	}
	check(t, os.Rename(o.dir+"/away", o.dir+"/hold"))
	if records, err := s.holds.HoldRecords(); err != nil || len(records) != 1 || len(records[0].Threads) != 1 {
		t.Errorf("%+v, %v", records, err)
	}
}

// A record that is cut or filled with zero bytes ends no hold, and what it names is held.
func TestDamagedHoldRecordsEndNoHold(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	now := time.Now()
	check(t, s.holds.RecordHold(HoldRecord{Hold: view.Hold{Since: now, Until: now.Add(time.Hour), By: "root", Because: "why"}, Messages: []string{"S1A", "S2B"}}))
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
	a, b := view.Name{Channel: "smtp", Host: "a"}, view.Name{Channel: "smtp", Host: "b"}
	for _, r := range []HoldRecord{{Threads: []view.Name{a, b}}, {Threads: []view.Name{a}}, {Messages: []string{"S1A", "S2B"}}} {
		check(t, s.holds.RecordHold(r))
	}
	check(t, s.holds.EndHolds(HoldRecord{Threads: []view.Name{a}}))
	check(t, s.holds.EndHolds(HoldRecord{Messages: []string{"S2B"}}))
	o.holds("hold/orders/1", "hold/orders/3")
	records, err := s.holds.HoldRecords()
	check(t, err)
	if !slices.Equal(records[0].Threads, []view.Name{b}) || !slices.Equal(records[1].Messages, []string{"S1A"}) || !slices.Equal(records[1].Released, []string{"S2B"}) {
		t.Errorf("%+v", records)
	}
	check(t, s.holds.DropHolds(HoldRecord{Number: 3, Messages: []string{"S1A", "S2B"}}))
	o.holds("hold/orders/1")
}
