package spool

import (
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHoldRecordsAreReadAsTheyAreWritten(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	if records, err := s.HoldRecords(); len(records) > 0 || err != nil {
		t.Fatalf("%+v, %v", records, err)
	}
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	first := HoldRecord{Since: since, Until: since.Add(2 * time.Hour), By: "root uid 0", Why: "they\nasked", Messages: []string{"S1A", "S2B"}}
	second := HoldRecord{Since: since, Threads: []Thread{{"#a", "b"}, {"smtp", "example.org"}}}
	for _, r := range []HoldRecord{first, second} {
		if err := s.RecordHold(r); err != nil {
			t.Fatal(err)
		}
	}
	first.Number, first.Why, second.Number = 1, "they asked", 2
	records, err := s.HoldRecords()
	for i := range records {
		if records[i].WrittenAt.IsZero() {
			t.Errorf("record %d was written at no time", i)
		}
		records[i].WrittenAt = time.Time{}
	}
	if err != nil || !reflect.DeepEqual(records, []HoldRecord{first, second}) {
		t.Errorf("%+v, %v", records, err)
	}
	if err := s.DropHoldRecord(1); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordHold(first); err != nil {
		t.Fatal(err)
	}
	if records, err := s.HoldRecords(); err != nil || len(records) != 2 || records[0].Number != 2 || records[1].Number != 3 {
		t.Errorf("%+v, %v", records, err)
	}
}

// A record that could not be written leaves no temporary file, and the start removes those of
// processes that died. The file of a process that runs stays.
func TestTemporaryFilesOfHoldRecordsAreRemoved(t *testing.T) {
	o := newTestSpool(t)
	o.write("hold/orders/.new-999999999", "since")
	o.write("hold/orders/.new-1", "since") // init always runs
	own := "hold/orders/.new-" + strconv.Itoa(os.Getpid())
	o.write(own, "since")
	s := o.open(Options{}).s
	o.holds("hold/orders/.new-1")
	var limit syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 4096
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	err := s.RecordHold(HoldRecord{Since: time.Now(), Why: strings.Repeat("x", 8192)})
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if err == nil {
		t.Error("a file beyond the limit was written")
	}
	o.holds("hold/orders/.new-1")
}

// A record that is cut or filled with zero bytes ends no hold, neither its own nor one of an
// earlier record, which it may have changed.
func TestDamagedHoldRecordsEndNoHold(t *testing.T) {
	o := newTestSpool(t)
	s := o.open(Options{}).s
	now := time.Now()
	first := HoldRecord{Since: now, Until: now.Add(time.Hour), Messages: []string{"S1A"}}
	second := HoldRecord{Since: now, Until: now.Add(time.Hour), By: "root", Why: "why", Messages: []string{"S1A", "S2B"}}
	check(t, s.RecordHold(first))
	check(t, s.RecordHold(second))
	text := o.read("hold/orders/2")
	texts := []string{strings.Repeat("\x00", len(text))}
	for n := range len(text) {
		texts = append(texts, text[:n])
	}
	header := strings.Index(text, "message")
	for _, damaged := range texts {
		o.write("hold/orders/2", damaged)
		records, err := s.HoldRecords()
		if err != nil || len(records) != 2 || !records[1].Damaged {
			t.Fatalf("%q: %+v, %v", damaged, records, err)
		}
		over := now.Add(2 * time.Hour)
		if records[0].Ended(over) || !records[0].EndUnknown {
			t.Errorf("%q: an earlier hold ends", damaged)
		}
		if known := len(damaged) >= header && damaged[0] != 0; records[1].EndUnknown == known || records[1].Ended(over) != known {
			t.Errorf("%q: end unknown %v", damaged, records[1].EndUnknown)
		}
		if len(records[1].Messages) > 0 && records[1].Messages[0] != "S1A" {
			t.Errorf("%q: %q", damaged, records[1].Messages)
		}
	}
}
