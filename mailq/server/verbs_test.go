package server

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
)

var update = flag.Bool("update", false, "rewrite what the new verbs answer")

// busyQueue is a queue that has every kind of item.
func busyQueue(now time.Time) *fakeQueue {
	ago := func(d time.Duration) time.Time { return now.Add(-d).UTC() }
	in := func(d time.Duration) time.Time { return now.Add(d).UTC() }
	ring := &mailq.Ring{ID: 7, Channel: "smtp", Host: "*", Threads: 2, JobLines: 3, Agents: 1, MaxRing: 20, Overfeed: 150, MaxThr: 1}
	idle := &mailq.Ring{ID: 9, Channel: "local", Host: "*", WithHost: true, Agents: 1, Idle: 1, MaxRing: 5, MaxThr: 1}
	down, up := mailq.Name{Channel: "smtp", Host: "down.example"}, mailq.Name{Channel: "smtp", Host: "up.example"}
	refused := "smtp; 500 (connect to 192.0.2.1 [192.0.2.1|2599|192.0.2.9|35144]: Connection refused)"
	p := &fakeQueue{
		totals: mailq.Totals{Agents: 2, IdleAgents: 1, Messages: 2, Threads: 2, JobLines: 3, Recipients: 4, StartedAt: ago(time.Hour),
			MessagesIn: 12, MessagesOut: 10, RecipientsIn: 24, RecipientsOut: 20},
		counters: map[string]float64{
			"SC.StoredMessages-G": 2, "SYS.Load-Avg-1-min-G": 0.45, "SYS.SchedulerMasterPID": 4242,
			"SC.ReceivedMessages": 12, "SYS.SpoolFreeSpace-kB-G": 1 << 30, "SC.not-in-the-layout": 1,
		},
		outcome: mailq.Outcome{Messages: 3, Recipients: 5, Threads: 2},
	}
	p.rows = []threadRow{
		{Ring: ring, Thread: &mailq.Thread{Name: down, JobLines: 2, Recipients: 3, Attempts: 4, WakeAt: in(90 * time.Second), OldestAt: ago(26 * time.Hour),
			Reason: refused, Window: 1, WindowLimit: 20, SuspendedBy: view.AsDead, SuspendedUntil: in(90 * time.Second)}},
		{Ring: ring, Thread: &mailq.Thread{Name: up, JobLines: 1, Recipients: 1, OldestAt: ago(7 * time.Minute), Window: 2,
			Agents: []view.Agent{{PID: 77, HungryAt: ago(3 * time.Second), FedAt: ago(3 * time.Second), Open: 1, State: "STUFF"}, {PID: 78, State: "LARVA"}}}},
		{Ring: idle},
	}
	p.jobs = []*mailq.JobLine{
		{Name: down, Message: 860194, Path: "M/K/860194", SpoolID: "S860194HfBVWBh", Sender: "alice@a.example", Source: "login:alice", State: "waiting",
			ArrivedAt: ago(26 * time.Hour), ExpiresAt: in(94 * time.Hour), WakeAt: in(90 * time.Second), FedAt: ago(time.Minute),
			Recipients: []mailq.Recipient{{Offset: 215, Attempts: 3, Reason: refused}, {Offset: 100, Attempts: 3, Reason: "\r<<- RCPT To:<x@down.example>\r->> 451 4.2.2 <x@down.example> busy"}}},
		{Name: down, Message: 860195, Path: "M/L/860195", SpoolID: "S860195HfBVWBh", State: "due",
			ArrivedAt: ago(15 * time.Minute), WakeAt: in(90 * time.Second), Recipients: []mailq.Recipient{{Offset: 90, Attempts: 1, Reason: strings.ReplaceAll(refused, "35144", "35999")}}},
		{Name: up, Message: 860195, Path: "M/L/860195", SpoolID: "S860195HfBVWBh", State: "fed", PID: 77, Next: true,
			ArrivedAt: ago(7 * time.Minute), FedAt: ago(3 * time.Second), Recipients: []mailq.Recipient{{Offset: 160}}},
	}
	p.messages = []*mailq.Message{
		{Message: 860194, Path: "M/K/860194", SpoolID: "S860194HfBVWBh", MessageID: "<one@a.example>", Sender: "alice@a.example", ErrorsTo: "owner@a.example",
			ArrivedAt: ago(26 * time.Hour), Control: 485, Size: 110, Recipients: []mailq.MessageRecipient{
				{Name: down, User: "x@down.example", Offset: 215, State: "waiting", Attempts: 3, WakeAt: in(90 * time.Second), Reason: "smtp; 500\rsecond <line>"},
				{Name: up, User: "y@up.example", Offset: 300, State: "delivered", Attempts: 1}}},
		{Message: 860195, Path: "M/L/860195", SpoolID: "S860195HfBVWBh", ArrivedAt: ago(15 * time.Minute), Control: 300, Size: 9, Held: true,
			Recipients: []mailq.MessageRecipient{{Name: up, User: ".dots\nand lines", Offset: 160, State: "held"}}},
	}
	p.cluster = []*mailq.ClusterItem{
		{Store: &mailq.ClusterStore{Address: "redis://store.example:6379/0", State: "reached"}},
		{Node: &mailq.ClusterNode{Name: "mx1", Self: true, ReportedAt: ago(time.Second)}},
		{Limit: &mailq.ClusterLimit{Setting: "clustermax", Name: "smtp/up.example", Most: 20, Node: "mx1", Granted: 7, Busy: 5, Wanted: 9}},
	}
	p.explain = mailq.Explanation{Name: down, Thread: p.rows[0].Thread, Wait: "suspended", Until: in(90 * time.Second),
		Clauses:  []view.Clause{{Pattern: "smtp/*", File: "scheduler.cf", Line: 12}},
		Settings: []view.Setting{{Name: "interval", Value: "5m", File: "scheduler.cf", Line: 13}},
		Limits:   []view.Limit{{Name: "maxta", Used: 2}, {Name: "maxring", Used: 20, Most: 20, Blocks: true}, {Name: "window", Most: 1}}}
	return p
}

