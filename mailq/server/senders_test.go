package server

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"zsched/mailq"
)

// TestLargestSendersHaveLines: the largest senders are found last, after more others than
// there are lines.
func TestLargestSendersHaveLines(t *testing.T) {
	now := time.Unix(1e9, 0)
	jobs := func(yield func(*mailq.Job, error) bool) {
		number := uint64(0)
		put := func(sender string, messages, recipients int, size int64, age time.Duration) {
			for range messages {
				number++
				yield(&mailq.Job{Message: number, Sender: sender, Recipients: make([]mailq.Recipient, recipients), Size: size, ArrivedAt: now.Add(-age)}, nil)
			}
		}
		for i := range maxSenders + 500 {
			put(fmt.Sprintf("s%d@%d.example", i, i), 2, 1, 10, time.Minute)
		}
		put("bulk@shop.example", 20000, 1, 10, time.Minute)
		put("many@list.example", 1, 900, 10, time.Minute)
		put("film@studio.example", 1, 1, 1<<30, time.Minute)
		put("old@past.example", 1, 1, 10, time.Hour)
	}
	for _, domains := range []bool{false, true} {
		items, err := gatherSenders(jobs, domains)
		must(t, err)
		if len(items) != maxSenders+2 {
			t.Fatalf("%d lines", len(items))
		}
		others, total := items[maxSenders], items[maxSenders+1]
		if !others.Others || others.Messages != 2*504 || others.Recipients != 2*504 || others.Bytes != 20*504 || !others.OldestAt.Equal(now.Add(-time.Minute)) {
			t.Errorf("others: %+v", others)
		}
		if !total.Total || total.Messages != 2*(maxSenders+500)+20003 || total.Senders != maxSenders+1 {
			t.Errorf("total: %+v", total)
		}
		for key, want := range map[string]string{"size": "bulk@shop.example", "recipients": "bulk@shop.example", "bytes": "film@studio.example", "age": "old@past.example"} {
			mailq.SortSenders(items, key)
			if domains {
				want = mailq.SenderOf(&mailq.Job{Sender: want}, true)
			}
			if items[0].Sender != want {
				t.Errorf("by %s, the first is %+v, not %s", key, items[0], want)
			}
		}
		mailq.SortSenders(items, "size")
		if items[0].Messages != 20000 {
			t.Errorf("the first has %d messages", items[0].Messages)
		}
	}
}

// TestSendersTakeBoundedMemory: forged senders that all differ do not fill memory, and do not
// hide the largest, whose mail is spread over the queue.
func TestSendersTakeBoundedMemory(t *testing.T) {
	const forged = 3 * maxCounted
	measure, most := false, uint64(0)
	jobs := func(yield func(*mailq.Job, error) bool) {
		var memory runtime.MemStats
		for i := range uint64(forged) {
			yield(&mailq.Job{Message: 2 * i, Sender: fmt.Sprintf("sender%d@forged%d.example", i, i), Recipients: make([]mailq.Recipient, 1)}, nil)
			if i%100 == 0 {
				yield(&mailq.Job{Message: 2*i + 1, Sender: "bulk@shop.example", Recipients: make([]mailq.Recipient, 2)}, nil)
			}
			if measure && i%(maxCounted/2) == maxCounted/2-1 {
				runtime.GC()
				runtime.ReadMemStats(&memory)
				most = max(most, memory.HeapAlloc)
			}
		}
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	measure = true
	items, err := gatherSenders(jobs, false)
	must(t, err)
	t.Logf("%d kB", (most-before.HeapAlloc)/1024)
	if most-before.HeapAlloc > 30<<20 {
		t.Errorf("%d bytes are in use", most-before.HeapAlloc)
	}
	others, total := items[len(items)-2], items[len(items)-1]
	if len(items) != maxSenders+2 || items[0].Sender != "bulk@shop.example" || items[0].Messages != forged/100 || items[0].Recipients != forged/50 ||
		!others.Others || others.Messages != forged-(maxSenders-1) || total.Messages != forged+forged/100 {
		t.Errorf("%d lines; %+v, %+v, %+v", len(items), items[0], others, total)
	}
}
