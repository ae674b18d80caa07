package report

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"zsched/internal/postoffice"
	"zsched/queue"
)

// withGroup has the reporter of an office share its syncs, which are counted.
func (o *office) withGroup(t testing.TB) (syncs *atomic.Int64) {
	g, err := queue.NewGroupCommit(queue.Router{Postoffice: o.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	o.Group, syncs = g, new(atomic.Int64)
	all, one := g.SyncAll, g.SyncFile
	g.SyncAll = func() error { syncs.Add(1); return all() }
	g.SyncFile = func(f *postoffice.File) error { syncs.Add(1); return one(f) }
	return syncs
}

func TestNoticesThatAreWrittenTogetherShareOneSync(t *testing.T) {
	o := newOffice(t, failure("alice@sender.example", "", "R HDRS\n"))
	syncs := o.withGroup(t)
	begun, proceed := make(chan struct{}), make(chan struct{})
	one := o.Group.SyncFile
	o.Group.SyncFile = func(f *postoffice.File) error {
		close(begun)
		<-proceed
		return one(f)
	}
	const more = 50
	var writers sync.WaitGroup
	report := func() {
		if file, err := o.Report(&o.message, written); err != nil || !strings.HasPrefix(file, "router/") {
			t.Errorf("%q, %v", file, err)
		}
	}
	writers.Go(report)
	<-begun // the first is being synced, and the others wait meanwhile
	for range more {
		writers.Go(report)
	}
	for o.Group.Waiting() < more {
		// until all wait
	}
	close(proceed)
	writers.Wait()
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs", n)
	}
}

// BenchmarkNotices writes notices with sixteen writers, as package spool does, each
// with waits of its own and with those that are shared.
func BenchmarkNotices(b *testing.B) {
	for _, shared := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "shared"}[shared], func(b *testing.B) {
			o := newOffice(b, failure("alice@sender.example", "", "R HDRS\n"))
			var syncs *atomic.Int64
			if shared {
				syncs = o.withGroup(b)
			}
			work := make(chan bool)
			var writers sync.WaitGroup
			for range 16 {
				writers.Go(func() {
					for range work {
						if _, err := o.Report(&o.message, written); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- true
			}
			close(work)
			writers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "notices/s")
			if shared {
				b.ReportMetric(float64(syncs.Load())/float64(b.N), "file-syncs/notice")
			}
		})
	}
}
