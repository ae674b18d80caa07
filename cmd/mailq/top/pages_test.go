package top

import (
	"os"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

func TestPagesOfARealQueue(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 80, 24)
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min             10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                     up 2s
[1 threads]  2 rings  3 agents  4 reasons  5 held                       by RCPTS
  THREAD                 RCPTS   RATE OLDEST STATE         REASON
> smtp/busy.example.net      6            4s in 9m1s       deferred on request
  local/fred                 2            4s busy 1
  smtp/down.example.com      2            4s susp. 9m28s   destination is out o…
  smtp/held.example          2            3s held          deferred on request
  local/anne                 1            4s busy 1
  local/joe                  1            4s >MaxRing
  smtp/slow.example          1            3s busy 1
? help   q quit`)
	s.press("2")
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min             10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                     up 2s
1 threads  [2 rings]  3 agents  4 reasons  5 held                        by JOBS
  RING                      THREADS   JOBS AGENTS   IDLE MAXRING MAXTHR OVERFEED
> smtp/*                          2      8      5      5      12      3        2
  local/*                         3      4      2      0       2      1        2
  smtp/down.*                     1      2      1      1      20      1        2
  smtp/slow.*                     1      1      1      0       1      1        2
? help   q quit`)
	s.press("tab")
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min             10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                     up 2s
1 threads  2 rings  [3 agents]  4 reasons  5 held                        by OPEN
     AGENT THREAD                                   STATE     OPEN HUNGRY    FED
>    15000 local/fred                               STUFF        1     2s     2s
     15017 smtp/slow.example                        STUFF        1     2s     2s
     15026 local/anne                               STUFF        1     2s     2s
    5 idle ring smtp/*                              idle
    1 idle ring smtp/down.*                         idle
? help   q quit`)
	s.press("4")
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min             10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                     up 2s
1 threads  2 rings  3 agents  [4 reasons]  5 held                       by RCPTS
  REASON                               RCPTS   JOBS EXAMPLE
> deferred on request                      8      8 smtp/busy.example.net
? help   q quit`)
	s.press("5")
	s.wants(`
mailq  7 threads, 15 recipients, 9 agents (6 idle), 0.0/min             10:55:19
due 4  waiting 8  with agents 3  held 1  1 thread held                     up 2s
1 threads  2 rings  3 agents  4 reasons  [5 held]                       by SINCE
  MESSAGE                THREAD                 SINCE ENDS IN BECAUSE
> whole thread           smtp/held.example         0s       - they asked for it
  S10571489AbmKVKzPyNgM9 smtp/busy.example.net     0s      2h
  S10571489AbmKVKzPyNgM9 smtp/down.example.com     0s      2h
? help   q quit`)
	s.press("tab")
	if s.tab != 0 {
		t.Errorf("after the last page comes page %d", s.tab)
	}
	s.press("backtab")
	if s.page().kind != heldPage {
		t.Errorf("before the first page comes %v", s.page().kind)
	}
}

// A wide screen has all columns, and names and reasons in full.
func TestPagesOnAWideScreen(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 140, 24)
	lines := s.shown()
	if got, want := lines[3], "  THREAD                  JOBS  RCPTS   RATE OLDEST WINDOW STATE                 REASON"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s.press("enter")
	if got, want := s.shown()[3], "  MESSAGE                RCPTS TRIES    AGE STATE      SENDER          REASON"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s.press("5")
	if got := strings.Fields(s.shown()[3]); len(got) != 8 {
		t.Errorf("%q", got)
	}
}

// On every size of the screen nothing is written outside of it, the names come
// first, and the list has the most of a low screen.
func TestPagesOnSmallScreens(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 80, 24)
	for width := 1; width < 130; width += 9 {
		for height := 1; height < 12; height++ {
			s.screen.SetSize(width, height)
			for _, page := range []string{"1", "2", "3", "4", "5", "1", "enter", "?", "esc", "e", "esc", "h", "esc"} {
				s.press(page)
				s.shown()
			}
		}
	}
	s.press("1")
	s.screen.SetSize(40, 6)
	s.wants(`
mailq  7 threads                10:55:19
  THREAD                   STATE
> smtp/busy.example.net    in 9m1s
  local/fred               busy 1
  smtp/down.example.com    susp. 9m28s
? help   q quit`)
	s.screen.SetSize(30, 3)
	if got := s.shown(); got[0] != "mailq  7 threads      10:55:19" {
		t.Errorf("%q", got)
	}
}

func TestHelpFitsTheScreen(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 80, 24)
	s.press("?")
	text := strings.Join(s.shown(), "\n")
	for _, line := range helpText {
		if len(line) > 79 || !strings.Contains(text, line) {
			t.Errorf("the screen has not %q (%d characters)", line, len(line))
		}
	}
	for key, verb := range orderKeys {
		if !strings.Contains(text, " "+string(key)+" ") && !strings.Contains(text, string(key)+" ") {
			t.Errorf("the help has no %c, which is %s", key, verb)
		}
	}
	man, err := os.ReadFile("../../../man/mailq.1")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(man), "\n.SH LIVE VIEW\n")
	section, _, _ = strings.Cut(section, "\n.SH ")
	for _, keys := range []string{"1 \\fRto\\fP 5", "s, S", "m, M, c", "h, r, t", "X, K", "Q, R", ".B e", ".B T", ".B space", "Ctrl-L", "Ctrl-Z", ".B /", ".B ?", "left, q"} {
		if !strings.Contains(section, keys) {
			t.Errorf("mailq(1) has no %s", keys)
		}
	}
}

func TestPagesAreSorted(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 24)
	for _, want := range []string{
		"RATE: local/anne", "OLDEST: local/anne", "WINDOW: smtp/busy.example.net smtp/held.example local/anne", "STATE: local/joe smtp/slow.example",
		"REASON: local/anne", "THREAD: local/anne local/fred local/joe smtp/busy.example.net",
		"JOBS: smtp/busy.example.net local/fred", "RCPTS: smtp/busy.example.net local/fred smtp/down.example.com smtp/held.example local/anne",
	} {
		s.press("s")
		p := s.page()
		got := p.columns()[p.sortedBy].title + ": " + s.first()
		if want = strings.TrimSuffix(want, " smtp/slow.example"); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if !strings.HasSuffix(s.shown()[2], "by "+p.columns()[p.sortedBy].title) {
			t.Errorf("%s", s.shown()[2])
		}
	}
	s.press("S")
	if got := s.first(); !strings.HasSuffix(got, "smtp/busy.example.net") || !strings.HasSuffix(s.shown()[2], "by RCPTS reversed") {
		t.Errorf("reversed: %s; %s", got, s.shown()[2])
	}
	// Messages are in the order of the queue at first, and again after the last column.
	s.press("S", "home", "enter")
	first := s.first()
	for range len(s.page().columns()) {
		s.press("s")
	}
	s.press("s")
	if got := s.first(); got != first || s.page().sortedBy != -1 {
		t.Errorf("%s, want %s", got, first)
	}
}

func TestPagesAreFiltered(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 24)
	for keys, want := range map[string]string{
		"LOCAL/":                      "local/fred local/anne local/joe",
		"held":                        "smtp/held.example",
		"maxring":                     "local/joe",
		"out of order":                "smtp/down.example.com",
		"*/*.com":                     "smtp/down.example.com",
		"a?b":                         "",
		"host=*.example channel=smtp": "smtp/held.example smtp/slow.example",
	} {
		s.press("/", keys, "enter")
		if got := s.first(); got != want {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
		if !strings.Contains(s.shown()[2], "filter "+keys[:3]) {
			t.Errorf("%s", s.shown()[2])
		}
		s.press("esc")
	}
	s.press("/", "xy", "bs", "bs", "bs")
	s.lastIs("/")
	s.press("q", "esc")
	if s.quit || !s.page().filter.isZero() || len(s.page().rows) != 7 {
		t.Errorf("left %v, filter %q, %d rows", s.quit, s.page().filter.text, len(s.page().rows))
	}
}

