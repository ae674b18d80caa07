package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// Keys of the live view, and what it shows after them.

// TestTopKeepsItsPlace: the cursor stays on its row when others change.
func TestTopKeepsItsPlace(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.press("down")
	q.snapshot.Threads[3].Recipients = 1000
	s.press(" ")
	if r, _ := s.page().selected(); r.key != "local/fred" || s.page().at != 0 {
		t.Errorf("%v at %d", r.key, s.page().at)
	}
	q.snapshot.Threads = q.snapshot.Threads[:1]
	s.press("G", " ")
	if r, ok := s.page().selected(); !ok || r.key != "smtp/busy.example.net" {
		t.Errorf("%v %v", r.key, ok)
	}
	q.snapshot.Threads = nil
	s.press(" ", "down", "enter", "e", "h", "m", "M", "T")
	if got := s.shown()[4]; got != "  the queue is empty" || q.given() != "" || len(s.stack) > 0 {
		t.Errorf("%s; %s", got, q.given())
	}
}

func TestTopScrolls(t *testing.T) {
	q := newRecorded(t)
	q.snapshot.Threads = nil
	for i := range 100 {
		var thread mailq.ThreadItem
		thread.Name = mailq.Name{Channel: "smtp", Host: fmt.Sprintf("h%02d", i)}
		q.snapshot.Threads = append(q.snapshot.Threads, thread)
	}
	s := newTestScreen(t, q, 60, 9)
	for _, step := range []struct{ key, shows string }{
		{"G", "smtp/h95 smtp/h96 smtp/h97 smtp/h98 smtp/h99"},
		{"up", "smtp/h95 smtp/h96 smtp/h97 smtp/h98 smtp/h99"},
		{"pgup", "smtp/h94 smtp/h95 smtp/h96 smtp/h97 smtp/h98"},
		{"g", "smtp/h00 smtp/h01 smtp/h02 smtp/h03 smtp/h04"},
		{"pgdn", "smtp/h00 smtp/h01 smtp/h02 smtp/h03 smtp/h04"},
		{"pgdn", "smtp/h04 smtp/h05 smtp/h06 smtp/h07 smtp/h08"},
		{"k", "smtp/h04 smtp/h05 smtp/h06 smtp/h07 smtp/h08"},
	} {
		s.press(step.key)
		if got := s.first(); got != step.shows {
			t.Errorf("%s: %s, want %s", step.key, got, step.shows)
		}
	}
	s.screen.SetSize(60, 4)
	if got := s.first(); got != "smtp/h07" {
		t.Errorf("on a small screen: %s", got)
	}
}

