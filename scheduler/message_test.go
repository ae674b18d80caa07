package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// plain returns a scheduler with one clause, for all of smtp, and at most so
// many agents.
func plain(agents int) *Scheduler {
	return New(&rule.Config{
		MaxAgents: agents,
		Defaults:  rule.Params{Interval: time.Minute, Retries: []int{1}, Expiry: time.Hour, MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"smtp"}},
		Clauses:   []rule.Clause{{Channel: "smtp", Host: "*"}},
	}, rand.New(rand.NewPCG(1, 2)))
}

// TestFinishCounts: Finish counts all recipients, and all that failed for
// whatever reason.
func TestFinishCounts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	m := Message{ID: 1, Path: "1", ModifiedAt: now}
	for i := range 5 {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: "a"})
	}
	s.Step(At(now), Arrived{m})
	s.Step(At(now), AgentSaid{1, Hungry})
	s.Step(At(now), AgentReported{1, ta.Report{Message: 1, Offset: 0, Status: ta.OK3}})
	s.Step(At(now), AgentReported{1, ta.Report{Message: 1, Offset: 1, Status: ta.Error2}})
	read := s.Step(At(now), AgentResync{1, 1})[0].(Read)
	s.Step(At(now), Done{Op: read.Op, Recipients: []ctlfile.State{{Offset: 2, Tag: '+'}, {Offset: 3, Tag: '-'}, {Offset: 4, Tag: ' '}}})
	for _, a := range s.Step(At(now.Add(time.Hour)), Tick{}) {
		if m, ok := a.(Mark); ok {
			done := s.Step(At(now.Add(time.Hour)), Done{Op: m.Op})
			if c := done[0].(*Finish); c.Recipients != 5 || c.Failed != 3 {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Error("the last recipient has not expired")
}

// TestReadNamesTheAgentsAtWork: when a file is read again, the spool is told which agents
// may be working on the message. One that has asked for the resync has found nothing to do,
// and is not.
func TestReadNamesTheAgentsAtWork(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := plain(2)
	m := Message{ID: 1, Path: "1", ModifiedAt: now}
	for i, host := range []string{"a", "b"} {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: host})
	}
	s.Step(At(now), Arrived{m})
	for id := range AgentID(2) {
		s.Step(At(now), AgentStarted{Agent: id + 1, PID: 4710 + int(id)})
		s.Step(At(now), AgentSaid{id + 1, Hungry})
	}
	first := s.Step(At(now), AgentResync{1, 1})[0].(Read)
	if !slices.Equal(first.AtWork, []int{4711}) {
		t.Errorf("at work: %v", first.AtWork)
	}
	second := s.Step(At(now), AgentResync{2, 1})[0].(Read)
	if second.AtWork == nil || len(second.AtWork) != 0 {
		t.Errorf("at work: %v", second.AtWork)
	}
}

// TestManyRecipients: a message with 40 000 recipients, once to one host and
// once to as many hosts, is handled without a scan of all recipients for each
// one.
func TestManyRecipients(t *testing.T) {
	const n = 40_000
	now := time.Unix(1_800_000_000, 0)
	s := plain(50)
	one, many := Message{ID: 1, Path: "1", ModifiedAt: now}, Message{ID: 2, Path: "2", ModifiedAt: now}
	for i := range n {
		r := ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: "one"}
		one.Recipients = append(one.Recipients, r)
		r.Host = fmt.Sprint("host", i)
		many.Recipients = append(many.Recipients, r)
	}
	s.Step(At(now), Arrived{one})
	s.Step(At(now), AgentSaid{1, Hungry})
	for i := range n {
		status := ta.OK3
		if i%4 == 3 {
			status = ta.Deferred
		}
		s.Step(At(now), AgentReported{1, ta.Report{Message: 1, Offset: int64(i), Status: status}})
	}
	s.Step(At(now), Arrived{many})
	if c := s.Counts(); c.Recipients != n+n/4 || c.Vertices != n+1 {
		t.Fatalf("%+v", c)
	}
	// What is left of the first message expires at once.
	actions := s.Step(At(now.Add(2*time.Hour)), Tick{})
	marks := 0
	for _, a := range actions {
		if m, ok := a.(Mark); ok && m.Message == 1 {
			marks += len(m.Marks)
			s.writes.writeDone(Done{Op: m.Op})
		}
	}
	if m, _ := s.Message(1); marks != n/4 || !m.Leaving {
		t.Errorf("%d of %d marked", marks, n/4)
	}
	s.check()
}

// TestOrderOnManyVertices: an order on a message to 40 000 hosts is one write,
// and orders on its parts find each of them.
func TestOrderOnManyVertices(t *testing.T) {
	const n = 40_000
	now := time.Unix(1_800_000_000, 0)
	s := plain(1)
	for id := range MessageID(2) {
		m := Message{ID: id + 1, Path: fmt.Sprint(id + 1), ModifiedAt: now}
		for i := range n {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: fmt.Sprint("host", i)})
		}
		s.Step(At(now), Arrived{m})
	}
	actions := s.Step(At(now), Ordered{Verb: view.VerbKill, Targets: []Target{{Message: 1}}})
	if m, ok := actions[0].(Mark); !ok || len(m.Marks) != n || len(actions) != 2 {
		t.Errorf("%d actions, the first is %T with %d marks", len(actions), actions[0], len(m.Marks))
	}
	recipients := 0
	for i := 0; i < n; i += 500 {
		e := Ordered{Verb: view.VerbExpire, DryRun: true}
		for j := range 500 {
			e.Targets = append(e.Targets, Target{2, "smtp", fmt.Sprint("host", i+j)})
		}
		answer := s.Step(At(now), e)[0].(Answer)
		if recipients += answer.Recipients; answer.Messages != 1 {
			t.Fatalf("%d messages", answer.Messages)
		}
	}
	if recipients != n {
		t.Errorf("%d recipients of %d", recipients, n)
	}
	s.check()
}

// TestMessagesWithAnIdentity: the messages with a Message-ID are found, the latest first.
func TestMessagesWithAnIdentity(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := New(&rule.Config{}, rand.New(rand.NewPCG(1, 2)))
	for i := range 900 {
		s.Step(At(now), Arrived{Message{
			ID: MessageID(i + 1), Path: fmt.Sprint(i + 1), MessageID: fmt.Sprintf("<%d@x>", i%450), ModifiedAt: now,
			Recipients: []ctlfile.OpenRecipient{{Offset: 1, Channel: "smtp", Host: "one"}},
		}})
	}
	if found := s.mail.withMessageID("<7@x>"); len(found) != 2 || found[0].id != 458 || found[1].id != 8 {
		t.Errorf("%v", found)
	}
	if found := s.mail.withMessageID("<450@x>"); len(found) > 0 {
		t.Errorf("%v", found)
	}
}