// A filter that is about messages lists them.
func TestSelectionsListMessages(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 24)
	s.press("/", "sender=bob@* colour=blue", "enter")
	if got := s.last(); !strings.HasPrefix(got, "/sender=bob@* colour=blue   (unknown key") {
		t.Errorf("%s", got)
	}
	s.press("ctrl-u", "sender=bob@*", "enter")
	if got := s.shown(); !strings.HasPrefix(got[2], "[1 threads] > sender=bob@*") || len(s.page().rows) != 4 || s.page().kind != jobsPage {
		t.Errorf("%q", got)
	}
	// A further one narrows it.
	s.press("/", "older=1h", "enter")
	if got := s.asked(q); got != "select sender=bob@* older=1h" {
		t.Errorf("%s", got)
	}
	s.press("/", "sender=x", "enter")
	if got := s.last(); !strings.Contains(got, "this page is a selection already: sender= is given twice") {
		t.Errorf("%s", got)
	}
	s.press("esc", "esc", "esc", "5", "/", "sender=bob@*", "enter")
	if got := s.asked(q); got != "select sender=bob@* state=held" {
		t.Errorf("%s", got)
	}
	// In a thread, its name is part of it.
	s.press("1", "enter", "/", "larger=1k", "enter")
	if got := s.asked(q); got != "select channel=smtp host=busy.example.net larger=1024" {
		t.Errorf("%s", got)
	}
}

// asked is the last question about messages.
func (s *testScreen) asked(q *recorded) string { return q.asked[len(q.asked)-1] }

// What comes from other hosts commands no terminal.
func TestTopShowsControlCharacters(t *testing.T) {
	q := newRecorded(t)
	q.snapshot.Threads[0].Reason = "451 \x1b[2J\u202e\tbusy"
	s := newTestScreen(t, q, 120, 12)
	if got := s.shown()[4]; !strings.HasSuffix(got, `451 ^[[2J\u202e busy`) {
		t.Errorf("%q", got)
	}
}

func TestStatesOfThreads(t *testing.T) {
	agents := []mailq.Agent{{PID: 1}, {PID: 2}}
	for _, test := range []struct {
		thread        mailq.Thread
		state, window string
	}{
		{mailq.Thread{Window: 2}, "due", "2"},
		{mailq.Thread{Held: true, Agents: agents}, "held", "0"},
		{mailq.Thread{Agents: agents, Window: 3, WindowLimit: 20}, "busy 2", "3/20"},
		{mailq.Thread{Destination: mailq.Probing, Agents: agents[:1], Window: 1, WindowLimit: 20}, "probing", "1/20"},
		{mailq.Thread{Destination: mailq.Suspended, SuspendedUntil: recordedAt.Add(time.Hour), WakeAt: recordedAt.Add(time.Hour)}, "susp. 1h", "0"},
		{mailq.Thread{Destination: mailq.Suspended, WakeAt: recordedAt.Add(time.Hour)}, "suspended", "0"},
		{mailq.Thread{Pending: mailq.PendingRing}, ">MaxRing", "0"},
		{mailq.Thread{WakeAt: recordedAt.Add(-time.Second)}, "in 0s", "0"},
	} {
		if state, window := stateText(&test.thread, recordedAt), windowCell(&test.thread).text; state != test.state || window != test.window {
			t.Errorf("%+v: %s, %s", test, state, window)
		}
	}
}
