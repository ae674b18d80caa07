package daemon

import (
	"context"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"zsched/scheduler"
)

// destinationsMost bounds ?destinations=N, so that no scrape makes a time
// series of every host there is.
const destinationsMost = 1000

// metricsPatience is how long a scrape may take.
const metricsPatience = 20 * time.Second

// metricsConns is how many connections there are at most to the socket for
// metrics, where anybody who reaches it is answered.
const metricsConns = 32

// serveHTTP answers /metrics and /healthz at a listener until it is closed.
func (d *Daemon) serveHTTP(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", d.serveMetrics)
	mux.HandleFunc("GET /healthz", d.serveHealth)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      metricsPatience + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          stdlog.New(d.Log, "", 0),
	}
	defer server.Close()
	return server.Serve(newFewConns(listener, metricsConns))
}

// serveMetrics answers a scrape. Numbers are of one moment, except those that
// a walk over the queue gives.
func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	destinations := 0
	if text := r.URL.Query().Get("destinations"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(w, "destinations must be a number", http.StatusBadRequest)
			return
		}
		destinations = min(n, destinationsMost)
	}
	ctx, cancel := context.WithTimeout(r.Context(), metricsPatience)
	defer cancel()
	scrape, err := d.scrape(ctx, destinations)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(scrape, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// scrape is what is told at one scrape.
type scrape struct {
	now    time.Time
	counts scheduler.Counts
	tally  tally
	agents map[string]int // by state
	taking int
	filing int
	// channels are what is labelled so; see channelsMost.
	channels []scheduler.ChannelView
	standing *standing
	survey   *survey // nil: there is none yet
	queries  map[string]float64
}

// Channels are the router's to name: beyond so many all others are one.
const (
	channelsMost  = 100
	otherChannels = "other"
)

// scrape asks the loop for its numbers.
func (d *Daemon) scrape(ctx context.Context, destinations int) (*scrape, error) {
	s := new(scrape)
	err := d.ask(ctx, func() {
		s.now, s.counts, s.tally = d.now, d.core.Counts(), d.tally.copy()
		s.taking, s.filing = len(d.intake.taking), d.filing
		s.agents = d.agentStates()
		s.channels = fewChannels(d.core.Channels())
	})
	if err != nil {
		return nil, err
	}
	s.survey = d.surveyor.look(ctx, d)
	if s.standing, err = d.stand(ctx, destinations); err != nil {
		return nil, err
	}
	if d.server != nil {
		s.queries = d.server.Counters()
	}
	return s, nil
}

// fewChannels puts together what is beyond channelsMost.
func fewChannels(all []scheduler.ChannelView) []scheduler.ChannelView {
	if len(all) <= channelsMost {
		return all
	}
	few := slices.Clone(all[:channelsMost])
	other := scheduler.ChannelView{Name: otherChannels}
	for _, c := range all[channelsMost:] {
		other.In += c.In
		other.Delivered += c.Delivered
		other.Deferred += c.Deferred
		other.Failed += c.Failed
		other.Expired += c.Expired
		other.Dropped += c.Dropped
	}
	return append(few, other)
}

// agentStates counts agents by what they do.
func (d *Daemon) agentStates() map[string]int {
	starting := 0
	for _, a := range d.agents {
		if a.child == nil {
			starting++
		}
	}
	c := d.core.Counts()
	return map[string]int{
		"starting": starting,
		"idle":     c.AgentsIdle,
		"leaving":  c.AgentsClosing,
		"serving":  max(0, c.Agents-starting-c.AgentsIdle-c.AgentsClosing),
	}
}
