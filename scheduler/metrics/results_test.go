package metrics

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon/daemontest"
	"zsched/ta"
)

// counted returns the values of a counter, by its first label.
func counted(t *testing.T, s *Stats, name string) map[string]float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			label := ""
			if len(metric.GetLabel()) > 0 {
				label = metric.GetLabel()[0].GetValue()
			}
			values[label] = metric.GetCounter().GetValue()
		}
	}
	return values
}

func TestResultsAreCountedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			time.Sleep(20 * time.Second)
			switch job.Host {
			case "later.example":
				a.ReportAll(job, ta.Deferred, "451 later")
			case "no.example":
				a.ReportAll(job, ta.Error2, "550 no")
			default:
				a.ReportAll(job, ta.OK2, "delivered")
			}
		}
		h.Run()
		h.Spool.Announce(1, "a.example", "later.example", "no.example", "no.example")
		time.Sleep(25 * time.Second)
		_, body := h.get("/metrics")
		wantLines(t, body,
			`scheduler_outcome_seconds_count{result="delivered"} 1`, `scheduler_outcome_seconds_bucket{result="delivered",le="10"} 0`,
			`scheduler_outcome_seconds_bucket{result="delivered",le="30"} 1`, `scheduler_outcome_seconds_count{result="failed"} 2`,
			`scheduler_outcome_seconds_count{result="expired"} 0`,
		)
		h.Stop(syscall.SIGTERM)
	})
}

func TestDeathsAndFailedStartsOfAgentsAreCounted(t *testing.T) {
	s, now := NewStats(), time.Now()
	for id, status := range []string{"exit status 0", "exit status 1", "signal: segmentation fault", "signal: terminated"} {
		s.Event(now, scheduler.AgentExited{Agent: scheduler.AgentID(id), Status: status})
	}
	s.Event(now, scheduler.AgentFailed{Agent: 7, Reason: "no such file"})
	starts, deaths := counted(t, s, "scheduler_agent_start_failures_total"), counted(t, s, "scheduler_agent_deaths_total")
	if starts[""] != 1 || deaths["exit"] != 1 || deaths["signal"] != 2 {
		t.Errorf("failed starts %v, deaths %v", starts, deaths)
	}
}
