// Package metrics serves the scheduler's numbers to Prometheus (/metrics) and
// says whether it is healthy (/healthz), at PARAMmetrics.
//
// Stats counts what passes through the loop, as its observer. A scrape copies
// these counters and the core's in one function in the loop, then walks over the
// threads in slices. So all numbers belong to one moment, except those of the
// walk.
package metrics

import (
	"cmp"
	"context"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"zsched/internal/listen"
	"zsched/internal/logs"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

const (
	// maxDestinations bounds ?destinations=N, so that no scrape makes a time
	// series of every host.
	maxDestinations = 1000
	// maxChannels bounds the channels that have metrics of their own, because
	// the router chooses their names. The others are added up under
	// otherChannels.
	maxChannels   = 100
	otherChannels = "other"
	// maxConns bounds the connections to the socket, because anybody who can
	// reach it is answered.
	maxConns      = 32
	scrapeTimeout = 20 * time.Second
)

// Server answers scrapes and health checks.
type Server struct {
	Port  daemon.Port
	Stats *Stats
	// Queries are the counters of mailq sessions by their names in SHOW
	// COUNTERS; nil: there are no sessions.
	Queries func() map[string]float64
	// Kept counts the mail that is kept back, as mailq does; nil: it is not
	// counted.
	Kept func(context.Context) ([]Kept, error)
	// Reloaded reports whether the last reloads of the router's tables and of
	// smtpserver.cf succeeded, or there was none; nil: they are not in the metrics.
	Reloaded func() (router, smtpserver bool)
	// CertificateEnd returns when PARAMxfer-cert ends, or the zero time without one; nil: it
	// is not in the metrics.
	CertificateEnd func() time.Time
	// EventsLost counts the lines that the event log has lost; nil: there is no
	// event log.
	EventsLost func() uint64
	// Cluster returns the counts of what passes between this node and the store of its
	// cluster; nil: there is none.
	Cluster func(context.Context) (Cluster, error)
	Log     zerolog.Logger
}

// Kept counts messages, threads or jobs that are kept back in one state.
type Kept struct {
	State    string // a name of mailq.KeptKinds, or router
	Count    int
	OldestAt time.Time // when the oldest arrived; zero: not known, or there is none
}

// Serve answers at a listener until it is closed.
func (s *Server) Serve(listener net.Listener) error {
	errors := stdlog.New(&errorLog{log: s.Log, limit: logs.Throttle{Period: time.Second}}, "", 0)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { s.serveMetrics(w, r, errors) })
	mux.HandleFunc("GET /healthz", s.serveHealth)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      scrapeTimeout + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errors,
	}
	defer server.Close()
	return server.Serve(listen.Limit(listener, maxConns))
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, errors *stdlog.Logger) {
	destinations := 0
	if text := r.URL.Query().Get("destinations"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(w, "destinations must be a number", http.StatusBadRequest)
			return
		}
		destinations = min(n, maxDestinations)
	}
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	scrape, err := s.scrape(ctx, destinations)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(scrape, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// One bad metric must not hide the others.
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: errors,
	}).ServeHTTP(&replyWriter{ResponseWriter: w}, r)
}

// replyWriter hides errors of writing the reply. The encoder goes on after an error
// and reports it for each metric, and a client may leave at any time.
type replyWriter struct {
	http.ResponseWriter
	failed bool
}

func (w *replyWriter) Write(b []byte) (int, error) {
	if !w.failed {
		_, err := w.ResponseWriter.Write(b)
		w.failed = err != nil
	}
	return len(b), nil
}

// errorLog logs errors of requests, which clients may cause: at most a line a second.
type errorLog struct {
	log   zerolog.Logger
	limit logs.Throttle
}

