package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

// sessions returns a Reconnecting whose server plays one transcript after the
// other.
func sessions(t *testing.T, transcripts ...string) *Reconnecting {
	t.Helper()
	source, err := NewReconnecting(func() (*Client, error) {
		if len(transcripts) == 0 {
			return nil, errorf(Unavailable, "no more sessions")
		}
		next := transcripts[0]
		transcripts = transcripts[1:]
		return dialVersion2(t, next), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

const (
	until = "S: +OK until LF.LF\n"
	// help is how our server says that it has JSON.
	help = "C: HELP\n" + until + "S: [JSON] SHOW COUNTERS\nS: .\n"
)

func TestSourceReadsJSON(t *testing.T) {
	s := sessions(t, help+"C: JSON SHOW QUEUE THREADS\n"+until+
		`S: {"ring":1,"channel":"smtp","host":"x.example","jobs":2,"recipients":3,"rate":1.5,"held":true,"oldest_at":"2026-11-21T10:00:00Z"}`+"\nS: .\n"+
		"C: JSON SHOW QUEUE SHORT\n"+until+`S: {"ring":1,"channel_pattern":"smtp","host_pattern":"*","idle":3}`+"\nS: .\n"+
		"C: JSON SHOW SNMP\n"+until+`S: {"agents":4,"idle_agents":3,"states":{"due":2}}`+"\nS: .\n"+
		"C: JSON SHOW THREAD smtp x.example\n"+until+`S: {"channel":"smtp","host":"x.example","spoolid":"S1","recipients":[{"offset":1,"attempts":2}]}`+"\nS: .\n"+
		"C: EXPLAIN smtp x.example\n"+until+"S: it waits\nS: .\n"+
		"C: JSON SHOW HELD\n"+until+`S: {"channel":"smtp","host":"x.example","by":"root"}`+"\nS: .\n"+
		"C: JSON SHOW REASONS\n"+until+`S: {"reason":"busy","recipients":7}`+"\nS: .\n"+
		"C: JSON SHOW WHERE sender=<> older=1h\n"+until+`S: {"spoolid":"S7"}`+"\nS: .\n"+
		"C: JSON SHOW SNMP\n"+until+"S: {}\nS: .\n"+
		"C: HOLD THREAD smtp x.example\nS: +OK; {\"messages\":1,\"recipients\":1,\"threads\":1}\n"+
		"C: HOLD MSG S9\nS: -ERR; nothing in the queue matches\n"+
		"C: HOLD MSG S1\nS: +OK; {\"messages\":1,\"recipients\":2,\"threads\":1}\n"+
		"C: JSON SHOW SNMP\n"+until+"S: {}\nS: .\n"+
		"C: RELEASE MSG S1\nS: -No KILL allowed for you.\n"+
		"C: EXPLAIN smtp x.example\n"+until+"S: .\n")
	p, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Threads[0]; got.Host != "x.example" || got.Recipients != 3 || got.Rate != 1.5 || !got.Held || got.OldestAt.Year() != 2026 || p.Totals.Agents != 4 || p.Totals.States["due"] != 2 || got.Ring != 1 || len(p.Rings) != 1 || p.Rings[0].Idle != 3 {
		t.Errorf("%+v, %+v", got, p.Totals)
	}
	jobs, more, err := s.Jobs(mailq.Name{Channel: "smtp", Host: "x.example"})
	if err != nil || more || len(jobs) != 1 || jobs[0].SpoolID != "S1" {
		t.Errorf("%v, %v, %v", jobs, more, err)
	}
	if text, err := s.Report("EXPLAIN smtp x.example"); err != nil || fmt.Sprint(text) != "[it waits]" {
		t.Errorf("%v, %v", text, err)
	}
	if held, more, err := s.Held(); err != nil || more || len(held) != 1 || !held[0].IsThread() || held[0].By != "root" {
		t.Errorf("%v, %v, %v", held, more, err)
	}
	if reasons, err := s.Reasons(); err != nil || len(reasons) != 1 || reasons[0].Recipients != 7 {
		t.Errorf("%v, %v", reasons, err)
	}
	if jobs, more, err := s.Select(mailq.Selection{Sender: "<>", Older: time.Hour}); err != nil || more || len(jobs) != 1 || jobs[0].SpoolID != "S7" {
		t.Errorf("%v, %v, %v", jobs, more, err)
	}
	did, failed, err := s.Orders([]mailq.Order{
		{Verb: mailq.Hold, Thread: &mailq.Name{Channel: "smtp", Host: "x.example"}},
		{Verb: mailq.Hold, Message: "S9"}, {Verb: mailq.Hold, Message: "S1"},
	})
	if want := (mailq.Outcome{Messages: 2, Recipients: 3, Threads: 2}); err != nil || did != want || len(failed) != 1 || KindOf(failed[0]) != NotDone {
		t.Errorf("%+v, %v, %v", did, failed, err)
	}
	if _, _, err := s.Orders([]mailq.Order{{Verb: mailq.Release, Message: "S1"}}); KindOf(err) != Refused {
		t.Errorf("%v", err)
	}
	// A refusal does not end the dialogue.
	if _, err := s.Report("EXPLAIN smtp x.example"); err != nil {
		t.Error(err)
	}
}

// TestSourceOfAnOldServer: without JSON there is less to see.
func TestSourceOfAnOldServer(t *testing.T) {
	s := sessions(t, "C: SHOW QUEUE THREADS2\n"+until+"S: smtp\tx.example\tN=2\tR=3\tA=4\tpend=>MaxRing\tQA=57s\nS: .\n"+
		"C: SHOW QUEUE THREADS2\n"+until+"S: .\n"+
		"C: SHOW THREAD smtp x.example\n"+until+"S: #smtp/x.example/0  N=2\n"+
		"S: H/11\t0\ta@b\t98\t0\t0\t0\t4\tthread\tsays\nS: H/11\t1\ta@b\t150\t0\t0\t0\t4\tthread\tsays\nS: 12\t0\t\t98\t0\t0\t0\t0\tthread\t\nS: .\n")
	p, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Threads[0]; got.Host != "x.example" || got.Jobs != 2 || got.Recipients != 3 || got.Pending != mailq.PendingRing || p.Totals != nil {
		t.Errorf("%+v, %+v", got, p.Totals)
	}
	if p, err = s.Snapshot(); err != nil || len(p.Threads) != 0 {
		t.Errorf("%v, %v", p, err)
	}
	jobs, more, err := s.Jobs(mailq.Name{Channel: "smtp", Host: "x.example"})
	if err != nil || more || len(jobs) != 2 || jobs[0].SpoolID != "11" || len(jobs[0].Recipients) != 2 || jobs[1].SpoolID != "12" {
		t.Errorf("%v, %v, %v", jobs, more, err)
	}
}

// TestSourceBeginsAnew: a server that has closed the dialogue is asked again,
// once.
func TestSourceBeginsAnew(t *testing.T) {
	const empty = help + "C: JSON SHOW QUEUE THREADS\n" + until + "S: .\nC: JSON SHOW QUEUE SHORT\nS: -refused\nC: JSON SHOW SNMP\nS: -refused\n"
	s := sessions(t, empty, help+"C: JSON SHOW QUEUE THREADS\n"+until+"S: {}\n", empty)
	for _, want := range []error{nil, errTest, nil} {
		if p, err := s.Snapshot(); (err == nil) != (want == nil) || err == nil && len(p.Threads) > 0 || err != nil && p != nil {
			t.Errorf("%v, %v, want %v", p, err, want)
		}
	}
	if _, err := s.Snapshot(); KindOf(err) != Unavailable {
		t.Errorf("%v", err)
	}
}

var errTest = errorf(Malformed, "the list broke off")

// TestSourceGivesNoOrderTwice: the session is tried before an order is given, and
// an order whose reply is lost is not given again.
func TestSourceGivesNoOrderTwice(t *testing.T) {
	const snmp = "C: JSON SHOW SNMP\n" + until + "S: {}\nS: .\n"
	s := sessions(t, help+snmp, help+snmp+"C: KILL MSG S1 BECAUSE\n", "C: EXPLAIN smtp x\n"+until+"S: .\n")
	for _, want := range []Kind{0, Malformed} {
		_, _, err := s.Orders([]mailq.Order{{Verb: mailq.Kill, Message: "S1"}}[:min(1, int(want))])
		if KindOf(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, err := s.Report("EXPLAIN smtp x"); err != nil {
		t.Error(err)
	}
}

// TestSourceStopsAtALongThread: and begins anew, for the rest of the answer is
// not worth waiting for.
func TestSourceStopsAtALongThread(t *testing.T) {
	many := strings.Repeat("S: {}\n", maxItems+1)
	s := sessions(t, help+"C: JSON SHOW THREAD smtp x\n"+until+many, "C: EXPLAIN smtp x\n"+until+strings.ReplaceAll(many, "{}", "x"), "C: EXPLAIN smtp x\n"+until+"S: .\n")
	jobs, more, err := s.Jobs(mailq.Name{Channel: "smtp", Host: "x"})
	if len(jobs) != maxItems || !more || err != nil {
		t.Errorf("%d jobs, %v, %v", len(jobs), more, err)
	}
	for _, want := range []int{maxItems, 0} {
		if lines, err := s.Report("EXPLAIN smtp x"); len(lines) != want || err != nil {
			t.Errorf("%d lines, %v", len(lines), err)
		}
	}
}

func TestSourceWantsVersion2(t *testing.T) {
	_, err := NewReconnecting(func() (*Client, error) { return dialServer(t, "S: version zmailer 1.0\n") })
	if KindOf(err) != Refused || !strings.Contains(fmt.Sprint(err), "start its scheduler with -M 2") {
		t.Errorf("%v", err)
	}
}
