package trace

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRead gives the time to find what 64 megabytes have about a sender or a recipient, and
// its ratio to the time in which one processor reads them and searches for a text in the case that
// is given, as grep -F does.
func BenchmarkRead(b *testing.B) {
	log, e := writeBig(b)
	name := filepath.Join(b.TempDir(), "events")
	if err := os.WriteFile(name, log, 0o600); err != nil {
		b.Fatal(err)
	}
	for kind, what := range map[string]string{"sender": e.Sender, "recipient": e.Recipient} {
		b.Run(kind, func(b *testing.B) {
			var naive time.Duration
			for b.Loop() {
				b.StopTimer()
				began := time.Now()
				if grep(b, name, what) == 0 {
					b.Fatal("nothing")
				}
				naive += time.Since(began)
				b.StartTimer()
				if events, err := Read([]string{name}, what, time.Time{}); err != nil || len(events) == 0 {
					b.Fatal(len(events), err)
				}
			}
			b.SetBytes(int64(len(log)))
			b.ReportMetric(b.Elapsed().Seconds()/naive.Seconds(), "of-grep")
		})
	}
}

// writeBig returns the lines of 64 megabytes, and one about a recipient in their middle.
func writeBig(b *testing.B) ([]byte, *Event) {
	var log bytes.Buffer
	writeMany(b, &log, 64_000_000, 100_000)
	e := new(Event)
	for line := range bytes.Lines(log.Bytes()[log.Len()/2:]) {
		if json.Unmarshal(line, e) == nil && e.Recipient != "" {
			break
		}
	}
	return log.Bytes(), e
}

// BenchmarkIndex gives the time to find what 64 megabytes have about a recipient with an index, and
// its ratio to that without.
func BenchmarkIndex(b *testing.B) {
	log, e := writeBig(b)
	plain, indexed := filepath.Join(b.TempDir(), "events"), filepath.Join(b.TempDir(), "events")
	if err := os.WriteFile(plain, log, 0o600); err != nil {
		b.Fatal(err)
	}
	w := newLogWriter(b, indexed)
	w.write(log)
	w.out.Close()
	b.SetBytes(int64(len(log)))
	find := func(name string) {
		if events, err := Read([]string{name}, e.Recipient, time.Time{}); err != nil || len(events) == 0 {
			b.Fatal(len(events), err)
		}
	}
	var without time.Duration
	for b.Loop() {
		b.StopTimer()
		began := time.Now()
		find(plain)
		without += time.Since(began)
		b.StartTimer()
		find(indexed)
	}
	b.ReportMetric(b.Elapsed().Seconds()/without.Seconds(), "of-plain")
}

// grep counts how often a file has a text.
func grep(b *testing.B, name, text string) (count int) {
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := make([]byte, blockSize)
	for err == nil {
		var n int
		n, err = f.Read(lines)
		count += bytes.Count(lines[:n], []byte(text))
	}
	return count
}