// TestAnswersOfTheNewVerbs compares a session with testdata/verbs.txt.
func TestAnswersOfTheNewVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, busyQueue(time.Now()))
		k := dial(t, s, Peer{User: "root"})
		var got strings.Builder
		for _, c := range []string{
			"JSON SHOW MSG 860194", "JSON SHOW MSG S860195HfBVWBh", "JSON SHOW MSG nosuch", "JSON SHOW MSG", "JSON SHOW MSG 1 2", "SHOW MSG 860194",
			"JSON EXPLAIN smtp down.example", "JSON EXPLAIN smtp", "EXPLAIN smtp down.example",
			"JSON SHOW COUNT reason", "JSON SHOW COUNT destination", "JSON SHOW COUNT sender", "JSON SHOW COUNT domain", "JSON SHOW COUNT source", "JSON SHOW COUNT colour", "SHOW COUNT reason",
			"JSON SHOW CLUSTER", "JSON SHOW CLUSTER x",
			"SHOW SNMP", "JSON SHOW SNMP", "SHOW QUEUE SHORT", "JSON SHOW QUEUE SHORT",
			"SHOW QUEUE THREADS", "JSON SHOW QUEUE THREADS", "SHOW QUEUE THREADS2", "JSON SHOW QUEUE THREADS2",
			"SHOW THREAD smtp up.example", "JSON SHOW THREAD smtp up.example", "SHOW THREAD smtp down.example", `SHOW THREAD "smtp" "down.example"`,
			"SHOW THREAD SMTP down.example", "SHOW THREAD smtp", "JSON SHOW THREAD smtp nosuch",
			"JSON SHOW WHERE host=*.example older=1h", "JSON SHOW WHERE host=nosuch", "JSON SHOW WHERE", "JSON SHOW WHERE size=3", "SHOW WHERE state=fed",
			"SHOW THREAD SMTP Up.EXAMPLE", "JSON", "JSON KILL MSG 1", "JSON JSON SHOW SNMP", "JSON SHOW COUNTERS",
			"SHOW COUNTERS",
		} {
			got.WriteString("C: " + c + "\n")
			for _, line := range k.ask(c) {
				got.WriteString("S: " + strings.ReplaceAll(line, "\r", "<CR>") + "\n")
			}
		}
		const file = "testdata/verbs.txt"
		if *update {
			must(t, os.WriteFile(file, []byte(got.String()), 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if got := got.String(); got != string(want) {
			t.Error(firstDifference(got, string(want)))
		}
	})
}

