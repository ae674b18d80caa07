package scheduler

import (
	"fmt"
	"runtime"
	"testing"

	"zsched/ctlfile"
)

// TestMemoryOfThreads: the manual says what a recipient with a host of its own takes in
// memory. Most of it is the thread.
func TestMemoryOfThreads(t *testing.T) {
	if each := memoryOfThreads(100_000); each > 750 {
		t.Errorf("%.0f bytes for a recipient with a host of its own", each)
	}
}

// BenchmarkThreads measures the live heap for a recipient with a host of its own.
func BenchmarkThreads(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(memoryOfThreads(200_000), "B/recipient")
	}
	b.ReportMetric(0, "ns/op")
}

func memoryOfThreads(n int) (each float64) {
	const perMessage = 1000
	before := heapInUse()
	q := newBenchQueue(1)
	q.s.rules.config.Frozen = true
	for host := 0; host < n; {
		q.last++
		m := Message{ID: q.last, Path: fmt.Sprint(q.last), Sender: "a@b", ErrorTo: "a@b", ModifiedAt: q.now, ChangedAt: q.now, Size: 2000}
		for i := range perMessage {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{
				Offset: int64(160 + 60*i), Channel: "smtp", Host: fmt.Sprintf("host%d.example", host), Notify: ctlfile.NotifyFailure,
			})
			host++
		}
		q.step(Arrived{m})
	}
	each = float64(heapInUse()-before) / float64(n)
	runtime.KeepAlive(q)
	return each
}
