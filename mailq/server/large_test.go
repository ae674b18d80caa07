package server

import (
	"bufio"
	"context"
	"io"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"zsched/mailq"
)

// endless is a queue that makes its threads as they are taken.
type endless struct {
	picture
	most  int // 0: no end
	given int
}

func (e *endless) Threads(context.Context) iter.Seq2[mailq.ThreadRow, error] {
	return func(yield func(mailq.ThreadRow, error) bool) {
		ring := &mailq.Ring{ID: 1, Channel: "smtp", Host: "*"}
		for e.most == 0 || e.given < e.most {
			e.given++
			t := &mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: "h" + strconv.Itoa(e.given) + ".example"}, Jobs: 5, Recipients: 5}
			if !yield(mailq.ThreadRow{Ring: ring, Thread: t}, nil) {
				return
			}
		}
	}
}

// TestLargeQueueIsShownAsItIsTaken shows threads of a million recipients to a
// client that reads them, and looks at the memory in use on the way.
func TestLargeQueueIsShownAsItIsTaken(t *testing.T) {
	const most = 200_000
	q := &endless{most: most}
	k := converse2(t, open2(t, q), loopback)
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

// BenchmarkThreads2 is a line of SHOW QUEUE THREADS2.
func BenchmarkThreads2(b *testing.B) {
	q := &endless{most: b.N}
	r := &reports{queue: q, out: &lines{w: bufio.NewWriterSize(io.Discard, outBuffer), framed: true}}
	b.ReportAllocs()
	if err := r.threads2(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestManyReasonsAreBounded: diagnostics that all differ do not fill memory.
func TestManyReasonsAreBounded(t *testing.T) {
	p := &picture{}
	for i := range 5 * maxReasons {
		p.jobs = append(p.jobs, &mailq.Job{Recipients: []mailq.Recipient{{Reason: strings.Repeat("x", 1000+i)}, {Reason: "busy " + strconv.Itoa(i)}}})
	}
	items, err := gatherReasons(t.Context(), p)
	must(t, err)
	total := 0
	for _, it := range items {
		total += it.Recipients
		if len(it.Reason) > maxReasonKey {
			t.Fatalf("a reason of %d bytes", len(it.Reason))
		}
	}
	last := items[len(items)-1]
	if len(items) != maxReasons+1 || total != 10*maxReasons || !last.Others || last.Recipients == 0 {
		t.Errorf("%d reasons for %d recipients, last %+v", len(items), total, last)
	}
}