// TestHelp: HELP has a line for each question, and one for each order with what it may be about.
func TestHelp(t *testing.T) {
	k := dial(t, newServer(t, busyQueue(time.Now())), Peer{User: "root"})
	help := k.ask("HELP")
	for _, want := range []string{"[JSON] SHOW QUEUE THREADS", "JSON SHOW COUNT destination|domain|reason|sender|source", "ETRN host [text]", "HELP", "QUIT"} {
		if !slices.Contains(help, want) {
			t.Errorf("no line %q in %q", want, help)
		}
	}
	for _, verb := range view.Verbs {
		if want := string(verb.Verb) + " " + verb.Arguments(); !slices.Contains(help, want) {
			t.Errorf("no line %q in %q", want, help)
		}
	}
	const hold = "HOLD MSG id | THREAD channel host | WHERE key=value... [DRYRUN] [FOR span] [BECAUSE text]"
	if !slices.Contains(help, hold) {
		t.Errorf("no line %q in %q", hold, help)
	}
}

// orderLines has an order of each form.
var orderLines = []string{
	"KILL MSG 12345 BECAUSE", "KILL MSG 12345 DRYRUN", "KILL THREAD smtp d1.example", `HOLD THREAD smtp "" BECAUSE of rain`,
	"RELEASE MSG S12345ABC DRYRUN BECAUSE it is so", "RETRY WHERE host=*.se older=3d DRYRUN", "EXPIRE WHERE sender=<>", "REQUEUE MSG 1",
	"REROUTE MSG 1 smtp relay.example", "REROUTE THREAD smtp a local -", `REROUTE WHERE reason="*timed out*" TO smtp "a b"`,
	"REROUTE WHERE channel=x TO smtp b DRYRUN BECAUSE y",
}

