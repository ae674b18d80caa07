package report

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
)

var now = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// The first line says why mail waits, with the settings that clauses set.
func TestExplanationsInWords(t *testing.T) {
	settings := []view.Setting{{Name: "maxring", Value: "2", File: "scheduler.cf"}, {Name: "command", Value: "smtp", File: "scheduler.cf"}}
	hold := &view.Hold{Since: now.Add(-time.Hour), By: "ann", Because: "they asked"}
	shares := []view.Limit{{Name: "sharescale", Share: "login:mal", Used: 5, Most: 3, Blocks: true}}
	for want, e := range map[string]*mailq.Explanation{
		"smtp/a: There is no mail for it.": {Settings: settings},
		"smtp/a: There is no mail for it, and none would be delivered: no clause that matches has a command.":         {},
		"smtp/a: There is no mail for it, and mail that arrives is held.|held: 1h by ann, until released: they asked": {Hold: hold},
		"smtp/a: The ring has as many sessions, or agents, as it may have (maxring=2).":                               {Wait: "maxring", Settings: settings, Thread: new(mailq.Thread)},
		"smtp/a: No agent starts: no such file.":                                                                      {Wait: "agent expected", Thread: &mailq.Thread{StartError: "no such file"}},
		"smtp/a: All mail waits for its retry.|until: 2026-11-23T08:01:00Z, in 1m":                                    {Wait: "retry", Until: now.Add(time.Minute), Thread: new(mailq.Thread)},
		"smtp/a: As much is busy as it may have (maxnew=3).":                                                          {Wait: "maxnew", Settings: []view.Setting{{Name: "maxnew", Value: "3"}}, Thread: new(mailq.Thread)},
		"smtp/a: All mail waits for its retry.|until: it is due now":                                                  {Wait: "retry", Until: now, Thread: new(mailq.Thread)},
		"smtp/a: It is held: mailq release ends that.":                                                                {Wait: view.WaitHeld, Thread: &mailq.Thread{Held: true}},
		"smtp/a: Mail of it is held, or will be":                                                                      {Wait: view.WaitHeld, Thread: &mailq.Thread{States: map[string]int{"held": 1}}},
		"smtp/a: It is being delivered.":                                                                              {Thread: &mailq.Thread{States: map[string]int{"fed": 1, "blocked": 1}}},
		"smtp/a: There is no mail for it.|limit: sharescale, 5 used of 3 by login:mal, blocks|":                       {Settings: settings, Limits: shares},
	} {
		e.Name = mailq.Name{Channel: "smtp", Host: "a"}
		if got := strings.Join(Explanation(e, now), "|"); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every wait has a sentence, and the settings that it names are in the manual.
func TestEveryWaitHasASentence(t *testing.T) {
	manual, err := os.ReadFile("../../man/scheduler.cf.5")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../scheduler/view/explain.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Wait\w+ +Wait = "(.+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) != len(waits) {
		t.Errorf("%d waits, %d sentences", len(found), len(waits))
	}
	for _, f := range found {
		w := waits[view.Wait(f[1])]
		if len(w.sentence) < 20 || strings.HasSuffix(w.sentence, ".") {
			t.Errorf("%q: %q", f[1], w.sentence)
		}
		for _, name := range strings.Fields(w.settings) {
			if !strings.Contains(string(manual), "\n.BR "+name+" ") {
				t.Errorf("%q names %s, which scheduler.cf(5) does not have", f[1], name)
			}
		}
	}
}

// Rows are sorted by number or text, those of others and totals stay last, and a limit does not
// count them.
func TestTablesAreSortedAndLimited(t *testing.T) {
	items := []*mailq.CountItem{{Key: "b", Messages: 1, Recipients: 9}, {Key: "a", Messages: 1, Recipients: 8}, {Key: "c", Messages: 7, Recipients: 100_000},
		{Messages: 100, Others: true}, {Messages: 200, Total: true, Lines: 4}}
	for column, want := range map[string]string{"": "c b a (others) Total: 4 lines", "RCPTS": "c b a (others) Total: 4 lines", "value": "a b c (others) Total: 4 lines"} {
		table := Counts(items, now)
		if column != "" {
			table.Sorted, _ = table.Column(column)
		}
		table.Sort(table.Sorted)
		var got []string
		for _, r := range table.Rows {
			got = append(got, r.Cells[5].Text)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("by %q: %s", column, got)
		}
		if all := table.Limit(1); all != 3 || len(table.Rows) != 3 {
			t.Errorf("%d of %d rows", len(table.Rows), all)
		}
	}
	var out strings.Builder
	table := Counts(items[2:3], now)
	if err := table.Write(&out); err != nil || out.String() != "RCPTS  MSGS  OLDEST  NEWEST  EXAMPLE  VALUE\n 100k     7                  /        c\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// The state of a thread: the next to be tried comes first, and what is held last.
func TestStatesOfThreads(t *testing.T) {
	var threads []*mailq.Thread
	for _, thread := range []mailq.Thread{
		{Held: true}, {WakeAt: now.Add(2 * time.Hour)}, {SuspendedBy: view.AsDead, SuspendedUntil: now.Add(time.Minute)},
		{Probing: true}, {Wait: view.WaitRing}, {Agents: make([]view.Agent, 2)}, {},
	} {
		threads = append(threads, &thread)
	}
	table := Threads(threads, now)
	column, _ := table.Column("state")
	table.Sort(column)
	var got []string
	for _, r := range table.Rows {
		got = append(got, r.Cells[column].Text)
	}
	if got, want := strings.Join(got, "|"), "busy 2|due|maxring|probing|susp. 1m|in 2h|held"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMessagesInWords(t *testing.T) {
	got := strings.Join(Message(&mailq.Message{
		Path: "M/K/1", SpoolID: "S1", MessageID: "<m@x>", ErrorsTo: "owner@a", ArrivedAt: now.Add(-26 * time.Hour), Control: 485, Size: 110, Held: true, NoFile: true,
		Recipients: []mailq.MessageRecipient{
			{Name: mailq.Name{Channel: "smtp", Host: "b"}, User: "u@b", Originals: []string{"list@a"}, State: "waiting", Attempts: 2, WakeAt: now.Add(time.Minute), Reason: "one\r\rtwo", Wait: "held"},
			{Name: mailq.Name{Channel: "smtp", Host: "c"}, User: "u@c", State: "fed", Order: "REROUTE", OrderTo: "smtp/d"},
			{Name: mailq.Name{Channel: "smtp", Host: "d"}, User: "u@d", State: "delivered"},
		},
	}, now), "\n")
	const want = `M/K/1: spoolid S1, age 1d2h, 485+110 bytes, held
	  lost	the message file is missing; its recipients fail at their next attempt
	  id	<m@x>
	  from	<>
	  errors to	owner@a
	  to	u@b (originally list@a) via smtp/b: waiting, 2 attempts, its thread is held
	  diag	one
	  diag	two
	  to	u@c via smtp/c: fed, 0 attempts, REROUTE to smtp/d when the agent reports
	  to	u@d via smtp/d: delivered`
	if got != want {
		t.Errorf("%s", got)
	}
}

// What hangs the longest comes first.
func TestAgentsAreListedByTheTimeOfTheirJobLines(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	line := func(host string, ago time.Duration) *mailq.JobLine {
		return &mailq.JobLine{Name: mailq.Name{Channel: "smtp", Host: host}, PID: 42, Path: "M/1", FedAt: now.Add(-ago), Recipients: make([]mailq.Recipient, 2)}
	}
	table := Agents([]*mailq.JobLine{line("new.example", time.Second), line("hangs.example", 62*time.Second)}, now)
	table.Sort(table.Sorted)
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "THREAD              PID  SINCE  MESSAGE  RCPTS  SENDER\n" +
		"smtp/hangs.example   42   1m2s  M/1          2  <>\n" +
		"smtp/new.example     42     1s  M/1          2  <>\n"
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
