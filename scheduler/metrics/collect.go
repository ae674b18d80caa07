package metrics

// The metrics that scheduler(8) lists, "METRICS".

import (
	"maps"
	"slices"
	"time"

	"zsched/internal/metrics"
	"zsched/mailq"
	"zsched/scheduler/view"
)

// send sends all metrics.
func (s *scrape) send(c metrics.Sender) {
	c.Version("scheduler")
	s.collectQueue(c)
	s.collectKept(c)
	s.collectFlow(c)
	s.collectAgents(c)
	s.collectSpool(c)
	s.collectThreads(c)
	if lost := s.server.EventsLost; lost != nil {
		c.Send("scheduler_event_lines_lost_total", "Lines that the event log has lost.", float64(lost()))
	}
	s.collectCluster(c)
	s.collectReload(c)
}

// collectCluster sends the state of the store, if there is one.
func (s *scrape) collectCluster(c metrics.Sender) {
	nodes := 0
	for _, item := range s.cluster {
		if item.Node != nil {
			nodes++
		}
		if store := item.Store; store != nil {
			c.YesNo("scheduler_cluster_lost", "1 while the store of the cluster is lost, otherwise 0.", store.State == "lost")
			c.Send("scheduler_cluster_losses_total", "Times at which the store was lost.", float64(store.Losses))
			c.Send("scheduler_cluster_failures_total", "Batches with a call that failed.", float64(store.Failures))
		}
	}
	if s.cluster != nil {
		c.Send("scheduler_cluster_nodes", "Nodes that have reported to the store in the last ten minutes.", float64(nodes))
	}
}

func (s *scrape) collectQueue(c metrics.Sender) {
	n := s.counts
	c.Send("scheduler_messages", "Messages in the queue.", float64(n.Messages))
	c.Send("scheduler_recipients", "Recipients that are not done.", float64(n.Recipients))
	c.Send("scheduler_threads", "Threads, each the mail for one channel and host.", float64(n.Threads))
	c.Send("scheduler_messages_in_total", "Messages that have arrived.", float64(n.MessagesIn-n.MessagesFound))
	c.Send("scheduler_messages_out_total", "Messages finished.", float64(n.MessagesOut))
	c.Send("scheduler_recipients_in_total", "Recipients that have arrived.", float64(n.RecipientsIn-n.RecipientsFound))
	c.Send("scheduler_recipients_out_total", "Recipients done.", float64(n.RecipientsOut))
	c.Send("scheduler_messages_found", "Messages that were there before this process.", float64(n.MessagesFound))
	c.Send("scheduler_recipients_found", "Recipients that were there before this process.", float64(n.RecipientsFound))
}

// collectKept sends the counts of mail that is kept back until somebody acts, and of mail
// that waits for the router.
func (s *scrape) collectKept(c metrics.Sender) {
	if s.kept == nil {
		return
	}
	kept := func(state string, count int, oldestAt time.Time) {
		c.Send("scheduler_kept", "Messages, threads or notices that are kept back.", float64(count), "state", state)
		c.Send("scheduler_kept_oldest_seconds", "Age of the oldest message that is kept back, and time since the first hold of a thread; 0 if it is not known.", s.age(oldestAt), "state", state)
	}
	for _, kind := range mailq.KeptKinds {
		k := kind.Of(s.kept)
		kept(kind.Name, k.Count, k.OldestAt)
	}
	kept("router", s.kept.Router.Count, s.kept.Router.OldestAt)
}

// age is the time since a time, in seconds; 0 if the time is not known.
func (s *scrape) age(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, s.now.Sub(at).Seconds())
}

