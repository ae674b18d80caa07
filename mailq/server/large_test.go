package server

import (
	"bufio"
	"context"
	"io"
	"iter"
	"runtime"
	"strconv"
	"testing"

	"zsched/mailq"
	"zsched/scheduler/view"
)

// endlessQueue is a queue that makes its threads as they are read.
type endlessQueue struct {
	fakeQueue
	most  int // 0: no end
	given int
}

func (e *endlessQueue) Threads(context.Context) iter.Seq2[view.Item, error] {
	return func(yield func(view.Item, error) bool) {
		if !yield(view.Item{Ring: &mailq.Ring{ID: 1, Channel: "smtp", Host: "*"}}, nil) {
			return
		}
		for e.most == 0 || e.given < e.most {
			e.given++
			t := &mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: "h" + strconv.Itoa(e.given) + ".example"}, JobLines: 5, Recipients: 5}
			if !yield(view.Item{Thread: t}, nil) {
				return
			}
		}
	}
}

// TestLargeQueueIsShownAsItIsTaken lists the threads of a million recipients for a
// client, and measures the heap meanwhile.
func TestLargeQueueIsShownAsItIsTaken(t *testing.T) {
	const most = 200_000
	q := &endlessQueue{most: most}
	k := dial(t, newServer(t, q), loopback)
	k.login("nobody", "nobody")
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	k.send("SHOW QUEUE THREADS2\n")
	k.in = bufio.NewReaderSize(k.in, 64<<10)
	if first := k.line(); first != mailq.Until {
		t.Fatal(first)
	}
	threads := 0
	for {
		line, err := k.in.ReadSlice('\n')
		must(t, err)
		if string(line) == ".\n" {
			break
		}
		threads++
		if threads == most/2 {
			if ahead := q.given - threads; ahead > 5000 {
				t.Errorf("%d threads were taken before anybody read them", ahead)
			}
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
		}
	}
	if threads != most {
		t.Errorf("%d threads", threads)
	}
}

// BenchmarkThreads2 writes lines of SHOW QUEUE THREADS2.
func BenchmarkThreads2(b *testing.B) {
	q := &endlessQueue{most: b.N}
	r := &report{queue: q, out: &answer{w: bufio.NewWriterSize(io.Discard, outBuffer), framed: true}}
	b.ReportAllocs()
	if err := showThreads2(b.Context(), r, ""); err != nil {
		b.Fatal(err)
	}
}
