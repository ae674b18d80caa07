package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// message is one with recipients at these offsets.
func message(id uint64, mtime int64, offsets ...int64) *scheduler.Message {
	m := &scheduler.Message{ID: scheduler.MessageID(id), ModifiedAt: time.Unix(mtime, 999)}
	for _, offset := range offsets {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: offset})
	}
	return m
}

// some is something of everything.
func some() *scheduler.Saved {
	return &scheduler.Saved{
		Recipients: []scheduler.SavedRecipient{
			{Message: 7, Offset: 100, ModifiedAt: 1800000000, Attempts: 3, NextAt: 1800000600, FedAt: 1800000300, Step: 2, InRetryStep: true, Notary: "a\x01b", Text: "451 \"no\"\r\xff"},
			{Message: 7, Offset: 200, ModifiedAt: 1800000000, Attempts: 1},
			{Message: 1<<64 - 1, Offset: 1 << 30, ModifiedAt: 1, Attempts: 65535, NextAt: 1<<32 - 1, FedAt: 2, Step: 255, DestinationFailed: true, Notary: "a\x01b", Text: "451 \"no\"\r\xff"},
		},
		Threads: []scheduler.SavedThread{
			{Channel: "smtp", Host: "a host", SuspendedUntil: 1800000900, Step: 4, Dead: true, InRetryStep: true, Text: "gone"},
			{Channel: "smtp", Host: "b.example", Window: 7, Success: 0.1, Failure: 1e-300, FailedCohorts: 2.5},
			{Channel: "smtp", Host: "c.example", PaidAt: 1800000900, Site: "mx.example", SiteAt: 1800086400, Effects: []scheduler.SavedEffect{
				{Rule: scheduler.ReplyKey{Channel: "smtp", Host: "*", Expression: `say "no"`, Action: "suspend 1h"}, Since: 1800000000, Until: 1800003600},
				{Rule: scheduler.ReplyKey{Channel: "*", Host: "*", Expression: "slow", Action: "slow 2 1h"}, Since: 1800000001, Until: 1800003601},
			}},
		},
		Rates: []scheduler.SavedRate{
			{RateKey: scheduler.RateKey{Setting: "siterate", Name: `4:smtp6:smtp/*|4:smtp "x"`, Rates: "1/3600000000000, 1"}, PaidAt: 1800003600},
			{RateKey: scheduler.RateKey{Setting: "siterate", Name: "smtp/mx.example", Rates: "1/60000000000, 5"}, PaidAt: 1800000060},
		},
		Rules: []scheduler.SavedRule{{Rule: scheduler.ReplyKey{Channel: "smtp", Host: "*", Expression: `say "no"`, Action: "suspend 1h"}, Hits: 1 << 60, LastAt: 1800000000}},
	}
}

// read reads a file that must be readable.
func read(t *testing.T, path string) *Table {
	t.Helper()
	table, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func check(t *testing.T, table *Table, saved *scheduler.Saved) {
	t.Helper()
	for i := range saved.Recipients {
		r := saved.Recipients[i]
		got := table.Of(message(uint64(r.Message), r.ModifiedAt, r.Offset))
		if len(got) != 1 || got[0] != r {
			t.Errorf("got %+v, want %+v", got, r)
		}
	}
	if len(saved.Threads) > 0 && !reflect.DeepEqual(table.Threads(), saved.Threads) {
		t.Errorf("threads %+v, want %+v", table.Threads(), saved.Threads)
	}
	for _, r := range saved.Rates {
		if got := table.rates[r.RateKey]; got != r {
			t.Errorf("rate %+v, want %+v", got, r)
		}
	}
	for _, r := range saved.Rules {
		if got := table.rules[r.Rule]; got != r {
			t.Errorf("rule %+v, want %+v", got, r)
		}
	}
}

func write(t *testing.T, w *Writer, err error, saved ...*scheduler.Saved) *Writer {
	t.Helper()
	for _, s := range saved {
		if err == nil {
			err = w.Write(s)
		}
	}
	if err == nil && w.temp != "" {
		err = w.Commit(true)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	w, err := Create(path)
	write(t, w, err, some())
	table := read(t, path)
	check(t, table, some())
	if table.Skipped != 0 || table.Recipients() != 3 {
		t.Errorf("%d recipients, %d lines skipped", table.Recipients(), table.Skipped)
	}
	if got := table.Of(message(7, 1800000001, 100)); got != nil {
		t.Errorf("a later message of that number got %+v", got)
	}
	if got := table.Of(message(7, 1800000000, 200, 300, 100)); len(got) != 2 || got[0].Offset != 100 || got[1].Offset != 200 {
		t.Errorf("not those two, by offset: %+v", got)
	}
	if !w.InPlace() {
		t.Error("the file is not in its place")
	}
	os.Remove(path)
	if w.InPlace() {
		t.Error("the file is not missed")
	}
	w.Close()
}

// Of several lines about one thing, the last counts, in whichever section.
func TestLastLineCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	first := some()
	w, err := Create(path)
	write(t, w, err, first).Close()
	changed := &scheduler.Saved{
		Recipients: []scheduler.SavedRecipient{{Message: 7, Offset: 100, ModifiedAt: 1800000000, Attempts: 4, NextAt: 1800009999, Text: "other"}},
		Threads:    []scheduler.SavedThread{{Channel: "smtp", Host: "a host"}},
	}
	w, err = Append(path)
	write(t, w, err, changed).Close()
	table := read(t, path)
	first.Threads[0] = changed.Threads[0]
	first.Recipients[0] = changed.Recipients[0]
	check(t, table, first)
}

// The end of a file may be missing anywhere, and an appended section is whole.
func TestTornFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	w, err := Create(path)
	write(t, w, err, some()).Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	later := &scheduler.Saved{Recipients: []scheduler.SavedRecipient{{Message: 9, Offset: 100, ModifiedAt: 5, Attempts: 1, Text: "later"}}}
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Append(path)
		write(t, w, err, later).Close()
		table := read(t, path)
		check(t, table, later)
		known := some()
		for i := range known.Recipients {
			r := &known.Recipients[i]
			for _, got := range table.Of(message(uint64(r.Message), r.ModifiedAt, r.Offset)) {
				if got != *r {
					t.Fatalf("cut at %d: got %+v, want %+v", n, got, *r)
				}
			}
		}
	}
}

func TestOtherVersionsAreSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	text := "scheduler-state 2\nr 1 100 5 1 0 0 0 - 0\nscheduler-state 1\nr 2 100 5 1 0 0 0 - 0\n" +
		"q of a later version\nr 3 100 5 1 0 0 0 dsx 0 and more\nr 4 100 5\nr 5 100 5 1 0 0 0 - 0x\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table := read(t, path)
	for id, want := range map[uint64]int{1: 0, 2: 1, 3: 1, 4: 0, 5: 0} {
		if got := table.Of(message(id, 5, 100)); len(got) != want {
			t.Errorf("message %d: %+v", id, got)
		}
	}
	if table.Skipped != 2 {
		t.Errorf("%d lines skipped", table.Skipped)
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "dir")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(fifo, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo} {
		if table, err := ReadFile(path); err == nil || !table.Foreign {
			t.Errorf("%s is read: %+v", path, table)
		}
	}
	if table, err := ReadFile(filepath.Join(dir, "none")); err != nil || table.Foreign {
		t.Errorf("no file: %+v, %v", table, err)
	}
}

// The file keeps to its bounds even if each recipient has a long report of its own.
func TestFileIsShort(t *testing.T) {
	for _, length := range []int{0, 20, 1000} {
		path := filepath.Join(t.TempDir(), Name)
		w, err := Create(path)
		const n = 20000
		for i := range n {
			s := &scheduler.Saved{Recipients: []scheduler.SavedRecipient{{
				Message: scheduler.MessageID(100_000_000 + i), Offset: 1234, ModifiedAt: 1800000000, Attempts: 12, NextAt: 1800009999, FedAt: 1800009990, Step: 7,
				InRetryStep: true, Text: fmt.Sprintf("%0*d", length, i),
			}}}
			if err == nil {
				err = w.Write(s)
			}
		}
		write(t, w, err)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if TooLong(info.Size(), n) || info.Size() > newFixed+newPerRecipient*n || info.Size() != w.Size() {
			t.Errorf("%d bytes, of %d recipients", info.Size(), n)
		}
		if got := read(t, path).Recipients(); got != n {
			t.Errorf("%d recipients", got)
		}
		w.Close()
	}
}

// A diagnostic that many recipients share is in the file once.
func TestDiagnosticIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	w, err := Create(path)
	write(t, w, err, some(), some(), some()).Close()
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("451")) != 1 {
		t.Errorf("%v\n%s", err, text)
	}
}

