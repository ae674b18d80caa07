package spool

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The records and lists that version 0.9 wrote: two held threads, of which one has a record,
// one suspended thread, and a held message with its record.
const (
	oldList = "smtp\ta.example\nsmtp\tb.example\n" +
		"smtp\tc.example\tsuspended\t2026-11-22T08:00:00Z\t2036-11-22T10:00:00Z\troot uid 0\tthey are moving\n# end\n"
	oldSuspensions = "smtp\tc.example\tsuspended\t2026-11-22T08:00:00Z\t2036-11-22T10:00:00Z\troot uid 0\tthey are moving\n# end\n"
	oldThread      = "since 2026-11-22T08:00:00Z\nuntil 2036-11-22T10:00:00Z\nby root uid 0\nbecause they asked\nthread smtp\ta.example\nthread smtp\tgone.example\nend\n"
	oldMessage     = "since 2026-11-22T08:00:00Z\nby root uid 0\nbecause spam\nmessage S1A\nend\n"
)

func oldPostoffice(t *testing.T) *testSpool {
	o := newTestSpool(t)
	o.write("hold/threads", oldList)
	o.write("hold/suspensions", oldSuspensions)
	o.write("hold/orders/1", oldThread)
	o.write("hold/orders/2", oldMessage)
	return o.open(Options{})
}

// kept returns what the records hold, in order.
func kept(records []HoldRecord) (names []string) {
	for _, r := range records {
		for _, t := range r.Threads {
			names = append(names, strings.TrimSpace(t.Host+" "+r.Because))
		}
		for _, id := range r.Messages {
			names = append(names, strings.TrimSpace(id+" "+r.Because))
		}
	}
	slices.Sort(names)
	return names
}

// What version 0.9 holds and suspends is in records after the first start. Its own records stay,
// also of a thread that its list does not name.
func TestHoldsOfAnEarlierVersion(t *testing.T) {
	o := oldPostoffice(t)
	want := []string{"S1A spam", "a.example they asked", "b.example", "c.example they are moving", "gone.example they asked"}
	for range 2 {
		records, err := o.s.holds.LoadHolds()
		check(t, err)
		if names := kept(records); !slices.Equal(names, want) {
			t.Fatalf("%q", names)
		}
		for _, r := range records {
			ends := time.Date(2036, 11, 22, 10, 0, 0, 0, time.UTC)
			if strings.HasPrefix(r.Because, "they") && (!r.Until.Equal(ends) || r.By != "root uid 0") {
				t.Errorf("%+v", r)
			}
		}
		if o.read("hold/threads.0.9") != oldList || o.read("hold/suspensions.0.9") != oldSuspensions {
			t.Error("the lists are not kept")
		}
	}
}

// A list that is cut, filled with zero bytes or emptied releases no thread that a
// record names and releases no suspended thread, and the error names the file.
func TestDamagedListsOfAnEarlierVersion(t *testing.T) {
	texts := []string{strings.Repeat("\x00", len(oldList)), strings.Replace(oldList, "c.example", "c.ex\x00\x00ple", 1)}
	for n := 0; n < len(oldList); n += 10 {
		texts = append(texts, oldList[:n])
	}
	for _, text := range texts {
		o := oldPostoffice(t)
		o.write("hold/threads", text)
		records, err := o.s.holds.LoadHolds()
		if !errors.Is(err, ErrDamagedHolds) || !strings.Contains(err.Error(), "hold/threads.0.9") {
			t.Fatalf("%q: %v", text, err)
		}
		names := kept(records)
		for _, name := range []string{"S1A spam", "a.example they asked", "c.example"} {
			isHeld := func(held string) bool { return strings.HasPrefix(held, name) }
			if !slices.ContainsFunc(names, isHeld) {
				t.Errorf("%q: %q", text, names)
			}
		}
	}
}

// A crash at any point of the conversion costs nothing: the next start does it again.
func TestConversionThatIsInterrupted(t *testing.T) {
	o := oldPostoffice(t)
	first, err := o.s.holds.LoadHolds()
	check(t, err)
	o.write("hold/threads", oldList)
	records, err := o.s.holds.LoadHolds()
	if names := kept(records); err != nil || !slices.Equal(names, kept(first)) {
		t.Errorf("%q, %v", names, err)
	}
}

// What was read is written and read again the same.
func FuzzThreads(f *testing.F) {
	f.Add("smtp example.org")
	f.Add("#x y")
	f.Add(" #z \"a b\"")
	f.Add("smtp ((mx1)(mx2 mx3))")
	f.Add("0 (a\\ b")
	f.Fuzz(func(t *testing.T, text string) {
		thread, rest, ok := parseThread(text)
		if !ok || rest != "" || strings.Contains(text, "\n") {
			return
		}
		line, err := threadLine(thread)
		if err != nil {
			t.Fatalf("%q: %v", thread, err)
		}
		if again, rest, ok := parseThread(line); again != thread || rest != "" || !ok {
			t.Errorf("%q was read, %q written, %q read again", thread, line, again)
		}
	})
}
