package daemon

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/ta/child"
)

// BenchmarkListing lists ten thousand threads with a million messages while
// messages arrive: through the Queue, and by the program mailq -Q at a socket.
// It gives the time of a listing, and of the loop the longest pause and that
// of one in a thousand.
func BenchmarkListing(b *testing.B) {
	for _, messages := range []int{10_000, 1_000_000} {
		f := newFull(b, messages, 10_000)
		b.Run(fmt.Sprintf("messages=%d/queue", messages), func(b *testing.B) {
			f.measure(b, func() {
				n := 0
				for row, err := range f.d.Queue().Threads(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					if row.Thread != nil {
						n++
					}
				}
				if n < f.threads {
					b.Fatalf("%d threads of %d", n, f.threads)
				}
			})
		})
		b.Run(fmt.Sprintf("messages=%d/mailq-Q", messages), func(b *testing.B) {
			f.measure(b, func() {
				out, err := exec.Command(f.mailq, "-p", f.socket, "-Q").Output()
				if n := strings.Count(string(out), "\n    smtp/"); err != nil || n < f.threads {
					b.Fatalf("%d threads of %d: %v", n, f.threads, err)
				}
			})
		})
		b.Run(fmt.Sprintf("messages=%d/survey", messages), func(b *testing.B) {
			f.measure(b, func() {
				if _, err := f.d.survey(); err != nil {
					b.Fatal(err)
				}
			})
		})
		f.stop()
	}
}

// full is a daemon whose queue waits to be asked for.
type full struct {
	d             *Daemon
	spool         *endless
	threads       int
	mailq, socket string
	signals       chan os.Signal
	ended         chan struct{}
	ballast       []byte
}

func newFull(b *testing.B, messages, threads int) *full {
	debug.SetGCPercent(50) // as cmd/scheduler has it
	dir := b.TempDir()
	f := &full{
		threads: threads, spool: &endless{results: make(chan []spool.Result)},
		mailq: filepath.Join(dir, "mailq"), socket: filepath.Join(dir, "socket"),
		signals: make(chan os.Signal, 1), ended: make(chan struct{}), ballast: make([]byte, 64<<20),
	}
	if out, err := exec.Command("go", "build", "-o", f.mailq, "zsched/cmd/mailq").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	f.d = New(Options{
		Config:  oneClause(func(p *scheduler.Params) { p.QueueOnly = true }),
		Rand:    rand.New(rand.NewPCG(1, 2)),
		Spool:   f.spool,
		Start:   func(child.Spec, func([]child.Heard)) (Agent, error) { return nil, syscall.EAGAIN },
		Log:     zerolog.Nop(),
		Queries: Socket{"unix", f.socket}, Signals: f.signals,
		Answering: func() server.Settings { return server.Settings{Version: 2, UID: os.Getuid()} },
	})
	go func() {
		defer close(f.ended)
		f.d.Run()
	}()
	for f.spool.arrived < messages {
		f.spool.arrive(f.threads)
	}
	runtime.GC()
	return f
}

// measure lists again and again while 5000 messages arrive a second.
func (f *full) measure(b *testing.B, list func()) {
	var longest time.Duration
	var before, after histogram
	f.d.ask(b.Context(), func() { f.d.tally.longest, before = 0, f.d.tally.pauses.copy() })
	done, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.spool.arrive(f.threads)
			case <-done:
				return
			}
		}
	}()
	for b.Loop() {
		list()
	}
	close(done)
	<-left
	f.d.ask(b.Context(), func() { longest, after = f.d.tally.longest, f.d.tally.pauses.copy() })
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-pause")
	b.ReportMetric(1000*quantile(before, after, .999), "ms-p99.9-pause")
}

// quantile is the bound below which so much of what came between two
// histograms is.
func quantile(before, after histogram, q float64) float64 {
	n, total := uint64(0), after.total-before.total
	for i, bound := range after.bounds {
		if n += after.counts[i] - before.counts[i]; float64(n) >= q*float64(total) {
			return bound
		}
	}
	return after.bounds[len(after.bounds)-1]
}

func (f *full) stop() {
	f.signals <- syscall.SIGTERM
	<-f.ended
	runtime.KeepAlive(f.ballast)
	f.d, f.spool = nil, nil
}

// endless is a spool that has only arrivals.
type endless struct {
	results chan []spool.Result
	arrived int
}

// arrive brings a hundred messages.
func (s *endless) arrive(threads int) {
	batch := make([]spool.Result, 100)
	now := time.Now()
	for i := range batch {
		s.arrived++
		id := uint64(s.arrived)
		batch[i] = spool.Taken{
			Name: spool.Name{Path: fmt.Sprint(id), ID: id}, Sender: "rayan@sender.example", ErrorTo: "rayan@sender.example",
			ModifiedAt: now, ChangedAt: now, Size: 1000,
			Recipients: []spool.Recipient{{Offset: 100, Channel: "smtp", Host: fmt.Sprintf("h%d.example", s.arrived%threads)}},
		}
	}
	s.results <- batch
}

func (s *endless) Found() <-chan []spool.Name                                { return nil }
func (s *endless) Results() <-chan []spool.Result                            { return s.results }
func (s *endless) Take([]spool.Name)                                         {}
func (s *endless) Mark(uint64, string, []spool.Mark)                         {}
func (s *endless) Reread(uint64, string, int)                                {}
func (s *endless) Finish(uint64, string, bool)                               {}
func (s *endless) Probe()                                                    {}
func (s *endless) Verbose(string, uint32, string)                            {}
func (s *endless) Sweep()                                                    {}
func (s *endless) Hold(uint64, string)                                       {}
func (s *endless) Release(uint64, string)                                    {}
func (s *endless) EndHeld(uint64, string, []spool.Mark)                      {}
func (s *endless) Resubmit(uint64, spool.Resubmission)                       {}
func (s *endless) HoldThreads(uint64, []spool.Thread)                        {}
func (s *endless) HeldThreads() ([]spool.Thread, error)                      { return nil, nil }
func (s *endless) Show(context.Context, string) (*spool.Stored, bool, error) { return nil, false, nil }
func (s *endless) Find(context.Context, spool.Sought) iter.Seq2[*spool.Stored, error] {
	return func(func(*spool.Stored, error) bool) {}
}
