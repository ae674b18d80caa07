package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/view"
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
			{Message: 7, Offset: 100, ModifiedAt: 1800000000, Attempts: 3, NextAt: 1800000600, FedAt: 1800000300, Step: 2, Notary: "a\x01b", Text: "451 \"no\"\r\xff"},
			{Message: 7, Offset: 200, ModifiedAt: 1800000000, Attempts: 1},
			{Message: 1<<64 - 1, Offset: 1 << 30, ModifiedAt: 1, Attempts: 65535, NextAt: 1<<32 - 1, FedAt: 2, Step: 255, Notary: "a\x01b", Text: "451 \"no\"\r\xff"},
		},
		Threads: []scheduler.SavedThread{
			{Channel: "smtp", Host: "a host", SuspendedUntil: 1800000900, Step: 4, Dead: true},
			{Channel: "smtp", Host: "b.example", Site: "mx.example"},
		},
		Orders: []scheduler.SavedOrder{
			savedOrder(scheduler.Ordered{Verb: view.VerbKill, By: "root", Because: "\"spam\""}),
			savedOrder(scheduler.Ordered{Verb: view.VerbReroute, To: scheduler.Target{Channel: "smtp", Host: "b"}}),
		},
	}
}

// savedOrder is an order on message 7, as it is after a restart.
func savedOrder(e scheduler.Ordered) scheduler.SavedOrder {
	e.Targets, e.Back = []scheduler.Target{{Message: 7, Channel: "smtp", Host: "a"}}, true
	return scheduler.SavedOrder{ModifiedAt: time.Unix(1800000000, 0), Ordered: e}
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
		if !slices.Contains(got, r) {
			t.Errorf("got %+v, want %+v", got, r)
		}
	}
	var events []scheduler.Event
	for _, th := range saved.Threads {
		events = append(events, scheduler.Restored{Thread: th})
	}
	orders := make(map[scheduler.MessageID][]scheduler.SavedOrder)
	for _, o := range saved.Orders {
		orders[o.Targets[0].Message] = append(orders[o.Targets[0].Message], o)
	}
	if !reflect.DeepEqual(table.orders, orders) {
		t.Errorf("got %+v, want %+v", table.orders, orders)
	}
	if !reflect.DeepEqual(table.Events(), events) {
		t.Errorf("got %+v, want %+v", table.Events(), events)
	}
}

// write writes a file of what was saved, in the place of the one before.
func write(t *testing.T, path string, saved ...*scheduler.Saved) {
	t.Helper()
	w, err := Create(path)
	for _, s := range saved {
		if err == nil {
			err = w.Write(s)
		}
	}
	if err == nil {
		err = errors.Join(w.Commit(), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	write(t, path, some())
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
}

// What is said about the recipients of a message comes by offset, whatever the order of the lines.
func TestRecipientsComeByOffset(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	write(t, path, &scheduler.Saved{Recipients: []scheduler.SavedRecipient{
		{Message: 7, Offset: 100, ModifiedAt: 5, Attempts: 3}, {Message: 7, ModifiedAt: 5, Attempts: 2},
	}})
	if got := read(t, path).Of(message(7, 5, 100, 200)); len(got) != 2 || got[0].Offset != 0 || got[0].Attempts != 2 || got[1].Offset != 100 {
		t.Errorf("got %+v", got)
	}
}

// The end of a file may be missing anywhere.
func TestTornFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	write(t, path, some())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		table := read(t, path)
		known := some()
		for i := range known.Recipients {
			r := &known.Recipients[i]
			for _, got := range table.Of(message(uint64(r.Message), r.ModifiedAt, r.Offset)) {
				if got.Offset == r.Offset && got != *r {
					t.Fatalf("cut at %d: got %+v, want %+v", n, got, *r)
				}
			}
		}
	}
}

// Lines of a kind that is not known, fields at the end of a line, and damaged lines are skipped.
func TestLinesThatAreNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	text := "scheduler-state 1\nr 2 100 5 1 0 0 0 - 0\n" +
		"q of a later version\nr 3 100 5 1 0 0 0 dsx 0 and more\nr 4 100 5\nr 5 100 5 1 0 0 0 - 0x\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table := read(t, path)
	for id, want := range map[uint64]int{2: 1, 3: 1, 4: 0, 5: 0} {
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
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("scheduler-state 2\nr 1 100 5 1 0 0 0 - 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if table, err := ReadFile(other); err != nil || table.Recipients() != 0 {
		t.Errorf("a file of another version is read: %+v, %v", table, err)
	}
	for _, path := range []string{link, fifo} {
		if table, err := ReadFile(path); err == nil || table.Recipients() != 0 {
			t.Errorf("%s is read: %+v", path, table)
		}
	}
	if table, err := ReadFile(filepath.Join(dir, "none")); err != nil || table.Recipients() != 0 {
		t.Errorf("no file: %+v, %v", table, err)
	}
}