func TestActingVerbs(t *testing.T) {
	q := busyQueue(time.Now())
	var notes []Note
	s := newServer(t, q, func(set *Settings) { set.Note = func(n Note) { notes = append(notes, n) } })
	k := dial(t, s, loopback)
	k.login("root", "zzzzzzz")
	for _, line := range orderLines {
		verb, rest := mailq.CutRaw(line)
		o, _, err := mailq.ParseOrder(view.Verb(verb), rest)
		must(t, err)
		q.orders, notes = nil, nil
		if got, want := k.reply(line), mailq.FormatOutcome(q.outcome); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		if len(q.orders) != 1 || q.orders[0].String() != line || q.orders[0].By != (mailq.Actor{User: "root", Peer: "127.0.0.1"}) {
			t.Errorf("%s: %+v", line, q.orders)
		}
		if len(notes) != 1 || notes[0].Kind != NoteOrder || notes[0].User != "root" || notes[0].Peer != "127.0.0.1" ||
			notes[0].Order.Because != o.Because || notes[0].Outcome != q.outcome {
			t.Errorf("%s: noted %+v", line, notes)
		}
	}
	q.orders = nil
	if got := k.ask("KILL MSG S1"); !slices.Equal(got, []string{"+OK; KILLed something.", ""}) || len(q.orders) != 1 || q.orders[0].Message != "S1" {
		t.Errorf("KILL MSG: %q, %+v", got, q.orders)
	}
	if got := k.reply("EXPIRE MSG 7 DRY"); got != "+OK; {\"messages\":3,\"recipients\":5,\"threads\":2}" || !q.orders[1].DryRun {
		t.Errorf("DRY: %s", got)
	}
	q.orders = nil
	for line, want := range map[string]string{
		"HOLD": "-Unknown request.", "HOLD FOO": "-Unknown request.", "HOLD msg 1": "-Unknown request.", "REQUEUE THREAD smtp a": "-Unknown request.",
		"HOLD MSG": "-ERR; the spoolid", "HOLD THREAD smtp": "-ERR; a channel and a host", "HOLD MSG 1 2": `-ERR; "2" is not understood`,
		"KILL WHERE": "-ERR; a selection needs", "KILL WHERE DRYRUN": "-ERR; a selection needs", "KILL WHERE host": "-ERR; a selection needs",
		"KILL WHERE older=1": "+OK", "KILL WHERE host=* sendr=x": "-ERR; unknown key", "KILL THREAD smtp a b": `-ERR; "b" is not`,
		"REROUTE MSG 1": "-ERR; a channel and a host", "REROUTE MSG 1 smtp": "-ERR; a channel and a host", "REROUTE THREAD a b c": "-ERR; a channel",
		"REROUTE WHERE host=a smtp b": "-ERR; TO and", "REROUTE WHERE host=a TO smtp": "-ERR; a channel", `HOLD MSG "1`: "-ERR; a quoted word",
		"HOLD MSG 1 BECAUSE x DRYRUN": "+OK; {",
	} {
		if got := k.reply(line); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if len(q.orders) != 2 || q.orders[0].DryRun || q.orders[1].DryRun {
		t.Errorf("orders were given: %+v", q.orders)
	}
	q.outcome = mailq.Outcome{}
	if got := k.reply("HOLD MSG 1"); got != "-ERR; nothing in the queue matches" {
		t.Error(got)
	}
	if got := k.reply("HOLD MSG 1 DRYRUN"); got != "-ERR; nothing in the queue matches" {
		t.Error(got)
	}
	if got := k.ask("KILL MSG 1"); got[0] != "+OK; KILLed something." {
		t.Error(got)
	}
	if got := k.reply("KILL MSG 1 BECAUSE"); got != "-ERR; nothing in the queue matches" {
		t.Error(got)
	}
	q.outcome.Loading = true
	if got := k.reply("KILL MSG 1 BECAUSE"); got != "-ERR; nothing in the queue matches: it is still being loaded" {
		t.Error(got)
	}
	if got := k.ask("KILL MSG 1"); got[0] != "+OK; KILLed something." {
		t.Error(got)
	}
}

// A message may leave the queue between two commands of its owner.
func TestQueryForAMessageThatIsGoneIsNotNoted(t *testing.T) {
	var notes []Note
	s := newServer(t, busyQueue(time.Now()), func(set *Settings) { set.Note = func(n Note) { notes = append(notes, n) } })
	k := dial(t, s, Peer{User: "root"})
	for _, line := range []string{"JSON SHOW MSG S1", "JSON SHOW CLUSTER"} {
		k.ask(line)
	}
	if len(notes) > 0 {
		t.Errorf("noted %+v", notes)
	}
}

// TestRightsAreKept: each right allows its own commands and no others.
func TestRightsAreKept(t *testing.T) {
	needs := map[string]string{
		"SHOW SNMP": "S", "SHOW QUEUE SHORT": "Q", "SHOW QUEUE THREADS": "T", "SHOW QUEUE THREADS2": "T", "SHOW THREAD a b": "T",
		"JSON SHOW MSG 860194": "T", "JSON SHOW COUNT reason": "T", "JSON SHOW SNMP": "S",
		"JSON EXPLAIN a b": "T", "JSON SHOW QUEUE SHORT": "Q",
		"ETRN x": "E", "KILL MSG 1": "K", "KILL THREAD a b": "K", "HOLD MSG 1": "K", "RELEASE MSG 1": "K", "RETRY MSG 1": "K",
		"EXPIRE MSG 1 DRYRUN": "K", "REQUEUE MSG 1": "K", "REROUTE MSG 1 a b": "K", "HOLD FOO": "K", "SHOW COUNTERS": "", "HELP": "",
	}
	old := map[string]string{
		"KILL MSG 1": "-No KILL allowed for you.", "HOLD FOO": "-No HOLD allowed for you.", "ETRN x": "-No ETRN allowed for you.",
		"SHOW QUEUE SHORT": "-MAILQ2 Unknown command, or refused by access control; VERB='SHOW' REST='QUEUE'",
		"JSON EXPLAIN a b": "-MAILQ2 Unknown command, or refused by access control; VERB='JSON' REST='EXPLAIN a b'",
	}
	for letter, word := range map[string]string{"S": "SNMP", "Q": "QQ", "T": "TT", "E": "ETRN", "K": "KILL"} {
		q := busyQueue(time.Now())
		k := dial(t, newServer(t, q, func(s *Settings) { s.AuthFile = authFile(t, "u:p:"+word+":\n") }), loopback)
		k.login("u", "p")
		help := strings.Join(k.ask("HELP"), "\n")
		for command, need := range needs {
			got := k.ask(command)
			refused := strings.HasPrefix(got[0], "-No ") || strings.HasPrefix(got[0], "-MAILQ2")
			if allowed := need == "" || need == letter; refused == allowed {
				t.Errorf("with %s alone, %s: %q", word, command, got[0])
			} else if want := old[command]; !allowed && want != "" && got[0] != want {
				t.Errorf("%s: %q, want %q", command, got[0], want)
			}
			verb, _ := mailq.CutRaw(strings.TrimPrefix(command, "JSON "))
			if need == letter && !strings.Contains(help, verb) {
				t.Errorf("HELP of %s does not have %s:\n%s", word, verb, help)
			}
		}
		if strings.Contains(help, "REROUTE") != (letter == "K") {
			t.Errorf("HELP of %s:\n%s", word, help)
		}
		if letter != "K" && len(q.orders) > 0 {
			t.Errorf("%s gave orders: %+v", word, q.orders)
		}
	}
}

// TestTriggerIgnoresCase: the old server found no mail for Example.COM.
func TestTriggerIgnoresCase(t *testing.T) {
	q := busyQueue(time.Now())
	k := dial(t, newServer(t, q), loopback)
	k.login("nobody", "nobody")
	if got := k.reply("ETRN Down.EXAMPLE from 192.0.2.1@Here"); got != "+OK; an ETRN started something." {
		t.Error(got)
	}
	if got := k.reply("ETRN up.example"); got != "+OK; an ETRN didn't start anything." {
		t.Error(got)
	}
	if want := []string{"down.example|from 192.0.2.1@Here", "up.example|"}; !slices.Equal(q.triggered, want) {
		t.Errorf("%q", q.triggered)
	}
}

// TestHostIsTriggeredOnceAMinute: without a limit, ETRN voids the schedule of
// retries. Users who may give orders have no limit.
func TestHostIsTriggeredOnceAMinute(t *testing.T) {
	q := busyQueue(time.Now())
	server := newServer(t, q)
	for range 2 {
		k := dial(t, server, loopback)
		k.login("nobody", "nobody")
		k.reply("ETRN Down.example")
		if got := k.reply("ETRN down.example"); got != "+OK; an ETRN didn't start anything." {
			t.Error(got)
		}
	}
	if want := []string{"down.example|"}; !slices.Equal(q.triggered, want) {
		t.Errorf("%q", q.triggered)
	}
	k := dial(t, server, Peer{UID: 0})
	for range 2 {
		k.reply("ETRN down.example")
	}
	if len(q.triggered) != 3 {
		t.Errorf("%q", q.triggered)
	}
}

// TestOnePeerTriggersSoManyHosts: one user's ETRNs do not use up the places of others.
func TestOnePeerTriggersSoManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := busyQueue(time.Now())
		server := newServer(t, q)
		k := dial(t, server, Peer{UID: 1001})
		for i := range maxTriggers + 10 {
			k.reply("ETRN " + strconv.Itoa(i))
		}
		if len(q.triggered) != maxTriggers {
			t.Errorf("%d hosts", len(q.triggered))
		}
		k = dial(t, server, Peer{UID: 1002})
		if got := k.reply("ETRN Down.example"); got != "+OK; an ETRN started something." {
			t.Error(got)
		}
	})
}

// TestHostWithBlanks: the old client sends names as they are.
func TestHostWithBlanks(t *testing.T) {
	q := busyQueue(time.Now())
	q.rows[0].Thread.Host = "a b  c"
	k := dial(t, newServer(t, q), loopback)
	k.login("nobody", "nobody")
	for _, c := range []string{"SHOW THREAD smtp a b  c", `SHOW THREAD smtp "a b  c"`} {
		if got := k.ask(c); len(got) < 2 || !strings.HasPrefix(got[1], "#smtp/a b  c/0  N=2 ") {
			t.Errorf("%s: %q", c, got)
		}
	}
}

// firstDifference is the first line that differs.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d:\n%s", len(g), len(w), got)
}
