package scheduler

// Tests of what the views say about a single vertex and its thread.

import (
	"math/rand/v2"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// withOneMessage returns a scheduler with a message for smtp/one.
func withOneMessage(now time.Time, config *rule.Config) *Scheduler {
	s := New(config, rand.New(rand.NewPCG(1, 2)))
	s.Step(At(now), Arrived{Message{ID: 1, Path: "1", ModifiedAt: now, Recipients: []ctlfile.OpenRecipient{{Offset: 1, Channel: "smtp", Host: "one"}}}})
	return s
}

// viewOfOne returns the vertex of that message as the list has it.
func viewOfOne(t *testing.T, s *Scheduler) *view.JobLine {
	t.Helper()
	w := s.WalkMessage(1)
	items, _ := w.Next(10)
	for _, item := range items {
		if item.JobLine != nil {
			return item.JobLine
		}
	}
	t.Fatal("there is no vertex")
	return nil
}

func explained(s *Scheduler) *view.Explanation {
	x, _ := s.Explain("smtp", "one")
	return x
}

func TestListHasTheExpiry(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := withOneMessage(now, &rule.Config{
		MaxAgents: 1, Frozen: true,
		Defaults: rule.Params{Interval: time.Minute, Expiry: time.Hour, Expiry2: time.Hour, MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"smtp"}},
		Clauses:  []rule.Clause{{Channel: "smtp", Host: "*"}},
	})
	for hours, after := range []time.Duration{time.Minute, 61 * time.Minute} {
		s.Step(At(now.Add(after)), Tick{})
		want := now.Add(time.Duration(hours+1) * time.Hour)
		if v := viewOfOne(t, s); !v.ExpiresAt.Equal(want) {
			t.Errorf("after %v: %v, want %v", after, v.ExpiresAt, want)
		}
	}
}

func TestMailWithoutACommandHasThatReason(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := withOneMessage(now, &rule.Config{Defaults: rule.Params{Interval: time.Minute, Expiry: time.Hour, MaxThr: 1, Sessions: 1, Quantum: 50}})
	const want = "no clause that matches has a command"
	if v, e := viewOfOne(t, s), explained(s); v.StartError != want || e.Thread.StartError != want {
		t.Errorf("%q in the list, %q in the explanation", v.StartError, e.Thread.StartError)
	}
}

func TestMailWithoutALogIdentityIsNotFoundByOne(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := withOneMessage(now, &rule.Config{})
	s.Step(At(now), Arrived{Message{ID: 2, Path: "2", MessageID: "<two@x>", ModifiedAt: now, Recipients: []ctlfile.OpenRecipient{{Offset: 1, Channel: "smtp", Host: "one"}}}})
	if found := s.ByMessageID("", 10); len(found) != 0 {
		t.Errorf("without a Message-ID: %v", found)
	}
	if found := s.ByMessageID("<two@x>", 10); len(found) != 1 || found[0] != 2 {
		t.Errorf("with the Message-ID of 2: %v", found)
	}
}

// TestSuspensionByARuleComesBeforeTheRetry: it goes on when the job is due again.
func TestSuspensionByARuleComesBeforeTheRetry(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for span, want := range map[time.Duration]view.Wait{15 * time.Minute: view.WaitRule, 30 * time.Second: view.WaitRetry} {
		s := withOneMessage(now, &rule.Config{
			MaxAgents: 1, Clauses: []rule.Clause{{Channel: "smtp", Host: "*"}},
			Defaults: rule.Params{Interval: time.Minute, Expiry: time.Hour, Expiry2: time.Hour, MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"smtp"}},
			Replies:  []rule.ReplyRule{{Channel: "smtp", Host: "*", Verb: rule.ReplySuspend, Span: span, Match: func(string) bool { return true }}},
		})
		s.Step(At(now), AgentStarted{Agent: 1, PID: 1})
		s.Step(At(now), AgentSaid{Agent: 1, Word: Hungry})
		s.Step(At(now), AgentReported{Agent: 1, Report: ta.Report{Message: 1, Offset: 1, Status: ta.Deferred, Text: "slow down"}})
		s.Step(At(now), AgentSaid{Agent: 1, Word: Hungry})
		if got := explained(s).Wait; got != want {
			t.Errorf("suspended for %v: %v, want %v", span, got, want)
		}
	}
}
