package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// people write to each other. JSON escapes characters of some; others have letters that are
// not ASCII.
var people = []string{"ann@a.example", "Ann@A.example", `"b \"o\" b"@a.example`, `c\d@a.example`, "jörg@a.example", "JÖRG@a.example", "é", "ⱥ@a.example", "Ⱥ@a.example", "<x&y>@b.example", "eve@b.example"}

// writeMany appends lines to a log until it has that many bytes: messages from one of the people
// to two of them, some of which are sent elsewhere. The first number of a control file is given.
func writeMany(tb testing.TB, log *bytes.Buffer, size, number int) {
	tb.Helper()
	type line struct {
		Time       string `json:"time"`
		Event      string `json:"event"`
		SpoolID    string `json:"spoolid"`
		MessageID  string `json:"message_id"`
		Sender     string `json:"sender"`
		Recipient  string `json:"recipient,omitempty"`
		Original   string `json:"original,omitempty"`
		NewSpoolID string `json:"new_spoolid,omitempty"`
		File       string `json:"file,omitempty"`
		Text       string `json:"text,omitempty"`
	}
	r := rand.New(rand.NewPCG(1, uint64(number)))
	at := time.Date(2026, 11, 21, 0, 0, number, 0, time.UTC)
	out := json.NewEncoder(log)
	out.SetEscapeHTML(false)
	anyone := func() string {
		if r.IntN(100) > 0 {
			return fmt.Sprintf("user%d@mail%d.example", r.IntN(1e6), r.IntN(1e3))
		}
		return people[r.IntN(len(people))]
	}
	for ; log.Len() < size; number++ {
		at = at.Add(time.Duration(r.IntN(3)) * time.Millisecond)
		stamp := at.Format("2006-01-02T15:04:05.000Z")
		m := line{Time: stamp, SpoolID: ctlfile.SpoolID(uint64(number), at), MessageID: fmt.Sprintf("<%x@mail.example>", r.Uint64()), Sender: anyone()}
		begin, first, second := m, m, m
		begin.Event, begin.File, begin.Text = "arrival", fmt.Sprint("A/", number), "found at the start"
		first.Event, first.Recipient, first.Original, first.Text = "attempt", anyone(), anyone(), strings.Repeat("no answer ", r.IntN(30))
		second.Event, second.Recipient = "attempt", anyone()
		end := m
		end.Event = "end"
		lines := []line{begin, first, second, end}
		if r.IntN(10) == 0 {
			end.Event, end.NewSpoolID = "resubmitted", ctlfile.SpoolID(uint64(number+1e6), at)
			copied := second
			copied.SpoolID = end.NewSpoolID
			lines = []line{begin, first, copied, second, end, copied}
		}
		for _, l := range lines {
			if err := out.Encode(l); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// naive finds lines as Read does, among all events in the order of their times.
func naive(all []*Event, what string, since time.Time) (found []string) {
	early := func(e *Event) bool { return e.Time.Before(since) }
	all = slices.DeleteFunc(slices.Clone(all), early)
	ids, rcpts := make(map[string]bool), make(map[string]bool)
	is := func(text string) bool { return strings.EqualFold(text, what) }
	for _, e := range all {
		rcpt := is(e.Recipient) || is(e.Original)
		whole := is(e.Sender) || is(e.SpoolID) || is(e.MessageID) || "S"+path.Base(what) == e.SpoolID[:min(len(e.SpoolID), 1+len(path.Base(what)))]
		if rcpt {
			rcpts[e.SpoolID+e.Recipient] = true
		}
		if whole || rcpt {
			ids[e.SpoolID] = ids[e.SpoolID] || whole
		}
	}
	for known := -1; known < len(ids); {
		known = len(ids)
		for _, e := range all {
			_, old := ids[e.SpoolID]
			if _, copied := ids[e.NewSpoolID]; old && e.NewSpoolID != "" && !copied {
				ids[e.NewSpoolID] = true
			}
		}
	}
	for _, e := range all {
		if whole, known := ids[e.SpoolID]; whole || known && (e.Recipient == "" || rcpts[e.SpoolID+e.Recipient]) {
			found = append(found, string(e.line))
		}
	}
	return found
}

// TestReadFindsAllThatParsingFinds compares Read with a reading that parses all lines.
func TestReadFindsAllThatParsingFinds(t *testing.T) {
	dir := t.TempDir()
	var files []string
	var all []*Event
	for i, name := range []string{"events", "events.1"} { // the newer one first
		var log bytes.Buffer
		writeMany(t, &log, 3*blockSize, 20_000-10_000*i)
		fmt.Fprintf(&log, `{"time":"2026-11-21T10:00:00.000Z","event":"lost","spoolid":"S1AbmAA","text":%q}`+"\n", strings.Repeat("ann@a.example", blockSize/10))
		writeMany(t, &log, log.Len()+blockSize, 25_000-10_000*i)
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[i], log.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(log.Bytes()) {
			if e := (&Event{line: line}); json.Unmarshal(line, e) == nil && len(line) <= blockSize {
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, byTime)
	if events, err := read(files, time.Time{}, withText("EVENT"), func(*Event) bool { return true }); err != nil || len(events) != len(all) {
		t.Errorf("%d of %d lines were read, %v", len(events), len(all), err)
	}
	e := all[len(all)/2]
	everything := append(people, e.SpoolID, strings.ToLower(e.SpoolID), strings.ToUpper(e.MessageID), "A/10001", "25001", "nobody@a.example", `"`)
	for i, what := range append(everything, everything...) {
		var since time.Time
		if i >= len(everything) {
			since = e.Time
		}
		want := naive(all, what, since)
		events, err := Read(files, what, since)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			got = append(got, string(e.line)+"\n")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s since %s: %d events, not %d", what, since, len(got), len(want))
		}
		if len(want) == 0 && slices.Contains(people, what) {
			t.Errorf("%s is in no event", what)
		}
	}
}
