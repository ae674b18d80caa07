// Package metrics answers scrapes of Prometheus (GET /metrics) and health checks
// (GET /healthz) for the scheduler, the router and the SMTP server.
package metrics

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"zsched/internal/listen"
	"zsched/internal/text"
	"zsched/internal/version"
)

const (
	// maxConns bounds the connections to the socket, because anybody who can
	// reach it is answered.
	maxConns      = 32
	scrapeTimeout = 20 * time.Second
)

// Server answers scrapes and health checks of one program.
type Server struct {
	// Registry has metrics that are counted where things happen.
	Registry *prometheus.Registry
	// Read returns further metrics as they are now.
	Read func(context.Context) (Numbers, error)
	// Unhealthy returns why the program does not work; "" if it does.
	Unhealthy func(context.Context) string
}

// NewRegistry returns a registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Serve answers for a program whose numbers are at hand, at a listener until it is closed.
func Serve(listener net.Listener, numbers Numbers, unhealthy func() string) error {
	s := Server{
		Registry: NewRegistry(), Read: func(context.Context) (Numbers, error) { return numbers, nil },
		Unhealthy: func(context.Context) string { return unhealthy() },
	}
	return s.Serve(listener)
}

// Serve answers at a listener until it is closed.
func (s *Server) Serve(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /healthz", s.serveHealth)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      scrapeTimeout + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          stdlog.New(io.Discard, "", 0), // clients can cause any number of errors
	}
	defer server.Close()
	return server.Serve(listen.Limit(listener, maxConns))
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	numbers, err := s.Read(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(numbers)
	// One bad metric must not hide the others.
	promhttp.HandlerFor(prometheus.Gatherers{s.Registry, registry}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
	}).ServeHTTP(w, r)
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if why := s.Unhealthy(r.Context()); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Numbers sends metrics.
type Numbers func(Sender)

// Describe describes nothing, because labels may depend on what there is.
func (Numbers) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics.
func (n Numbers) Collect(to chan<- prometheus.Metric) { n(Sender{to}) }

// Sender turns numbers into metrics.
type Sender struct{ to chan<- prometheus.Metric }

// Version sends the version of a program.
func (s Sender) Version(program string) {
	s.Send(program+"_build_info", "The version, as a label; the value is always 1.", 1, "version", version.Number)
}

// YesNo sends a gauge that is 1 if something is so, and 0 otherwise.
func (s Sender) YesNo(name, help string, yes bool) {
	x := 0.0
	if yes {
		x = 1
	}
	s.Send(name, help, x)
}

// Time sends a gauge that is a point in time, in seconds since 1970.
func (s Sender) Time(name, help string, at time.Time) {
	s.Send(name, help, float64(at.UnixMilli())/1000)
}

// Send sends a counter, whose name ends in _total, or a gauge. Labels come as name, value,
// name, value.
func (s Sender) Send(name, help string, x float64, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, text.Escape(pair[1]))
	}
	desc := prometheus.NewDesc(name, help, names, nil)
	metric, err := prometheus.NewConstMetric(desc, kind, x, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s.to <- metric
}
