package scheduler

import (
	"fmt"
	"runtime"
	"testing"

	"zsched/ctlfile"
)

// recipientsAt returns recipients, from a number on, each with a host of its own.
func recipientsAt(first, count int) (to []ctlfile.OpenRecipient) {
	for i := first; i < first+count; i++ {
		to = append(to, ctlfile.OpenRecipient{Offset: int64(160 + 60*(i-first)), Channel: "smtp", Host: fmt.Sprintf("host%d.example", i), Notify: ctlfile.NotifyFailure})
	}
	return to
}

// threadQueue is a queue with so many threads.
func threadQueue(threads int) *benchQueue {
	q := newBenchQueue(1)
	q.s.config.Frozen = true
	q.arriveTo(recipientsAt(0, threads))
	return q
}

// arriveTo adds a new message.
func (q *benchQueue) arriveTo(to []ctlfile.OpenRecipient) {
	q.last++
	q.step(Arrived{Message{
		ID: q.last, Path: fmt.Sprint(q.last), Sender: "a@b", ErrorTo: "a@b", LogID: fmt.Sprint(q.last),
		ModifiedAt: q.now, ChangedAt: q.now, Size: 2000, Recipients: to,
	}})
}

func TestThreadLimitRefusesMessages(t *testing.T) {
	const limit = 1000
	for _, test := range []struct {
		what             string
		threads          int // that there are
		first, count     int // the recipients; those below threads have one already
		unlimited, wants bool
	}{
		{what: "there is room", threads: 400, first: 400, count: 600, wants: true},
		{what: "there is room for it", threads: 600, first: 600, count: 400, wants: true},
		{what: "there is no room for it", threads: 600, first: 600, count: 401},
		{what: "more than the limit, and half is free", threads: 500, first: 500, count: 5000, wants: true},
		{what: "more than the limit, and less than half is free", threads: 501, first: 501, count: 5000},
		{what: "without a limit", threads: 1000, first: 1000, count: 5000, unlimited: true, wants: true},
		{what: "the same hosts", threads: 1000, first: 0, count: 1000, wants: true},
		{what: "the same hosts and one more", threads: 1000, first: 1, count: 1000},
		{what: "small", threads: 1500, first: 1500, count: smallMessage, wants: true},
		{what: "small, at twice the limit", threads: 1999, first: 1999, count: 1, wants: true},
		{what: "small, above twice the limit", threads: 2000, first: 2000, count: 1},
		{what: "small, for the same host", threads: 2500, first: 7, count: 1, wants: true},
	} {
		t.Run(test.what, func(t *testing.T) {
			q := threadQueue(test.threads)
			if q.s.config.ThreadLimit = limit; test.unlimited {
				q.s.config.ThreadLimit = 0
			}
			why := q.s.Refuses(recipientsAt(test.first, test.count))
			if (why == "") != test.wants {
				t.Errorf("refused: %q", why)
			}
		})
	}
}

// The manual says what a recipient takes in memory: much more with a host of its own, also if
// its message is on record.
func TestMemoryOfThreads(t *testing.T) {
	for _, limit := range []int{0, 1000} {
		if each := memoryOfThreads(100_000, limit); each > 1000 {
			t.Errorf("%.0f bytes for a recipient with a host of its own, recipient-limit %d", each, limit)
		}
	}
}

func memoryOfThreads(n, recipientLimit int) (each float64) {
	const perMessage = 1000
	before := heapInUse()
	q := newBenchQueue(1)
	q.s.config.Frozen, q.s.config.RecipientLimit = true, recipientLimit
	for first := 0; first < n; first += perMessage {
		q.arriveTo(recipientsAt(first, perMessage))
	}
	each = float64(heapInUse()-before) / float64(n)
	runtime.KeepAlive(q)
	return each
}

// BenchmarkThreads measures the live heap for a recipient with a host of its own, in memory
// and on record.
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
