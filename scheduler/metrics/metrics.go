// Package metrics serves the scheduler's numbers to Prometheus (/metrics) and
// says whether it is healthy (/healthz), at PARAMmetrics.
//
// Stats counts what passes through the loop, as its observer. A scrape takes the
// counters of the core in one function in the loop, then walks over the threads in
// slices. collect.go lists what it shows beside Stats.
package metrics

import (
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/metrics"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// maxChannels bounds the channels that have metrics, because the router chooses their names.
const maxChannels = 100

// Server answers scrapes and health checks.
type Server struct {
	Port  daemon.Port
	Stats *Stats
	// Kept returns the totals of mailq: the mail that is kept back, and how the last reloads of
	// the router's tables and of smtpserver.cf ended; nil: these are not in the metrics.
	Kept func(context.Context) (mailq.Totals, error)
	// EventsLost counts the lines that the event log has lost; nil: there is no
	// event log.
	EventsLost func() uint64
	// Cluster returns what mailq shows of the cluster; nil: there is none.
	Cluster func(context.Context) ([]*mailq.ClusterItem, error)
	Log     zerolog.Logger
}

// Serve answers at a listener until it is closed.
func (s *Server) Serve(listener net.Listener) error {
	server := metrics.Server{Registry: s.Stats.registry, Read: s.read, Unhealthy: s.unhealthy}
	return server.Serve(listener)
}

func (s *Server) read(ctx context.Context) (metrics.Numbers, error) {
	scrape, err := s.scrape(ctx)
	if err != nil {
		return nil, err
	}
	return scrape.send, nil
}

// scrape is what one scrape shows.
type scrape struct {
	server   *Server
	now      time.Time
	counts   view.Counts
	status   daemon.Status
	channels []view.Channel
	threads  threads
	kept     *mailq.Totals // nil: not counted
	cluster  []*mailq.ClusterItem
	spoolUp  bool
	reserve  bool
	sweptAt  time.Time // when the last sweep ended
}

func (s *Server) scrape(ctx context.Context) (*scrape, error) {
	c := &scrape{server: s}
	err := s.Port.Ask(ctx, func(l *daemon.Loop) {
		c.now, c.counts, c.status = l.Now(), l.Core().Counts(), l.Status()
		c.spoolUp, c.sweptAt, c.channels = s.Stats.spoolDown == "", s.Stats.sweptAt, l.Core().Channels()
		c.reserve = !s.Stats.noReserve
	})
	if err != nil {
		return nil, err
	}
	c.channels = c.channels[:min(len(c.channels), maxChannels)]
	if c.threads, err = s.walk(ctx); err != nil {
		return nil, err
	}
	if s.Cluster != nil {
		if c.cluster, err = s.Cluster(ctx); err != nil {
			return nil, err
		}
	}
	if s.Kept != nil {
		totals, err := s.Kept(ctx)
		if err != nil {
			s.Log.Warn().Err(err).Msg("mail that is kept back is not counted in the metrics")
		} else {
			c.kept = &totals
		}
	}
	return c, nil
}

// threads is what a walk over the threads gives.
type threads struct {
	jobs     map[string]int
	waiting  map[view.Wait]int    // threads whose due mail waits, by reason
	oldestAt map[string]time.Time // mtime of the oldest message file
	// silentSince is the last event of the thread that has gone longest
	// without one; zero: there is none.
	silentSince time.Time
}

// walk looks at all threads.
func (s *Server) walk(ctx context.Context) (threads, error) {
	all := threads{
		jobs: make(map[string]int), waiting: make(map[view.Wait]int),
		oldestAt: make(map[string]time.Time),
	}
	begin := func(core *scheduler.Scheduler) *scheduler.Walk { return core.Walk(scheduler.Threads) }
	for item, err := range daemon.Walk(ctx, s.Port, begin) {
		if err != nil {
			return all, err
		}
		if t := item.Thread; t != nil {
			all.add(t)
		}
	}
	return all, nil
}

func (all *threads) add(t *view.Thread) {
	all.waiting[t.Wait]++
	for state, n := range t.States {
		all.jobs[state] += n
		if oldest, ok := all.oldestAt[state]; !ok || t.OldestAt.Before(oldest) {
			all.oldestAt[state] = t.OldestAt
		}
	}
	if t.Held || t.JobLines == 0 {
		return
	}
	if all.silentSince.IsZero() || t.LastEventAt.Before(all.silentSince) {
		all.silentSince = t.LastEventAt
	}
}
