package metrics

// The metrics that scheduler(8) lists, "METRICS".

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"zsched/internal/version"
	"zsched/scheduler"
)

// Describe describes nothing, because the labels depend on the queue.
func (s *scrape) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics.
func (s *scrape) Collect(to chan<- prometheus.Metric) {
	c := collector{to}
	c.gauge("scheduler_build_info", "The version, as a label; the value is always 1.", 1, "version", version.Number)
	s.collectQueue(c)
	s.collectKept(c)
	s.collectFlow(c)
	s.collectAgents(c)
	s.collectSpool(c)
	s.collectThreads(c)
	s.collectQueries(c)
	if s.eventsLost != nil {
		c.counter("scheduler_event_lines_lost_total", "Lines that the event log has lost.", float64(s.eventsLost()))
	}
	s.collectCluster(c)
	s.collectReload(c)
	c.histogram("scheduler_loop_pause_seconds", "Length of the turns of the loop, each of which handles one batch of events.", s.stats.turns)
	c.gauge("scheduler_loop_longest_pause_seconds", "Length of the longest turn of the loop since the start.", s.stats.longestTurn.Seconds())
}

// collectCluster sends the counts of what passes between this node and the store.
func (s *scrape) collectCluster(c collector) {
	n := s.cluster
	if n == nil {
		return
	}
	c.yesNo("scheduler_cluster_lost", "1 while the store of the cluster is lost, otherwise 0.", n.Lost)
	c.gauge("scheduler_cluster_nodes", "Nodes that have reported to the store in the last ten minutes.", float64(n.Nodes))
	c.gauge("scheduler_cluster_limits", "Limits of the cluster that this node has demand for.", float64(n.Limits))
	c.counter("scheduler_cluster_losses_total", "Times at which the store was lost.", float64(n.Losses))
	c.counter("scheduler_cluster_epochs_total", "Epochs of the store that this node has seen.", float64(n.Epochs))
	c.counter("scheduler_cluster_calls_total", "Calls of scripts in the store.", float64(n.Calls))
	c.counter("scheduler_cluster_batches_total", "Batches of calls.", float64(n.Batches))
	c.counter("scheduler_cluster_failures_total", "Batches with a call that failed.", float64(n.Failures))
	c.counter("scheduler_cluster_seconds_total", "Time that the batches took together.", n.Latency.Seconds())
	c.gauge("scheduler_cluster_slowest_seconds", "Time that the slowest batch took since the start.", n.Slowest.Seconds())
}

func (s *scrape) collectQueue(c collector) {
	n := s.counts
	c.gauge("scheduler_messages", "Messages in the queue.", float64(n.Messages))
	c.gauge("scheduler_messages_on_record", "Messages that are on record, because of the limits on memory.", float64(n.OnRecord))
	c.gauge("scheduler_recipients", "Recipients that are not done.", float64(n.Recipients))
	c.gauge("scheduler_threads", "Threads, each the mail for one channel and host.", float64(n.Threads))
	c.counter("scheduler_messages_in_total", "Messages taken.", float64(n.MessagesIn))
	c.counter("scheduler_messages_out_total", "Messages finished.", float64(n.MessagesOut))
	c.counter("scheduler_recipients_in_total", "Recipients taken.", float64(n.RecipientsIn))
	c.counter("scheduler_recipients_out_total", "Recipients done.", float64(n.RecipientsOut))
}

// collectKept sends the counts of mail that is kept back until somebody acts.
func (s *scrape) collectKept(c collector) {
	for _, k := range s.kept {
		c.gauge("scheduler_kept", "Messages, threads or jobs that are kept back.", float64(k.Count), "state", k.State)
		age := 0.0
		if !k.OldestAt.IsZero() {
			age = max(0, s.now.Sub(k.OldestAt).Seconds())
		}
		c.gauge("scheduler_kept_oldest_seconds", "Age of the oldest message that is kept back, and time since the first hold or suspension of a thread; 0 if it is not known.", age, "state", k.State)
	}
}

