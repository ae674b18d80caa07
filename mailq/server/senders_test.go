package server

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"zsched/mailq"
)

// TestLargestSendersHaveLines: of more senders than are counted, the largest have lines, also
// those that come last, and the sums stay exact.
func TestLargestSendersHaveLines(t *testing.T) {
	now := time.Unix(1e9, 0)
	jobs := func(yield func(*mailq.Job, error) bool) {
		number := uint64(0)
		put := func(sender string, messages int) {
			for range messages {
				number++
				yield(&mailq.Job{Message: number, Sender: sender, Recipients: make([]mailq.Recipient, 1), Size: 10, ArrivedAt: now}, nil)
			}
		}
		for i := range maxSenders + 500 {
			put(fmt.Sprintf("s%d@%d.example", i, i), 1)
		}
		put("bulk@shop.example", 20)
	}
	for _, domains := range []bool{false, true} {
		items, err := gatherSenders(jobs, domains)
		must(t, err)
		sum, total, others := mailq.SenderItem{}, items[len(items)-1], items[len(items)-2]
		for _, it := range items[:len(items)-1] {
			sum.Sum(it)
		}
		if !total.Total || total.Messages != maxSenders+520 || sum.Messages != total.Messages || sum.Bytes != total.Bytes || total.Senders != len(items)-1 {
			t.Errorf("total: %+v, sum %+v", total, sum)
		}
		if !others.Others || others.Messages != maxSenders/2 || items[0].Messages != 20 || len(items) > maxSenders+2 {
			t.Errorf("%d lines, first %+v, others %+v", len(items), items[0], others)
		}
	}
}

// TestSendersTakeBoundedMemory: forged senders that all differ do not fill memory, and do not
// hide the largest, whose mail is spread over the queue.
func TestSendersTakeBoundedMemory(t *testing.T) {
	const forged = 3 * maxSenders
	measure, most := false, uint64(0)
	jobs := func(yield func(*mailq.Job, error) bool) {
		var memory runtime.MemStats
		for i := range uint64(forged) {
			yield(&mailq.Job{Message: 2 * i, Sender: fmt.Sprintf("sender%d@forged%d.example", i, i), Recipients: make([]mailq.Recipient, 1)}, nil)
			if i%100 == 0 {
				yield(&mailq.Job{Message: 2*i + 1, Sender: "bulk@shop.example", Recipients: make([]mailq.Recipient, 2)}, nil)
			}
			if measure && i%(maxSenders/2) == maxSenders/2-1 {
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
	listed := len(items) - 2
	if listed > maxSenders || items[0].Sender != "bulk@shop.example" || items[0].Messages != forged/100 || items[0].Recipients != forged/50 ||
		!others.Others || others.Messages != forged-(listed-1) || total.Messages != forged+forged/100 {
		t.Errorf("%d lines; %+v, %+v, %+v", len(items), items[0], others, total)
	}
}