func (s *scrape) collectFlow(c metrics.Sender) {
	each := func(name, help string, of func(*view.Channel) uint64) {
		for i := range s.channels {
			c.Send(name, help, float64(of(&s.channels[i])), "channel", s.channels[i].Name)
		}
	}
	each("scheduler_arrived_total", "Recipients that have arrived, by channel.", func(v *view.Channel) uint64 { return v.In })
	each("scheduler_delivered_total", "Recipients delivered, by channel.", func(v *view.Channel) uint64 { return v.Delivered })
	each("scheduler_deferred_total", "Deferrals of recipients, by channel.", func(v *view.Channel) uint64 { return v.Deferred })
	each("scheduler_failed_total", "Recipients failed, by channel.", func(v *view.Channel) uint64 { return v.Failed })
	each("scheduler_expired_total", "Recipients that have expired, by channel.", func(v *view.Channel) uint64 { return v.Expired })
}

func (s *scrape) collectAgents(c metrics.Sender) {
	n := s.counts
	starting := s.status.Starting
	for _, of := range []struct {
		state string
		n     int
	}{
		{"idle", n.AgentsIdle}, {"leaving", n.AgentsClosing},
		{"serving", max(0, n.Agents-starting-n.AgentsIdle-n.AgentsClosing)}, {"starting", starting},
	} {
		c.Send("scheduler_agents", "Agents, by what they do.", float64(of.n), "state", of.state)
	}
	c.Send("scheduler_sessions", "Busy sessions of agents.", float64(n.Sessions))
	c.Send("scheduler_agents_started_total", "Agents started.", float64(n.AgentsStarted))
}

func (s *scrape) collectSpool(c metrics.Sender) {
	c.YesNo("scheduler_spool_up", "Whether the spool can be written.", s.spoolUp)
	c.YesNo("scheduler_spool_reserve", "Whether room is reserved for notices on a full disk.", s.reserve)
	c.Send("scheduler_spool_taking", "Control files being read.", float64(s.status.Taking))
	c.Send("scheduler_spool_writing", "Changes to files that are not finished.", float64(s.status.Writing))
	c.Send("scheduler_spool_unwritten", "Changes to files that failed and will be tried again.", float64(s.counts.FailedWrites))
	c.Send("scheduler_last_sweep_seconds", "Time since the last sweep of the whole queue ended.", s.age(s.sweptAt))
}

func (s *scrape) collectThreads(c metrics.Sender) {
	for _, state := range view.States {
		c.Send("scheduler_job_lines", "Job lines, each one message's recipients in one thread, by state.", float64(s.threads.jobs[state]), "state", state)
	}
	for _, state := range view.States {
		c.Send("scheduler_oldest_seconds", "Age of the oldest message in threads that have job lines in this state.", s.age(s.threads.oldestAt[state]), "state", state)
	}
	c.Send("scheduler_oldest_without_event_seconds", "Longest time that a thread with mail, not held, has gone without an arrival or a job line.", s.age(s.threads.silentSince))
	for _, wait := range slices.Sorted(maps.Keys(s.threads.waiting)) {
		if wait != view.NoWait {
			c.Send("scheduler_threads_waiting", "Threads with due or blocked mail, by what it waits for.", float64(s.threads.waiting[wait]), "for", string(wait))
		}
	}
	c.Send("scheduler_suspensions_total", "Suspensions of threads whose destination failed.", float64(s.counts.Suspensions))
}

// collectReload sends how the last reload ended, and those of the router and of the SMTP
// server, and when the certificate ends.
// Before the first reload, it sends that the start put its configuration into force.
func (s *scrape) collectReload(c metrics.Sender) {
	last := s.status.Reload
	at := last.At
	if at.IsZero() {
		at = s.status.StartedAt
	}
	c.YesNo("scheduler_last_reload_successful", "Whether the last reload, or the start, put its configuration into force.", last.Error == "")
	c.Time("scheduler_last_reload_timestamp_seconds", "When the configuration was last read, in seconds since 1970.", at)
	if t := s.kept; t != nil {
		c.YesNo("scheduler_router_last_reload_successful", "Whether the last reload of the router's tables, if there was one, put them into force.", t.Router.Reload.Error == "")
		c.YesNo("scheduler_smtpserver_last_reload_successful", "Whether the last reload of smtpserver.cf, if there was one, put it into force.", t.SMTPReload.Error == "")
	}
}
