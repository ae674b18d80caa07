package scheduler

import (
	"fmt"
	"runtime"
	"testing"

	"zsched/ctlfile"
)

// TestMemoryOfThreads: the manual says what a recipient with a host of its own takes in
// memory, also if its message is not loaded. Most of it is the thread.
func TestMemoryOfThreads(t *testing.T) {
	for _, limit := range []int{0, 1000} {
		if each := memoryOfThreads(100_000, limit); each > 1050 {
			t.Errorf("%.0f bytes for a recipient with a host of its own, recipient-limit %d", each, limit)
		}
	}
}

// BenchmarkThreads measures the live heap for a recipient with a host of its own, loaded
// and not.
func BenchmarkThreads(b *testing.B) {
	for _, limit := range []int{0, 1000} {
		b.Run(fmt.Sprint("recipient-limit=", limit), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(memoryOfThreads(200_000, limit), "B/recipient")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func memoryOfThreads(n, recipientLimit int) (each float64) {
	const perMessage = 1000
	before := heapInUse()
	q := newBenchQueue(1)
	q.s.rules.config.Frozen, q.s.rules.config.RecipientLimit = true, recipientLimit
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