func (l *errorLog) Write(line []byte) (int, error) {
	if l.limit.Allow("", time.Now()) {
		l.log.Error().Msg(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// Cluster counts what passes between a node and the store.
type Cluster struct {
	Calls, Batches, Failures, Losses, Epochs uint64
	Latency, Slowest                         time.Duration // of all batches together, and of one
	Lost                                     bool
	Nodes, Limits                            int
}

// scrape is what one scrape shows.
type scrape struct {
	now        time.Time
	counts     scheduler.Counts
	stats      values
	status     daemon.Status
	channels   []scheduler.ChannelView
	threads    threads
	shares     scheduler.SharesView
	queries    map[string]float64
	kept       []Kept
	eventsLost func() uint64                    // nil: there is no event log
	reloaded   func() (router, smtpserver bool) // as Server.Reloaded
	certEnd    time.Time                        // of PARAMxfer-cert; zero: there is none
	cluster    *Cluster                         // nil: there is none
}

func (s *Server) scrape(ctx context.Context, destinations int) (*scrape, error) {
	c := new(scrape)
	err := s.Port.Ask(ctx, func(l *daemon.Loop) {
		c.now, c.counts, c.status = l.Now(), l.Core().Counts(), l.Status()
		c.stats = s.Stats.snapshot(l.Core())
		c.shares = l.Core().Shares()
		c.channels = limitChannels(l.Core().Channels())
	})
	if err != nil {
		return nil, err
	}
	if c.threads, err = s.walk(ctx, destinations); err != nil {
		return nil, err
	}
	if s.Cluster != nil {
		stats, err := s.Cluster(ctx)
		if err != nil {
			return nil, err
		}
		c.cluster = &stats
	}
	if s.Queries != nil {
		c.queries = s.Queries()
	}
	if s.Kept != nil {
		if c.kept, err = s.Kept(ctx); err != nil {
			s.Log.Warn().Err(err).Msg("mail that is kept back is not counted in the metrics")
		}
	}
	c.eventsLost, c.reloaded = s.EventsLost, s.Reloaded
	if s.CertificateEnd != nil {
		c.certEnd = s.CertificateEnd()
	}
	return c, nil
}

// limitChannels adds up the channels beyond maxChannels.
func limitChannels(all []scheduler.ChannelView) []scheduler.ChannelView {
	if len(all) <= maxChannels {
		return all
	}
	some := slices.Clone(all[:maxChannels])
	i := slices.IndexFunc(some, func(c scheduler.ChannelView) bool { return c.Name == otherChannels })
	if i < 0 {
		i = len(some)
		some = append(some, scheduler.ChannelView{Name: otherChannels})
	}
	other := &some[i]
	for _, c := range all[maxChannels:] {
		other.In += c.In
		other.Delivered += c.Delivered
		other.Deferred += c.Deferred
		other.Failed += c.Failed
		other.Expired += c.Expired
		other.Dropped += c.Dropped
		other.Held += c.Held
		other.Released += c.Released
	}
	return some
}

// threads is what a walk over the threads gives.
type threads struct {
	jobs     map[scheduler.State]int
	waiting  map[scheduler.Wait]int        // threads whose due mail waits, by reason
	windows  map[string]int                // threads by windowState
	oldestAt map[scheduler.State]time.Time // mtime of the oldest message file
	// silentSince is the last event of the thread that has gone longest
	// without one; zero: there is none.
	silentSince time.Time
	largest     []destination
}

// destination is a thread as a scrape with ?destinations=N shows it.
type destination struct {
	channel, host string
	jobs          int
	oldestAt      time.Time
}

// walk looks at all threads, and keeps the n largest.
func (s *Server) walk(ctx context.Context, n int) (threads, error) {
	all := threads{
		jobs: make(map[scheduler.State]int), waiting: make(map[scheduler.Wait]int), windows: make(map[string]int),
		oldestAt: make(map[scheduler.State]time.Time),
	}
	begin := func(core *scheduler.Scheduler) *scheduler.Walk { return core.Walk(scheduler.Threads) }
	for item, err := range daemon.Walk(ctx, s.Port, begin) {
		if err != nil {
			return all, err
		}
		if t := item.Thread; t != nil {
			all.add(t)
			all.largest = append(all.largest, destination{t.Channel, t.Host, t.Vertices, t.OldestAt})
			if len(all.largest) >= 2*n+64 {
				all.largest = largest(all.largest, n)
			}
		}
	}
	all.largest = largest(all.largest, n)
	return all, nil
}

func (all *threads) add(t *scheduler.ThreadView) {
	all.waiting[t.Wait]++
	all.windows[windowState(t)]++
	for state, n := range t.States.All() {
		all.jobs[state] += n
		if oldest, ok := all.oldestAt[state]; n > 0 && (!ok || t.OldestAt.Before(oldest)) {
			all.oldestAt[state] = t.OldestAt
		}
	}
	if t.Held || t.Vertices == 0 {
		return
	}
	if all.silentSince.IsZero() || t.LastEventAt.Before(all.silentSince) {
		all.silentSince = t.LastEventAt
	}
}

// windowStates are the results of windowState.
var windowStates = [...]string{"open", "narrowed", "probing", "suspended"}

// windowState says what the window of a thread allows: as many sessions as at
// first or more, fewer, one probe, or none.
func windowState(t *scheduler.ThreadView) string {
	switch {
	case !t.SuspendedUntil.IsZero(), t.Order != nil:
		return "suspended"
	case t.Feedback.Dead:
		return "probing"
	case t.Window < t.InitialWindow:
		return "narrowed"
	}
	return "open"
}

func largest(all []destination, n int) []destination {
	slices.SortFunc(all, func(a, b destination) int {
		return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.channel, b.channel), cmp.Compare(a.host, b.host))
	})
	return all[:min(n, len(all))]
}