// A diagnostic that many recipients share is in the file once.
func TestDiagnosticIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	write(t, path, some(), some(), some())
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("451")) != 1 {
		t.Errorf("%v\n%s", err, text)
	}
}

// Each recipient has a transcript of its own, with addresses, and there are too many for
// all. What the other side said is kept of each.
func TestRepliesAreKeptWhereReportsAreTooMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	const n = 2 * maxWhole
	saved := new(scheduler.Saved)
	for i := range n {
		saved.Recipients = append(saved.Recipients, scheduler.SavedRecipient{
			Message: scheduler.MessageID(100_000_000 + i), Offset: 1234, ModifiedAt: 1800000000, Attempts: 12, NextAt: 1800009999,
			Notary: fmt.Sprintf("rfc822;u%d@a.example\x01delayed\x014.2.2", i),
			Text:   fmt.Sprintf("\r<<- MAIL From:<s%d@b.example> SIZE=%d\r->> 250 ok\r<<- RCPT To:<u%d@a.example>\r->> 451 4.2.2 try later", i, 1000+i, i),
		})
	}
	write(t, path, saved)
	table := read(t, path)
	for i := range n {
		got := table.Of(message(uint64(100_000_000+i), 1800000000, 1234))
		if len(got) != 1 || !strings.HasSuffix(got[0].Text, "451 4.2.2 try later") {
			t.Fatalf("the reply to recipient %d is %+v", i, got)
		}
	}
	if len(table.diagnostics) > maxWhole+1 {
		t.Errorf("%d reports are kept", len(table.diagnostics))
	}
}

// FuzzRead: whatever the file has, reading it ends, and everything that is read can
// be written and is read again as the same.
func FuzzRead(f *testing.F) {
	w := &Writer{out: newOutput(), numbers: make(map[diagnostic]uint32)}
	if err := w.Write(some()); err != nil {
		f.Fatal(err)
	}
	f.Add(w.out.b)
	f.Add([]byte("scheduler-state 1\nr 1 1 1 1 1 1 1 - 1\n\n\n x\nd 1 \"\" \"\nscheduler-state\n"))
	f.Add([]byte("scheduler-state 1\nh \"\" \"\" 0 0 - \"\"\no 1 1 KILL \"\" \"\" \"\" \"\" \"\" \"\" 1 2\n"))
	f.Add(append(bytes.Repeat([]byte{'x'}, 2*readBuffer), '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		table := newTable(0)
		if err := table.read(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(data, []byte("\n")); len(table.entries)+len(table.events)+len(table.diagnostics)+table.Skipped > lines {
			t.Fatalf("%d lines gave %+v", lines, table)
		}
		saved := savedEvents(table)
		for id, i := range table.messages {
			saved.Recipients = append(saved.Recipients, table.Of(message(id, int64(table.entries[i-1].modifiedAt)))...)
		}
		w := &Writer{out: newOutput(), numbers: make(map[diagnostic]uint32)}
		w.add(saved)
		again := newTable(0)
		if err := again.read(bytes.NewReader(w.out.b)); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(*savedEvents(again)), fmt.Sprint(*savedEvents(table)); got != want || len(again.entries) != len(saved.Recipients) {
			t.Fatalf("got %s, want %s; %d recipients, want %d", got, want, len(again.entries), len(saved.Recipients))
		}
		for i := range saved.Recipients {
			r := saved.Recipients[i]
			if got := again.Of(message(uint64(r.Message), r.ModifiedAt)); !slices.Contains(got, r) {
				t.Fatalf("got %+v, want %+v", got, r)
			}
		}
	})
}

// savedEvents is what was saved of a table, without recipients.
func savedEvents(table *Table) *scheduler.Saved {
	saved := new(scheduler.Saved)
	for _, e := range table.Events() {
		switch e := e.(type) {
		case scheduler.Restored:
			saved.Threads = append(saved.Threads, e.Thread)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(table.orders)) {
		saved.Orders = append(saved.Orders, table.orders[id]...)
	}
	return saved
}
