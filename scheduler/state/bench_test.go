package state

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"zsched/scheduler"
)

// fill writes a file with so many recipients, of a thousand destinations.
func fill(b *testing.B, path string, recipients int) {
	b.Helper()
	w, err := Create(path)
	if err != nil {
		b.Fatal(err)
	}
	const slice = 256
	var part scheduler.Saved
	for n := 0; n < recipients; n += len(part.Recipients) {
		part.Recipients = part.Recipients[:0]
		for i := n; i < min(recipients, n+slice); i++ {
			part.Recipients = append(part.Recipients, scheduler.SavedRecipient{
				// Numbers of control files come in an order of their own.
				Message: scheduler.MessageID(10_000_000 + i*7919%(recipients+1)), Offset: int64(150 + i%64), ModifiedAt: int64(1795860000 + i/1000),
				Attempts: 1 + i%20, NextAt: int64(1795960000 + i%7200), FedAt: int64(1795959000 + i%7200), Step: i % 10,
				Text: fmt.Sprintf("451 4.7.1 host h%d.example refuses for now", i%1000),
			})
		}
		if err := w.Write(&part); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	w.Close()
}

// BenchmarkRead gives the time to read a file into a table, its size, and the
// memory of the table.
func BenchmarkRead(b *testing.B) {
	for _, recipients := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("recipients=%d", recipients), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), Name)
			began := time.Now()
			fill(b, path, recipients)
			writing := time.Since(began)
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			var before, after runtime.MemStats
			var took []time.Duration
			var table *Table
			for b.Loop() {
				table = nil
				runtime.GC()
				runtime.ReadMemStats(&before)
				began := time.Now()
				if table, err = ReadFile(path); err != nil || table.Recipients() != recipients {
					b.Fatalf("%d recipients, %v", table.Recipients(), err)
				}
				took = append(took, time.Since(began))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(table)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took[len(took)/2].Seconds(), "s-read")
			b.ReportMetric(writing.Seconds(), "s-write")
			b.ReportMetric(float64(info.Size())/float64(recipients), "B/recipient")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(recipients), "B-table/recipient")
		})
	}
}
