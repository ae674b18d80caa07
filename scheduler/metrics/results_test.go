package metrics

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon/daemontest"
	"zsched/ta"
)

func TestStatusCodesOfMetricsAreThoseThatAreRegistered(t *testing.T) {
	for text, want := range map[string]string{
		"": "none", "2.1.5": "2.1.5", "4.7.30 (comment)": "4.7.30", "5.0.0": "5.0.0", "5.0.1": "5.0.1", "3.1.1": "other", "4.8.0": "other",
		"4.4": "other", "4.4.7.1": "other", "4.4.": "other", "5.7.31": "other", "5.7.999": "other", "5.-1.1": "other", "garbage": "other",
	} {
		if got := codeLabel(text); got != want {
			t.Errorf("%q is %s instead of %s", text, got, want)
		}
	}
}

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

// A server that answers with ever new codes makes no ever new series.
func TestResultsAreBounded(t *testing.T) {
	s := NewStats()
	for subject := range 1000 {
		for detail := range 100 {
			for class := range 10 {
				notary := ta.Notary(fmt.Sprintf("u\x01failed\x01%d.%d.%d", class, subject, detail))
				s.Event(time.Time{}, scheduler.AgentReported{Report: ta.Report{Status: ta.Error2, Notary: notary}})
			}
		}
	}
	if n := len(counted(t, s, "scheduler_reports_total")); n > 3*8*31+1 {
		t.Errorf("%d series", n)
	}
}

func TestResultsAreCountedByCodeAndAge(t *testing.T) {
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
		for _, result := range []string{"delivered", "deferred", "failed"} {
			if len(grep(body, `scheduler_reports_total{code="`)) == 0 || len(grep(body, `result="`+result+`"}`)) == 0 {
				t.Errorf("no reports that are %s in %q", result, grep(body, "scheduler_reports_total"))
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The agents here are events only: what counts is their order.
func TestDeathsAndFailedStartsOfAgentsAreCounted(t *testing.T) {
	s, now := NewStats(), time.Now()
	live := func(id scheduler.AgentID, ready bool) {
		s.Action(now, scheduler.Start{Agent: id})
		s.Event(now, scheduler.AgentStarted{Agent: id})
		if ready {
			s.Event(now, scheduler.AgentHungry{Agent: id})
		}
	}
	live(1, true) // leaves as it is asked to
	s.Action(now, scheduler.Close{Agent: 1})
	s.Action(now, scheduler.Kill{Agent: 1}) // for it takes its time
	live(2, false)                          // /bin/false
	live(3, true)                           // dies at work
	live(4, true)                           // the same, by a signal
	live(5, true)                           // is silent
	s.Action(now, scheduler.Kill{Agent: 5})
	live(6, false) // a stop comes before it is ready
	s.Action(now, scheduler.Close{Agent: 6})
	for id, status := range []string{1: "signal: terminated", 2: "exit status 1", 3: "exit status 0", 4: "signal: segmentation fault", 5: "signal: terminated", 6: "exit status 0"} {
		if id > 0 {
			s.Event(now, scheduler.AgentExited{Agent: scheduler.AgentID(id), Status: status})
		}
	}
	s.Action(now, scheduler.Start{Agent: 7})
	s.Event(now, scheduler.AgentFailed{Agent: 7, Reason: "no such file"})
	failed, deaths := counted(t, s, "scheduler_agent_start_failures_total"), counted(t, s, "scheduler_agent_deaths_total")
	if failed[""] != 2 || deaths["exit"] != 1 || deaths["signal"] != 1 || deaths["killed"] != 1 {
		t.Errorf("failed starts %v, deaths %v", failed, deaths)
	}
	if len(s.unready)+len(s.leaving) != 0 {
		t.Errorf("agents that are gone are remembered: %v %v", s.unready, s.leaving)
	}
}