func TestTopOpens(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.press("enter")
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min                                 10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                                         up 2s
[1 threads] > smtp/busy.example.net                                             in the queue's order
  MESSAGE                RCPTS TRIES    AGE STATE      SENDER          REASON
> S10568691AbmKVKzPvUuqp     1     1     3s in 9m12s   alice@a.example deferred on request
  S10569521AbmKVKzPwEPI7     1     1     3s in 9m6s    alice@a.example deferred on request
  S10571441AbmKVKzPwesQ8     1     1     3s in 9m1s    alice@a.example deferred on request
  S10571457AbmKVKzPxQd88     1     1     3s in 10m23s  alice@a.example deferred on request
  S10571505AbmKVKzPzZzA9     1     1     3s in 10m19s  bob@b.example   deferred on request
  S10571537AbmKVKzP6BpM0     1     1     3s in 10m22s  bob@b.example   deferred on request
  S10571489AbmKVKzPyNgM9     1     0     3s held       bob@b.example
Esc back   ? help`)
	s.press("down", "enter")
	if got := s.asked(q); got != "SHOW MSG S10569521AbmKVKzPwEPI7" {
		t.Errorf("%s", got)
	}
	if got := s.shown()[4]; !strings.HasPrefix(got, "10568691: spoolid S10568691AbmKVKzPvUuqp, age 4s") {
		t.Errorf("%s", got)
	}
	s.press("esc", "e")
	if got := strings.Join(s.shown()[3:5], "|"); got != "smtp/busy.example.net|smtp/down.example.com: The destination has failed, so the thread is suspended until 2026-11-22T11:04" {
		t.Errorf("%s", got)
	}
	s.press("pgdn", "down", "G", "up", "?")
	if got := s.shown()[3]; got != "keys" {
		t.Errorf("%s", got)
	}
	s.press("q", "q", "q")
	if s.quit || len(s.stack) != 0 {
		t.Errorf("left %v, %d pages", s.quit, len(s.stack))
	}
	// A ring opens its threads, a reason and an agent their mail.
	s.press("2", "down", "enter")
	if got := s.first(); got != "local/fred local/anne local/joe" {
		t.Errorf("%s", got)
	}
	s.press("3", "enter")
	if got := s.asked(q); got != "jobs local/fred" {
		t.Errorf("%s", got)
	}
	s.press("4", "enter")
	if got := s.asked(q); got != `select reason="deferred on request"` {
		t.Errorf("%s", got)
	}
	s.press("5", "enter")
	if got := s.asked(q); got != "jobs smtp/held.example" {
		t.Errorf("%s", got)
	}
	s.press("5", "down", "enter")
	if got := s.asked(q); got != "SHOW MSG S10571489AbmKVKzPyNgM9" {
		t.Errorf("%s", got)
	}
	s.press("1", "q")
	if !s.quit {
		t.Error("still there")
	}
}

// Over a slow link, Esc and the next key arrive together, as Alt and the key.
func TestEscAndAKeyAtOnce(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 12)
	s.press("enter")
	s.settle(s.key(tcell.NewEventKey(tcell.KeyRune, '2', tcell.ModAlt)))
	if s.page().kind != ringsPage {
		t.Errorf("page %v", s.page().kind)
	}
	s.press("1", "h")
	s.settle(s.key(tcell.NewEventKey(tcell.KeyRune, 'm', tcell.ModAlt)))
	if s.prompt != nil || s.page().marked() != "1 line marked" {
		t.Errorf("%v, %s", s.prompt, s.page().marked())
	}
}

// A report that comes when the user is elsewhere is not shown.
func TestLateReportsAreDropped(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 12)
	late := s.explain()
	s.lastIs("asking …")
	s.press("2")
	s.settle(late)
	if len(s.stack) != 0 {
		t.Error("the report is shown over another page")
	}
}

func TestTopTraces(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 12)
	s.press("T")
	s.lastIs("no message is selected")
	s.press("enter", "T")
	s.lastIs("there is no event log to read")
	s.tracer = func(id string) ([]string, error) { return []string{id + " <m@x>", "  arrived"}, nil }
	s.press("T")
	if got := strings.Join(s.shown()[3:6], "|"); got != "trace of S10568691AbmKVKzPvUuqp|S10568691AbmKVKzPvUuqp <m@x>|  arrived" {
		t.Errorf("%s", got)
	}
	s.tracer = func(string) ([]string, error) { return nil, errors.New("no \x1b[2Jlog") }
	s.press("esc", "T")
	s.lastIs("no ^[[2Jlog")
}

// TestTopShowsErrors: the last snapshot stays, with its age; a line says since
// when there is no answer and why, until there is one.
func TestTopShowsErrors(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	good := s.now
	lost := &client.Error{Kind: client.Unavailable, Err: errors.New("here: connection refused")}
	q.fail = lost
	for _, later := range []time.Duration{5, 65} {
		s.now = good.Add(later * time.Second)
		s.press(" ")
		s.askedAt = good
	}
	got := s.shown()
	if got[2] != "! no answer for 1m: here: connection refused; asking again every 1s" || !strings.HasSuffix(got[0], "1m5s old") || !strings.HasPrefix(got[5], "> smtp/busy") {
		t.Errorf("%q", got)
	}
	if len(s.page().rows) != 7 {
		t.Errorf("%d threads", len(s.page().rows))
	}
	for _, key := range []string{"enter", "e", "esc", "2", "4", "5", "h", "1"} {
		s.press(key)
		s.shown()
	}
	s.press("h", "enter", "enter")
	s.lastIs("HOLD: here: connection refused")
	q.fail = nil
	s.press(" ")
	if got := s.shown()[2]; strings.HasPrefix(got, "!") {
		t.Errorf("%s", got)
	}
	q.fail = &client.Error{Kind: client.Refused, Err: errors.New("no TT for you")}
	s.press("4")
	if got := s.shown(); got[2] != "! no TT for you" || got[5] != "  no answer yet" {
		t.Errorf("%q", got)
	}
}

// A reload that has failed is shown until one succeeds.
func TestTopShowsReloads(t *testing.T) {
	q := newRecorded(t)
	q.snapshot.Totals.Reload = mailq.Reload{At: recordedAt.Add(-3 * time.Minute), Error: "scheduler.cf:3:5: what"}
	s := newTestScreen(t, q, 100, 12)
	if got := s.shown()[2]; !strings.HasPrefix(got, "! Configuration not reloaded 3m ago: scheduler.cf:3:5: what") {
		t.Errorf("%s", got)
	}
	q.snapshot.Totals.Reload.Error = ""
	s.press(" ")
	if got := s.shown()[1]; !strings.HasSuffix(got, " reloaded 3m ago") {
		t.Errorf("%s", got)
	}
}

func TestTopShowsItsRate(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.departed[0].at = time.Now().Add(-time.Minute)
	q.snapshot.Totals.RecipientsOut += 1000
	s.press(" ")
	if rate, known := s.departed.rate(); !known || rate < 900 || rate > 1001 {
		t.Errorf("%v recipients a minute", rate)
	}
	q.snapshot.Totals.RecipientsOut = 0 // the scheduler was started anew
	s.press(" ")
	if rate, known := s.departed.rate(); known {
		t.Errorf("%v recipients a minute", rate)
	}
}

// Twenty recipients leave the queue at once, every eight seconds, and the view asks each
// second.
func TestRateIsSteady(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	at, sum := time.Now(), 0.0
	for i := range q.snapshot.Threads {
		sum += q.snapshot.Threads[i].Rate
	}
	s.departed = nil
	for second := range 600 {
		if second%8 == 0 {
			q.snapshot.Totals.RecipientsOut += 20
		}
		s.keep(&q.snapshot, at.Add(time.Duration(second)*time.Second))
		rate, known := s.departed.rate()
		switch line := s.headline(100); {
		case known != (second >= 15):
			t.Fatalf("known is %v after %d seconds", known, second)
		case !known && !strings.Contains(line, shortRate(sum)+"/min"):
			t.Fatalf("%q does not have the sum of the threads, %v", line, sum)
		case second >= 60 && (rate < 120 || rate > 180):
			t.Fatalf("%v recipients a minute after %d seconds", rate, second)
		}
	}
	if len(s.departed) > 62 {
		t.Errorf("%d counts are kept", len(s.departed))
	}
}
