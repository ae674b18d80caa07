package admin

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/listen"
	"zsched/mailq/server"
	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
)

// BenchmarkListing lists ten thousand threads with a million messages while
// messages arrive: through the Queue, and by the program mailq -Q at a socket.
// It gives the time of a listing, and of the loop the longest turn and the
// 99.9th percentile.
func BenchmarkListing(b *testing.B) {
	for _, messages := range []int{10_000, 1_000_000} {
		f := newFull(b, messages, 10_000)
		b.Run(fmt.Sprintf("messages=%d/queue", messages), func(b *testing.B) {
			f.measure(b, func() {
				n := 0
				for row, err := range f.server.Queue().Threads(b.Context()) {
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
		f.stop()
	}
}

// BenchmarkTotals counts a queue of a million messages while messages arrive.
func BenchmarkTotals(b *testing.B) {
	for _, messages := range []int{10_000, 1_000_000} {
		f := newFull(b, messages, 10_000)
		b.Run(fmt.Sprintf("messages=%d/totals", messages), func(b *testing.B) {
			f.measure(b, func() {
				if t, err := f.server.Queue().Totals(b.Context()); err != nil || t.Recipients < messages {
					b.Fatalf("%d recipients: %v", t.Recipients, err)
				}
			})
		})
		f.stop()
	}
}

// full is a daemon with a queueonly clause, whose mail stays.
type full struct {
	daemon        *daemon.Daemon
	server        *Server
	sockets       *listen.Sockets
	turns         *turns
	spool         *endless
	threads       int
	mailq, socket string
	signals       chan os.Signal
	ended         chan struct{}
	ballast       []byte
}

// turns keeps the lengths of the loop's turns. It belongs to the loop.
type turns struct{ took []time.Duration }

func (t *turns) Turn(took time.Duration)          { t.took = append(t.took, took) }
func (*turns) Event(time.Time, scheduler.Event)   {}
func (*turns) Action(time.Time, scheduler.Action) {}
func (*turns) Result(time.Time, spool.Result)     {}

func (s *endless) LoadHolds() ([]spool.HoldRecord, error) { return nil, nil }

func newFull(b *testing.B, messages, threads int) *full {
	debug.SetGCPercent(12) // as cmd/scheduler has it
	dir := b.TempDir()
	f := &full{
		threads: threads, spool: &endless{results: make(chan []spool.Result)}, turns: new(turns),
		mailq: filepath.Join(dir, "mailq"), socket: filepath.Join(dir, "socket"),
		signals: make(chan os.Signal, 1), ended: make(chan struct{}), ballast: make([]byte, 64<<20),
	}
	if out, err := exec.Command("go", "build", "-o", f.mailq, "zsched/cmd/mailq").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	f.daemon = daemon.New(daemon.Options{
		Config: daemontest.OneClause(func(p *rule.Params) { p.QueueOnly = true }),
		Rand:   rand.New(rand.NewPCG(1, 2)),
		Spool:  f.spool,
		Agents: daemon.AgentOptions{
			Start: func(child.Spec, func([]child.Event)) (daemon.Agent, error) { return nil, syscall.EAGAIN },
		},
		Log: zerolog.Nop(), Observers: []daemon.Observer{f.turns}, Signals: f.signals,
	})
	f.server = New(Options{Port: f.daemon, Files: memoryFiles{&daemontest.Spool{}, &unreadFiles{}}, Log: zerolog.Nop(), Settings: server.Settings{Version: 2, UID: os.Getuid()}})
	f.sockets = listen.New(zerolog.Nop())
	f.sockets.Open("mailq", listen.Address{Network: "unix", Address: f.socket}, nil, func(l net.Listener) error {
		return f.sockets.Accept(l, f.server.Serve)
	})
	go func() {
		defer close(f.ended)
		f.daemon.Run()
	}()
	for f.spool.arrived < messages {
		f.spool.arrive(f.threads)
	}
	runtime.GC()
	return f
}

// measure lists again and again while 5000 messages arrive a second.
func (f *full) measure(b *testing.B, list func()) {
	f.daemon.Ask(b.Context(), func(*daemon.Loop) { f.turns.took = nil })
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
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
	<-stopped
	var took []time.Duration
	f.daemon.Ask(b.Context(), func(*daemon.Loop) { took = slices.Sorted(slices.Values(f.turns.took)) })
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-longest-turn")
	b.ReportMetric(float64(took[len(took)*999/1000].Microseconds())/1000, "ms-p99.9-turn")
}

func (f *full) stop() {
	f.signals <- syscall.SIGTERM
	<-f.ended
	f.sockets.Close()
	runtime.KeepAlive(f.ballast)
	f.daemon, f.server, f.spool = nil, nil, nil
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
		batch[i] = spool.Loaded{
			Name: spool.Name{Path: fmt.Sprint(id), ID: id},
			Message: scheduler.Message{
				ID: scheduler.MessageID(id), Path: fmt.Sprint(id), Sender: "rayan@sender.example", ErrorTo: "rayan@sender.example",
				ModifiedAt: now, ChangedAt: now, Size: 1000,
				Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: fmt.Sprintf("h%d.example", s.arrived%threads)}},
			},
		}
	}
	s.results <- batch
}

func (s *endless) Found() <-chan []spool.Name        { return nil }
func (s *endless) Results() <-chan []spool.Result    { return s.results }
func (s *endless) Load([]spool.Name)                 {}
func (s *endless) Do(scheduler.Action)               {}
func (s *endless) Probe()                            {}
func (s *endless) Verbose(string, uint32, string)    {}
func (s *endless) Sweep()                            {}
func (s *endless) RecordHold(spool.HoldRecord) error { return nil }