// Each recipient has a transcript of its own, with addresses, and there is no room for
// all. What the other side said is kept of all but a few.
func TestRepliesAreKeptWhereReportsHaveNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	w, err := Create(path)
	const n = 20000
	for i := range n {
		if err == nil {
			err = w.Write(&scheduler.Saved{Recipients: []scheduler.SavedRecipient{{
				Message: scheduler.MessageID(100_000_000 + i), Offset: 1234, ModifiedAt: 1800000000, Attempts: 12, NextAt: 1800009999,
				Notary: fmt.Sprintf("rfc822;u%d@a.example\x01delayed\x014.2.2", i),
				Text:   fmt.Sprintf("\r<<- MAIL From:<s%d@b.example> SIZE=%d\r->> 250 ok\r<<- RCPT To:<u%d@a.example>\r->> 451 4.2.2 try later", i, 1000+i, i),
			}}})
		}
	}
	write(t, w, err).Close()
	table := read(t, path)
	kept := 0
	for i := range n {
		got := table.Of(message(uint64(100_000_000+i), 1800000000, 1234))
		if len(got) == 1 && strings.HasSuffix(got[0].Text, "451 4.2.2 try later") {
			kept++
		}
	}
	if kept < n-100 {
		t.Errorf("the reply to %d of %d recipients is known", kept, n)
	}
}

// FuzzRead: whatever the file has, reading it ends, and everything that is read can
// be written and is read again as the same.
func FuzzRead(f *testing.F) {
	var text []byte
	text = appendHeader(text)
	text = appendDiagnostic(text, 1, diagnostic{"a\x01b", "451 \"no\"\r\xff"})
	s := some()
	for i := range s.Recipients {
		text = appendRecipient(text, &s.Recipients[i], 1)
	}
	for i := range s.Threads {
		text = appendThread(text, &s.Threads[i], 0)
	}
	f.Add(text)
	f.Add([]byte("scheduler-state 1\nr 1 1 1 1 1 1 1 - 1\n\n\n x\nd 1 \"\" \"\nscheduler-state\n"))
	f.Add([]byte("scheduler-state 2\nr 1 1 1 1 1 1 1 - 1\nscheduler-state 1\nt \"\" \"\" 0 0 - 0 NaN Inf 0 0\n"))
	f.Add(append(bytes.Repeat([]byte{'x'}, 2*readBuffer), '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		table := newTable()
		if err := table.read(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(data, []byte("\n")); table.entries+len(table.threads)+len(table.diagnostics)+table.Skipped > lines {
			t.Fatalf("%d lines gave %+v", lines, table)
		}
		var saved scheduler.Saved
		saved.Threads = table.Threads()
		for n := 1; n <= table.entries; n++ {
			e := table.at(uint32(n))
			got := table.Of(message(e.message, int64(e.modifiedAt), int64(e.offset)))
			if len(got) != 1 {
				t.Fatalf("entry %+v gave %+v", e, got)
			}
			saved.Recipients = append(saved.Recipients, got...)
		}
		w := &Writer{numbers: make(map[diagnostic]uint32), allowed: 1 << 40}
		w.buf = appendHeader(nil)
		for i := range saved.Recipients {
			r := &saved.Recipients[i]
			number := w.number(diagnostic{r.Notary, r.Text})
			w.buf = appendRecipient(w.buf, r, number)
		}
		for i := range saved.Threads {
			th := &saved.Threads[i]
			number := w.number(diagnostic{th.Notary, th.Text})
			w.buf = appendThread(w.buf, th, number)
		}
		again := newTable()
		if err := again.read(bytes.NewReader(w.buf)); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(again.Threads()), fmt.Sprint(saved.Threads); got != want || again.entries != table.entries {
			t.Fatalf("threads %s, want %s; %d entries, want %d", got, want, again.entries, table.entries)
		}
		for i := range saved.Recipients {
			r := saved.Recipients[i]
			if got := again.Of(message(uint64(r.Message), r.ModifiedAt, r.Offset)); len(got) != 1 || got[0] != r {
				t.Fatalf("got %+v, want %+v", got, r)
			}
		}
	})
}

func TestNewerThan(t *testing.T) {
	written, now := time.Unix(100, 0), time.Unix(200, 0)
	for mtime, want := range map[int64]bool{50: false, 99: false, 100: true, 150: true, 199: true, 200: false, 300: false} {
		if got := NewerThan(written, message(1, mtime), now); got != want {
			t.Errorf("mtime %d: %v", mtime, got)
		}
	}
}

// TestLastNodesApply: the last line of nodes counts, also one without nodes.
func TestLastNodesApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	long := strings.Repeat("\xff", maxLine/4)
	for _, nodes := range [][]string{{"mx2", "a \"b\""}, {"mx3", long, "mx4"}, {}} {
		w, err := Append(path)
		if err != nil {
			t.Fatal(err)
		}
		w.WriteNodes(nodes)
		if err := errors.Join(w.Flush(), w.Close()); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return name == long })
		if table := read(t, path); !slices.Equal(table.Nodes(), want) || table.Skipped > 0 {
			t.Errorf("got %q, want %q; %d lines skipped", table.Nodes(), want, table.Skipped)
		}
	}
}
