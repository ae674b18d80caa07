package metrics

// Counters of what passes through the loop.

import (
	"errors"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Stats counts what passes through the loop: it is an Observer of the daemon, and
// belongs to the loop's goroutine. Any goroutine may read the registry.
type Stats struct {
	registry *prometheus.Registry

	turns                         prometheus.Histogram     // length of the loop's turns
	feeds                         prometheus.Histogram     // from arrival to the first job line
	ages                          *prometheus.HistogramVec // of messages, at the outcomes of recipients
	spoolErrors, refused, reports *prometheus.CounterVec
	// startsFailed counts agents that could not be started, and those that ended
	// before their first #hungry.
	startsFailed prometheus.Counter
	// deaths counts agents that ended later without having been asked to, by how:
	// exit, signal, or killed (by the scheduler, because they wrote nothing or
	// too much).
	deaths *prometheus.CounterVec

	longestTurn time.Duration // since the start
	sweptAt     time.Time     // when the last sweep ended
	answeredAt  time.Time     // when the spool last answered
	// spoolDown says why nothing can be written to the spool; "": it can.
	spoolDown string

	waiting map[scheduler.MessageID]time.Time // arrivals that are not fed yet
	unready map[scheduler.AgentID]struct{}    // agents that have not said #hungry yet
	leaving map[scheduler.AgentID]departure   // agents that were asked to exit, or killed
}

// departure is how the scheduler made an agent leave.
type departure uint8

const (
	closed departure = iota + 1
	killed
)

// maxWaiting bounds the arrivals whose first job line is awaited. While that many
// wait, further arrivals are not measured.
const maxWaiting = 4096

// Upper bounds of the buckets, in seconds.
var (
	turnBounds = []float64{.0001, .0003, .001, .002, .005, .01, .02, .05, .1, .5, 1}
	feedBounds = []float64{.0005, .001, .002, .005, .01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600}
	ageBounds  = []float64{.1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

var _ daemon.Observer = (*Stats)(nil)

// NewStats returns counters at zero.
func NewStats() *Stats {
	registry, now := prometheus.NewRegistry(), time.Now()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	create := promauto.With(registry)
	histogram := func(name, help string, bounds []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}
	}
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	s := &Stats{
		registry: registry,
		turns: create.NewHistogram(histogram("scheduler_loop_pause_seconds",
			"Length of the turns of the loop, each of which handles one batch of events.", turnBounds)),
		feeds: create.NewHistogram(histogram("scheduler_feed_seconds",
			"Time from a message's arrival to its first job line; a sample when very many wait.", feedBounds)),
		ages: create.NewHistogramVec(histogram("scheduler_outcome_seconds",
			"Age of the message at the outcome of each recipient.", ageBounds), []string{"result"}),
		spoolErrors: create.NewCounterVec(counter("scheduler_spool_errors_total",
			"Failed operations on control and message files, by operation."), []string{"doing"}),
		refused: create.NewCounterVec(counter("scheduler_refused_total",
			"Control files that were read but not taken, by reason; each attempt counts."), []string{"why"}),
		reports: create.NewCounterVec(counter("scheduler_reports_total",
			"Reports of agents, by result and enhanced status code."), []string{"result", "code"}),
		startsFailed: create.NewCounter(counter("scheduler_agent_start_failures_total",
			"Agents that could not be started, or ended before they asked for work.")),
		deaths: create.NewCounterVec(counter("scheduler_agent_deaths_total",
			"Agents that ended at work or idle without having been asked to, by how they ended."), []string{"how"}),
		sweptAt: now, answeredAt: now,
		waiting: make(map[scheduler.MessageID]time.Time),
		unready: make(map[scheduler.AgentID]struct{}),
		leaving: make(map[scheduler.AgentID]departure),
	}
	// Series that are known exist from the start.
	for _, result := range []string{delivered, failed, expired} {
		s.ages.WithLabelValues(result)
	}
	for _, how := range []string{"exit", "signal", "killed"} {
		s.deaths.WithLabelValues(how)
	}
	return s
}

// Event counts an event: daemon.Observer.
func (s *Stats) Event(now time.Time, e scheduler.Event) {
	switch e := e.(type) {
	case scheduler.Arrived:
		if len(s.waiting) < maxWaiting && len(e.Message.Recipients) > 0 {
			s.waiting[e.Message.ID] = now
		}
	case scheduler.AgentFailed:
		delete(s.unready, e.Agent)
		s.startsFailed.Inc()
	case scheduler.AgentHungry:
		if len(s.unready) > 0 {
			delete(s.unready, e.Agent)
		}
	case scheduler.AgentReported:
		s.reports.WithLabelValues(resultOf(e.Report.Status), codeLabel(e.Report.Notary.Code())).Inc()
	case scheduler.AgentExited:
		s.exited(e)
	case scheduler.Failed:
		if e.SpoolDown {
			s.spoolDown = e.Reason // until a probe succeeds
		}
	case scheduler.SpoolBack:
		s.spoolDown = ""
	}
}

// Action counts an action: daemon.Observer.
func (s *Stats) Action(now time.Time, a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Feed:
		if len(s.waiting) > 0 {
			s.fed(a.Job.Path, now)
		}
	case scheduler.Account:
		s.ages.WithLabelValues(resultOfState(a.State)).Observe(max(0, now.Sub(a.ModifiedAt).Seconds()))
	case scheduler.Complete:
		delete(s.waiting, a.Message)
	case scheduler.Start:
		s.unready[a.Agent] = struct{}{}
	case scheduler.Close:
		s.leaving[a.Agent] = closed
	case scheduler.Kill:
		if s.leaving[a.Agent] == 0 {
			s.leaving[a.Agent] = killed
		}
	}
}

// exited counts an agent that has ended although it was not asked to. One that
// was asked to exit before its first #hungry does not count as a failed start.
func (s *Stats) exited(e scheduler.AgentExited) {
	how := s.leaving[e.Agent]
	_, unready := s.unready[e.Agent]
	delete(s.leaving, e.Agent)
	delete(s.unready, e.Agent)
	switch {
	case how == closed:
	case unready:
		s.startsFailed.Inc()
	case how == killed:
		s.deaths.WithLabelValues("killed").Inc()
	case strings.HasPrefix(e.Status, "signal"):
		s.deaths.WithLabelValues("signal").Inc()
	default:
		s.deaths.WithLabelValues("exit").Inc()
	}
}

// fed measures the time to a message's first job line.
func (s *Stats) fed(file string, now time.Time) {
	n, _ := ctlfile.Number(path.Base(file))
	id := scheduler.MessageID(n)
	if at, ok := s.waiting[id]; ok {
		s.feeds.Observe(now.Sub(at).Seconds())
		delete(s.waiting, id)
	}
}

// Result counts a result of the spool: daemon.Observer.
func (s *Stats) Result(now time.Time, r spool.Result) {
	s.answeredAt = now
	switch r := r.(type) {
	case spool.Refused:
		s.refused.WithLabelValues(r.Why.String()).Inc()
	case spool.Marked:
		s.spoolError("mark", r.Err)
	case spool.Reread:
		s.spoolError("read", r.Err)
	case spool.Finished:
		s.spoolError("finish", r.Err)
	case spool.Reported:
		s.spoolError("report", r.Err)
	case spool.Moved:
		s.spoolError("hold", r.Err)
	case spool.Resubmitted:
		s.spoolError("resubmit", r.Err)
	case spool.Swept:
		s.sweptAt = now
	case spool.Warning:
		s.spoolErrors.WithLabelValues("other").Inc()
	}
}

// spoolError counts an error. A file that still has open recipients is not one.
func (s *Stats) spoolError(doing string, err error) {
	if err != nil && !errors.Is(err, spool.ErrOpen) {
		s.spoolErrors.WithLabelValues(doing).Inc()
	}
}

// Turn counts a turn of the loop: daemon.Observer.
func (s *Stats) Turn(took time.Duration) {
	s.turns.Observe(took.Seconds())
	s.longestTurn = max(s.longestTurn, took)
}

// forget drops messages that left the queue without being fed.
func (s *Stats) forget(core *scheduler.Scheduler) {
	for id := range s.waiting {
		if core.Known(id) == scheduler.Absent {
			delete(s.waiting, id)
		}
	}
}
