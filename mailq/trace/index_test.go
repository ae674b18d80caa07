package trace

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logindex"
)

// logWriter writes a log as the scheduler does: with an index.
type logWriter struct {
	tb   testing.TB
	name string
	log  *os.File
	out  io.WriteCloser
}

func newLogWriter(tb testing.TB, name string) *logWriter {
	w := &logWriter{tb: tb, name: name}
	w.open()
	return w
}

func (w *logWriter) open() {
	log, err := os.OpenFile(w.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.log, w.out = log, logindex.Open(log)
}

func (w *logWriter) write(lines []byte) {
	if n, err := w.out.Write(lines); n != len(lines) || err != nil {
		w.tb.Fatal(n, err)
	}
}

// lines returns those that Read finds.
func lines(t *testing.T, files []string, what string, since time.Time) []string {
	t.Helper()
	events, err := Read(files, what, since)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range events {
		found = append(found, string(e.line))
	}
	return found
}

// unread returns how many bytes of a log are not read for a text.
func unread(t *testing.T, log, text string) (n int64) {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(0)
	for _, part := range logindex.Parts(f, 0, []logindex.Key{logindex.KeyOf(text)}) {
		n, at = n+part.Begin-at, part.End
	}
	return n
}

// TestIndexHidesNothing writes a log in pieces of any size, with restarts, kills, rotations and
// truncations, and compares what Read finds with and without the index, which is then damaged.
func TestIndexHidesNothing(t *testing.T) {
	var all bytes.Buffer
	writeMany(t, &all, 4_000_000, 10_000)
	r := rand.New(rand.NewPCG(1, 2))
	dir, plain := t.TempDir(), t.TempDir()
	log := filepath.Join(dir, "events")
	w := newLogWriter(t, log)
	for pieces := 0; all.Len() > 0; pieces++ {
		w.write(all.Next(1 + r.IntN(30_000)))
		switch {
		case pieces%80 == 79: // logrotate with copytruncate
			copyFile(t, log, fmt.Sprint(log, ".copy", pieces))
			if err := os.Truncate(log, 0); err != nil {
				t.Fatal(err)
			}
		case pieces%50 == 49:
			if err := os.Rename(log, fmt.Sprint(log, ".", pieces)); err != nil {
				t.Fatal(err)
			}
			old := w.out
			w.open()
			old.Close()
		case pieces%20 == 19: // a stop
			w.out.Close()
			w.open()
		case pieces%20 == 9: // a kill
			w.log.Close()
			w.open()
		}
	}
	w.out.Close()
	files, err := Files(log)
	if err != nil {
		t.Fatal(err)
	}
	var skipped, size int64
	var without []string
	for _, name := range files {
		without = append(without, filepath.Join(plain, filepath.Base(name)))
		size += copyFile(t, name, without[len(without)-1])
		skipped += unread(t, name, "nobody@a.example")
	}
	if skipped < size/3 {
		t.Errorf("only %d of %d bytes are left out", skipped, size)
	}

	events, err := read(without, time.Time{}, withText("event"), func(*Event) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	everything := append(slices.Clone(people), "nobody@a.example", `"`)
	for range 3 {
		e := events[r.IntN(len(events))]
		everything = append(everything, e.SpoolID, strings.ToUpper(e.MessageID), strings.Trim(e.MessageID, "<>"),
			strings.ToUpper(e.Sender), e.Recipient, e.Original, e.File, logindex.Number(e.SpoolID))
	}
	indexes, err := filepath.Glob(filepath.Join(dir, ".event-index.*"))
	if err != nil || len(indexes) == 0 {
		t.Fatal(indexes, err)
	}
	for i, what := range everything {
		since := events[0].Time.Add(time.Duration(i%2) * time.Second)
		if got, want := lines(t, files, what, since), lines(t, without, what, since); !slices.Equal(got, want) {
			t.Errorf("%s: %d events, not %d", what, len(got), len(want))
		}
		damage(t, indexes[i%len(indexes)], r)
	}
}

// damage overwrites, appends to, cuts or exchanges an index.
func damage(t *testing.T, index string, r *rand.Rand) {
	t.Helper()
	data, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	switch r.IntN(4) {
	case 0:
		data = data[:r.IntN(len(data)+1)]
	case 1:
		data = append(data, data[r.IntN(len(data)+1):]...)
	default:
		if len(data) > 0 {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
	}
	if err := os.WriteFile(index, data, 0o640); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) int64 {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(data))
}

// FuzzIndex looks for anything in lines with any texts, with and without an index.
func FuzzIndex(f *testing.F) {
	for _, what := range append(slices.Clone(people), "A/12", "12", "S12", "<A/12>", "<>", "12/", "\n", "") {
		f.Add(what, what, "x", []byte("garbage"))
		f.Add("S12AbmAA", "<"+what+">", what, []byte{})
		f.Add("S12AbmAA", "<<"+what+">>", "<<"+what+">>", []byte{})
		f.Add("S12AbmAA", "A/12", what, []byte{})
	}
	f.Fuzz(func(t *testing.T, id, text, what string, garbage []byte) {
		if strings.ContainsAny(id+text, "\u212a\u017f") {
			t.Skip("their lower case is ASCII: without an index, another text in the line may lead to it")
		}
		var log bytes.Buffer
		out := zerolog.New(&log)
		for _, field := range []string{"message_id", "sender", "recipient", "original", "alias", "client", "source", "file", "new_spoolid"} {
			for _, id := range []string{id, text, ""} {
				out.Log().Str("time", "2026-11-20T23:59:59.500Z").Str("event", "arrival").Str("spoolid", id).Str(field, text).Send()
			}
		}
		dir := t.TempDir()
		indexed, plain := filepath.Join(dir, "indexed"), filepath.Join(dir, "plain")
		w := newLogWriter(t, indexed)
		w.write(log.Bytes())
		w.out.Close()
		copyFile(t, indexed, plain)
		if unread(t, indexed, "\n") == 0 {
			t.Fatal("all is read")
		}
		for range 2 {
			if got, want := lines(t, []string{indexed}, what, time.Time{}), lines(t, []string{plain}, what, time.Time{}); !slices.Equal(got, want) {
				t.Errorf("%q: %q, not %q", what, got, want)
			}
			indexes, err := filepath.Glob(filepath.Join(dir, ".event-index.*"))
			if err != nil || len(indexes) != 1 {
				t.Fatal(indexes, err)
			}
			if err := os.WriteFile(indexes[0], garbage, 0o640); err != nil {
				t.Fatal(err)
			}
		}
	})
}
