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
	var log bytes.Buffer
	writeMany(b, &log, 64_000_000, 100_000)
	name := filepath.Join(b.TempDir(), "events")
	if err := os.WriteFile(name, log.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	var e Event
	for line := range bytes.Lines(log.Bytes()[log.Len()/2:]) {
		if json.Unmarshal(line, &e) == nil && e.Recipient != "" {
			break
		}
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
			b.SetBytes(int64(log.Len()))
			b.ReportMetric(b.Elapsed().Seconds()/naive.Seconds(), "of-grep")
		})
	}
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