func (s *scrape) collectFlow(c collector) {
	each := func(name, help string, of func(*scheduler.ChannelView) uint64) {
		for i := range s.channels {
			c.counter(name, help, float64(of(&s.channels[i])), "channel", s.channels[i].Name)
		}
	}
	each("scheduler_arrived_total", "Recipients taken, by channel.", func(v *scheduler.ChannelView) uint64 { return v.In })
	each("scheduler_delivered_total", "Recipients delivered, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Delivered })
	each("scheduler_deferred_total", "Deferrals of recipients, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Deferred })
	each("scheduler_failed_total", "Recipients failed, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Failed })
	each("scheduler_expired_total", "Recipients that have expired, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Expired })
	each("scheduler_dropped_total", "Recipients that left without an outcome: killed, obsoleted, sent elsewhere, lost or not needed.", func(v *scheduler.ChannelView) uint64 { return v.Dropped })
	each("scheduler_held_total", "Recipients whose message was moved to hold/, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Held })
	each("scheduler_released_total", "Recipients whose message came back from hold/, by channel.", func(v *scheduler.ChannelView) uint64 { return v.Released })
	c.histogram("scheduler_feed_seconds", "Time from a message's arrival to its first job line; a sample when very many wait.", s.stats.feeds)
	for _, to := range []outcome{delivered, failed, expired} {
		c.histogram("scheduler_outcome_seconds", "Age of the message at the outcome of each recipient.", s.stats.ages[to], "result", to.String())
	}
	for r, n := range s.stats.results {
		c.counter("scheduler_reports_total", "Reports of agents, by result and enhanced status code.", float64(n), "result", r.class.String(), "code", r.code.String())
	}
}

func (s *scrape) collectAgents(c collector) {
	n := s.counts
	starting := s.status.Starting
	for _, of := range []struct {
		state string
		n     int
	}{
		{"idle", n.AgentsIdle}, {"leaving", n.AgentsClosing},
		{"serving", max(0, n.Agents-starting-n.AgentsIdle-n.AgentsClosing)}, {"starting", starting},
	} {
		c.gauge("scheduler_agents", "Agents, by what they do.", float64(of.n), "state", of.state)
	}
	c.gauge("scheduler_sessions", "Busy sessions of agents.", float64(n.Sessions))
	c.counter("scheduler_agents_started_total", "Agents started.", float64(n.AgentsStarted))
	c.counter("scheduler_agent_start_failures_total", "Agents that could not be started, or ended before they asked for work.", float64(s.stats.startsFailed))
	for _, how := range []string{"exit", "signal", "killed"} {
		c.counter("scheduler_agent_deaths_total", "Agents that ended at work or idle without having been asked to, by how they ended.", float64(s.stats.deaths[how]), "how", how)
	}
}

func (s *scrape) collectSpool(c collector) {
	for _, doing := range slices.Sorted(maps.Keys(s.stats.spoolErrors)) {
		c.counter("scheduler_spool_errors_total", "Failed operations on control and message files, by operation.", float64(s.stats.spoolErrors[doing]), "doing", doing)
	}
	for _, why := range slices.SortedFunc(maps.Keys(s.stats.refused), cmp.Compare) {
		c.counter("scheduler_refused_total", "Control files that were read but not taken, by reason; each attempt counts.", float64(s.stats.refused[why]), "why", why.String())
	}
	c.yesNo("scheduler_spool_up", "Whether the spool can be written.", s.stats.spoolDown == "")
	c.gauge("scheduler_spool_taking", "Control files being read.", float64(s.status.Taking))
	c.gauge("scheduler_spool_writing", "Changes to files that are not finished.", float64(s.status.Writing))
	c.gauge("scheduler_spool_unwritten", "Changes to files that failed and will be tried again.", float64(s.counts.FailedWrites))
	c.gauge("scheduler_last_sweep_seconds", "Time since the last sweep of the whole queue ended.", s.now.Sub(s.stats.sweptAt).Seconds())
}

func (s *scrape) collectThreads(c collector) {
	for state := range (scheduler.StateCounts{}).All() {
		c.gauge("scheduler_jobs", "Job lines, each one message's recipients in one thread, by state.", float64(s.threads.jobs[state]), "state", string(state))
	}
	for state := range (scheduler.StateCounts{}).All() {
		age := 0.0
		if oldest, ok := s.threads.oldestAt[state]; ok {
			age = max(0, s.now.Sub(oldest).Seconds())
		}
		c.gauge("scheduler_oldest_seconds", "Age of the oldest message in threads that have job lines in this state.", age, "state", string(state))
	}
	silence := 0.0
	if at := s.threads.silentSince; !at.IsZero() {
		silence = max(0, s.now.Sub(at).Seconds())
	}
	c.gauge("scheduler_oldest_without_event_seconds", "Longest time that a thread with mail, not held, has gone without an arrival or a job line.", silence)
	for _, wait := range slices.Sorted(maps.Keys(s.threads.waiting)) {
		if wait != scheduler.NoWait {
			c.gauge("scheduler_threads_waiting", "Threads whose due mail is not fed, by what it waits for.", float64(s.threads.waiting[wait]), "for", string(wait))
		}
	}
	s.collectWindows(c)
	for _, t := range s.threads.largest {
		c.gauge("scheduler_destination_jobs", "Job lines of the largest threads.", float64(t.jobs), "channel", t.channel, "host", t.host)
		c.gauge("scheduler_destination_oldest_seconds", "Age of the oldest message of the largest threads.", max(0, s.now.Sub(t.oldestAt).Seconds()), "channel", t.channel, "host", t.host)
	}
}

// collectWindows sends what windows, preemption and shares do.
func (s *scrape) collectWindows(c collector) {
	for _, state := range windowStates {
		c.gauge("scheduler_windows", "Threads, by what their window allows.", float64(s.threads.windows[state]), "state", state)
	}
	c.counter("scheduler_suspensions_total", "Suspensions of threads whose destination failed.", float64(s.counts.Suspensions))
	c.counter("scheduler_revivals_total", "Dead destinations that have answered again.", float64(s.counts.Revivals))
	c.counter("scheduler_preemptions_total", "Times that a message with few recipients overtook one with many.", float64(s.counts.Preemptions))
	c.gauge("scheduler_shares", "Shares of rings, each the due mail of a sender or a domain of senders.", float64(s.shares.Shares))
	c.gauge("scheduler_largest_share_jobs", "Due job lines of the share that has the most.", float64(s.shares.Largest))
}

// collectReload sends how the last reload ended, and those of the router and of the SMTP
// server, and when the certificate ends.
// Before the first reload, it sends that the start put its configuration into force.
func (s *scrape) collectReload(c collector) {
	last := s.status.Reload
	at := last.At
	if at.IsZero() {
		at = s.status.StartedAt
	}
	c.yesNo("scheduler_last_reload_successful", "Whether the last reload, or the start, put its configuration into force.", last.Error == "")
	c.gauge("scheduler_last_reload_timestamp_seconds", "When the configuration was last read, in seconds since 1970.", float64(at.UnixMilli())/1000)
	if s.reloaded != nil {
		router, smtpserver := s.reloaded()
		c.yesNo("scheduler_router_last_reload_successful", "Whether the last reload of the router's tables, if there was one, put them into force.", router)
		c.yesNo("scheduler_smtpserver_last_reload_successful", "Whether the last reload of smtpserver.cf, if there was one, put it into force.", smtpserver)
	}
	if !s.certEnd.IsZero() {
		c.gauge("scheduler_xfer_certificate_end_timestamp_seconds", "When the certificate of PARAMxfer-cert ends, in seconds since 1970.", float64(s.certEnd.Unix()))
	}
}

func (s *scrape) collectQueries(c collector) {
	c.gauge("scheduler_query_sessions", "Sessions of mailq.", s.queries["SC.MQ2Parallel-G"])
	for name, what := range map[string]string{"SC.MQ2Connects": "connected", "SC.MQ2AuthRej": "refused", "SC.MQ2TimedOut": "timed out"} {
		c.counter("scheduler_query_sessions_total", "Sessions of mailq, by event.", s.queries[name], "event", what)
	}
	c.counter("scheduler_query_commands_total", "Commands of mailq.", s.queries["SC.MQ2Commands"])
}

// collector turns numbers into metrics. Labels come as name, value, name, value.
type collector struct{ to chan<- prometheus.Metric }

func (c collector) gauge(name, help string, x float64, labels ...string) {
	c.metric(prometheus.GaugeValue, name, help, x, labels)
}

// yesNo sends a gauge that is 1 if something is so, and 0 otherwise.
func (c collector) yesNo(name, help string, yes bool) {
	x := 0.0
	if yes {
		x = 1
	}
	c.gauge(name, help, x)
}

func (c collector) counter(name, help string, x float64, labels ...string) {
	c.metric(prometheus.CounterValue, name, help, x, labels)
}

func (c collector) metric(kind prometheus.ValueType, name, help string, x float64, labels []string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, label(pair[1]))
	}
	desc := prometheus.NewDesc(name, help, names, nil)
	metric, err := prometheus.NewConstMetric(desc, kind, x, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	c.to <- metric
}

func (c collector) histogram(name, help string, h histogram, labels ...string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, label(pair[1]))
	}
	desc := prometheus.NewDesc(name, help, names, nil)
	c.to <- prometheus.MustNewConstHistogram(desc, h.total, h.sum, h.cumulative(), values...)
}

// label makes a text valid as a label, which must be UTF-8. Other bytes are
// written as \xNN. Backslashes are doubled, so that different texts stay
// different.
func label(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
