package router

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
)

// BenchmarkRouter routes submissions that wait together. Its figure waits/op is
// the synchronous waits for the disk a message.
func BenchmarkRouter(b *testing.B) {
	for _, together := range []int{1, 20, 1000} {
		b.Run(fmt.Sprint(together), func(b *testing.B) {
			o := newOffice(b, 2)
			r := o.router()
			r.log = zerolog.Nop()
			waits, messages := 0, 0
			sync := r.queue.SyncAll
			r.queue.SyncAll = func() error { waits++; return sync() }
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range together {
					o.write(fmt.Sprint("new", i), "from <s@a.example>\nto <z@d.example>\nenv-end\nSubject: x\n\nbody\n")
					if err := os.Rename(filepath.Join(o.dir, fmt.Sprint("new", i)), filepath.Join(o.dir, "router", fmt.Sprint(i+1))); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				r.drain()
				messages += together
			}
			b.ReportMetric(float64(waits)/float64(messages), "waits/message")
			b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
