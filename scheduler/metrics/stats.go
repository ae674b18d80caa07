package metrics

// Counters of what passes through the loop.

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"zsched/internal/metrics"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Stats counts what passes through the loop: it is an Observer of the daemon, and
// belongs to the loop's goroutine. Any goroutine may read the registry.
type Stats struct {
	registry *prometheus.Registry

	turns                prometheus.Histogram     // length of the loop's turns
	ages                 *prometheus.HistogramVec // of messages, at the outcomes of recipients
	spoolErrors, refused *prometheus.CounterVec
	startsFailed         prometheus.Counter
	deaths               *prometheus.CounterVec // agents that ended with an error, by how: exit or signal

	sweptAt    time.Time // when the last sweep ended
	answeredAt time.Time // when the spool last answered
	// spoolDown says why nothing can be written to the spool; "": it can.
	spoolDown string
	noReserve bool // the reserve for a full disk is not there
}

// Upper bounds of the buckets, in seconds.
var (
	turnBounds = []float64{.0001, .0003, .001, .002, .005, .01, .02, .05, .1, .5, 1}
	ageBounds  = []float64{.1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

var _ daemon.Observer = (*Stats)(nil)

// NewStats returns counters at zero.
func NewStats() *Stats {
	registry, now := metrics.NewRegistry(), time.Now()
	create := promauto.With(registry)
	histogram := func(name, help string, bounds []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}
	}
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	s := &Stats{
		registry: registry,
		turns: create.NewHistogram(histogram("scheduler_loop_pause_seconds",
			"Length of the turns of the loop, each of which handles one batch of events.", turnBounds)),
		ages: create.NewHistogramVec(histogram("scheduler_outcome_seconds",
			"Age of the message at the outcome of each recipient.", ageBounds), []string{"result"}),
		spoolErrors: create.NewCounterVec(counter("scheduler_spool_errors_total",
			"Failed operations on control and message files, by operation."), []string{"doing"}),
		refused: create.NewCounterVec(counter("scheduler_refused_total",
			"Control files that were read but not taken, by reason; each attempt counts."), []string{"why"}),
		startsFailed: create.NewCounter(counter("scheduler_agent_start_failures_total",
			"Agents that could not be started.")),
		deaths: create.NewCounterVec(counter("scheduler_agent_deaths_total",
			"Agents that ended with an error, by how they ended."), []string{"how"}),
		sweptAt: now, answeredAt: now,
	}
	// Series that are known exist from the start.
	for _, result := range []string{delivered, failed, expired} {
		s.ages.WithLabelValues(result)
	}
	for _, how := range []string{"exit", "signal"} {
		s.deaths.WithLabelValues(how)
	}
	return s
}

// Event counts an event: daemon.Observer.
func (s *Stats) Event(_ time.Time, e scheduler.Event) {
	switch e := e.(type) {
	case scheduler.AgentFailed:
		s.startsFailed.Inc()
	case scheduler.AgentExited:
		switch {
		case strings.HasPrefix(e.Status, "signal"):
			s.deaths.WithLabelValues("signal").Inc()
		case e.Status != "exit status 0":
			s.deaths.WithLabelValues("exit").Inc()
		}
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
	if a, ok := a.(*scheduler.Outcome); ok && a.IsFinal() {
		s.ages.WithLabelValues(resultOf(a.State)).Observe(max(0, now.Sub(a.ModifiedAt).Seconds()))
	}
}

// What becomes of a recipient.
const (
	delivered = "delivered"
	failed    = "failed"
	expired   = "expired"
)

// resultOf returns what the State of a scheduler.Outcome says about its recipient.
func resultOf(state string) string {
	switch state {
	case "ok", "ok2", "ok3":
		return delivered
	case "expire":
		return expired
	}
	return failed
}

// Result counts a result of the spool: daemon.Observer.
func (s *Stats) Result(now time.Time, r spool.Result) {
	s.answeredAt = now
	switch r := r.(type) {
	case spool.Refused:
		s.refused.WithLabelValues(r.Why.String()).Inc()
	case spool.Answered:
		if r.Err != nil {
			s.spoolErrors.WithLabelValues(doing(r.Action)).Inc()
		}
	case spool.Swept:
		s.sweptAt = now
	case spool.Reserve:
		s.noReserve = r.Err != nil
	case spool.Warning:
		s.spoolErrors.WithLabelValues("other").Inc()
	}
}

// doing returns the label of an action on files.
func doing(a scheduler.Action) string {
	switch a.(type) {
	case scheduler.Mark:
		return "mark"
	case scheduler.Read:
		return "read"
	case *scheduler.Finish:
		return "finish"
	case scheduler.Report:
		return "report"
	case scheduler.Resubmit:
		return "resubmit"
	}
	return "hold"
}

// Turn counts a turn of the loop: daemon.Observer.
func (s *Stats) Turn(took time.Duration) {
	s.turns.Observe(took.Seconds())
}
