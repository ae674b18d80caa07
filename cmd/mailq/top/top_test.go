package top

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// fakeSource is a source with a queue that does not change, but for what
// it is told.
type fakeSource struct {
	mu       sync.Mutex
	snapshot client.Snapshot
	fail     error
	orders   []string
}

func (q *fakeSource) Snapshot() (*client.Snapshot, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.snapshot
	p.Threads = append([]mailq.Thread(nil), p.Threads...)
	return &p, q.fail
}

func (q *fakeSource) Jobs(name mailq.Name) ([]*mailq.Job, bool, error) {
	return []*mailq.Job{
		{Name: name, SpoolID: "S1aaa", Sender: "alice@a.example", State: "waiting", ArrivedAt: noon.Add(-time.Hour), WakeAt: noon.Add(time.Minute),
			Recipients: []mailq.Recipient{{Attempts: 2, Reason: "smtp; 451\rbusy"}}},
		{Name: name, SpoolID: "S2bbb", State: "fed", PID: 77, Recipients: make([]mailq.Recipient, 3)},
	}, true, q.fail
}

func (q *fakeSource) Report(command string) ([]string, error) {
	return []string{"about " + command, "\x1b[2Jsecond"}, q.fail
}

func (q *fakeSource) Order(order *mailq.Order) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.orders = append(q.orders, order.String())
	if order.Verb == mailq.Hold && order.Thread != nil {
		for i := range q.snapshot.Threads {
			if q.snapshot.Threads[i].Name == *order.Thread {
				q.snapshot.Threads[i].Held = true
			}
		}
	}
	return string(order.Verb) + " 1 messages, 1 recipients, 1 threads.", q.fail
}

func (q *fakeSource) given() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.orders, "; ")
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func threeThreads() *fakeSource {
	return &fakeSource{snapshot: client.Snapshot{
		Threads: []mailq.Thread{
			{Name: mailq.Name{Channel: "smtp", Host: "a.example"}, Jobs: 1, Recipients: 1, Rate: 3, OldestAt: noon.Add(-time.Minute), Agents: []mailq.Agent{{PID: 7}}},
			{Name: mailq.Name{Channel: "smtp", Host: "b.example"}, Jobs: 20, Recipients: 30, OldestAt: noon.Add(-time.Hour), WakeAt: noon.Add(90 * time.Second), Reason: "smtp; 451\rbusy try later"},
			{Name: mailq.Name{Channel: "local", Host: "-"}, Jobs: 2, Recipients: 2, Rate: 1, OldestAt: noon.Add(-25 * time.Hour), Pending: mailq.PendingRing, Reason: "disk \x1b[2Jfull"},
		},
		Totals: &mailq.Totals{Agents: 5, IdleAgents: 4},
	}}
}

// testScreen is a view on a simulated screen, driven key by key.
type testScreen struct {
	t *testing.T
	*view
	source Source
	screen tcell.SimulationScreen
}

func newTestScreen(t *testing.T, source Source, width, height int) *testScreen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(screen.Fini)
	screen.SetSize(width, height)
	s := &testScreen{t, new(view), source, screen}
	s.every = time.Second
	s.settle(s.refresh())
	s.askedAt = noon
	return s
}

// settle answers questions until there are none.
func (s *testScreen) settle(q question) {
	for q != nil {
		q = q(s.source)(s.view)
	}
}

var namedKeys = map[string]tcell.Key{
	"enter": tcell.KeyEnter, "esc": tcell.KeyEscape, "down": tcell.KeyDown, "up": tcell.KeyUp,
	"end": tcell.KeyEnd, "home": tcell.KeyHome, "pgdn": tcell.KeyPgDn, "pgup": tcell.KeyPgUp, "bs": tcell.KeyBackspace2,
	"ctrl-c": tcell.KeyCtrlC, "ctrl-u": tcell.KeyCtrlU,
}

// press presses keys: names, or letters one by one.
func (s *testScreen) press(keys ...string) {
	for _, key := range keys {
		if named, ok := namedKeys[key]; ok {
			s.settle(s.key(tcell.NewEventKey(named, 0, 0)))
			continue
		}
		for _, r := range key {
			s.settle(s.key(tcell.NewEventKey(tcell.KeyRune, r, 0)))
		}
	}
}

// lines are what the screen shows.
func (s *testScreen) shown() []string {
	s.draw(s.screen, noon)
	s.screen.Show()
	return screenLines(s.screen)
}

func screenLines(screen tcell.SimulationScreen) []string {
	cells, width, height := screen.GetContents()
	lines := make([]string, height)
	for y := range lines {
		var b strings.Builder
		for _, cell := range cells[y*width : (y+1)*width] {
			b.Write(cell.Bytes)
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// first is the first word of every row of the list.
func (s *testScreen) first() string {
	var words []string
	for _, line := range s.shown()[2 : len(s.shown())-1] {
		if f := strings.Fields(line); len(f) > 0 {
			words = append(words, f[0])
		}
	}
	return strings.Join(words, " ")
}

func (s *testScreen) last() string { return s.shown()[len(s.shown())-1] }

func TestTopShowsThreads(t *testing.T) {
	s := newTestScreen(t, threeThreads(), 100, 8)
	want := `mailq  3 threads, 23 jobs, 33 recipients, 5 agents (4 idle)                                 12:00:00
THREAD                           JOBS   RCPTS    RATE  OLDEST   STATE           REASON
smtp/b.example                     20      30          1h       in 1m30s        busy try later
local/-                             2       2     1.0  1d1h     >MaxRing        disk ^[[2Jfull
smtp/a.example                      1       1     3.0  1m       busy 1


sorted by size   ? help   q quit`
	if got := strings.Join(s.shown(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTopSorts(t *testing.T) {
	s := newTestScreen(t, threeThreads(), 100, 8)
	for _, want := range []string{
		"rate: smtp/a.example local/- smtp/b.example",
		"oldest: local/- smtp/b.example smtp/a.example",
		"state: local/- smtp/a.example smtp/b.example",
		"reason: smtp/a.example smtp/b.example local/-",
		"name: local/- smtp/a.example smtp/b.example",
		"size: smtp/b.example local/- smtp/a.example",
	} {
		s.press("s")
		if got := s.sortedBy.String() + ": " + s.first(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	s.press("S")
	if got := s.first(); got != "smtp/a.example local/- smtp/b.example" || !strings.Contains(s.last(), "reversed") {
		t.Errorf("reversed: %s; %s", got, s.last())
	}
}

func TestTopFilters(t *testing.T) {
	s := newTestScreen(t, threeThreads(), 100, 8)
	for keys, want := range map[string]string{
		"SMTP/":   "smtp/b.example smtp/a.example",
		"held":    "nothing",
		"maxring": "",
		"full":    "local/-",
		"*/b.*":   "smtp/b.example",
		"a?b":     "nothing",
	} {
		s.press("/", keys, "enter")
		if want == "" {
			want = "nothing"
		}
		if got := s.first(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
		if !strings.Contains(s.last(), "filter "+keys) {
			t.Errorf("%s", s.last())
		}
		s.press("esc")
	}
	s.press("/", "xy", "bs", "bs", "bs")
	if s.last() != "/" {
		t.Errorf("%s", s.last())
	}
	s.press("q", "esc")
	if s.quit || s.filter != "" || len(s.rows) != 3 {
		t.Errorf("left %v, filter %q, %d rows", s.quit, s.filter, len(s.rows))
	}
}

// TestTopKeepsItsPlace: the cursor stays on its thread when others change.
func TestTopKeepsItsPlace(t *testing.T) {
	q := threeThreads()
	s := newTestScreen(t, q, 100, 8)
	s.press("down")
	q.snapshot.Threads[2].Recipients = 1000
	s.press(" ")
	if name, _ := s.selected(); name.Channel != "local" || s.threadList.at != 0 {
		t.Errorf("%v at %d", name, s.threadList.at)
	}
	q.snapshot.Threads = q.snapshot.Threads[:1]
	s.press("G", " ")
	if name, ok := s.selected(); !ok || name.Host != "a.example" {
		t.Errorf("%v %v", name, ok)
	}
	q.snapshot.Threads = nil
	s.press(" ", "down", "enter", "e", "h", "y")
	if got := s.first(); got != "the" || q.given() != "" {
		t.Errorf("%s; %s", got, q.given())
	}
}

func TestTopScrolls(t *testing.T) {
	q := new(fakeSource)
	for i := range 100 {
		q.snapshot.Threads = append(q.snapshot.Threads, mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: fmt.Sprintf("h%02d", i)}})
	}
	s := newTestScreen(t, q, 60, 8)
	for _, step := range []struct{ key, shows string }{
		{"G", "smtp/h95 smtp/h96 smtp/h97 smtp/h98 smtp/h99"},
		{"up", "smtp/h95 smtp/h96 smtp/h97 smtp/h98 smtp/h99"},
		{"pgup", "smtp/h88 smtp/h89 smtp/h90 smtp/h91 smtp/h92"},
		{"g", "smtp/h00 smtp/h01 smtp/h02 smtp/h03 smtp/h04"},
		{"pgdn", "smtp/h06 smtp/h07 smtp/h08 smtp/h09 smtp/h10"},
		{"k", "smtp/h06 smtp/h07 smtp/h08 smtp/h09 smtp/h10"},
	} {
		s.press(step.key)
		if got := s.first(); got != step.shows {
			t.Errorf("%s: %s, want %s", step.key, got, step.shows)
		}
	}
	s.screen.SetSize(60, 4)
	if got := s.first(); got != "smtp/h09" {
		t.Errorf("on a small screen: %s", got)
	}
	s.screen.SetSize(5, 2)
	s.shown()
}

func TestTopOpens(t *testing.T) {
	q := threeThreads()
	s := newTestScreen(t, q, 120, 8)
	s.press("enter")
	want := `smtp/b.example              RCPTS TRIES  AGE      STATE         SENDER                       REASON
S1aaa                           1     2  1h       in 1m         alice@a.example              busy
S2bbb                           3     0           fed 77        <>
… and more

Esc back   ? help`
	if got := strings.Join(s.shown()[1:], "\n"); !strings.HasPrefix(got, want[:len(want)-len("\nEsc back   ? help")]) || s.last() != "Esc back   ? help" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s.press("down", "enter")
	if got := strings.Join(s.shown()[1:4], "|"); got != "message S2bbb|about SHOW MSG S2bbb|^[[2Jsecond" {
		t.Errorf("%s", got)
	}
	s.press("esc", "t", "y")
	if got := q.given(); got != "RETRY MSG S2bbb" {
		t.Errorf("%s", got)
	}
	s.press("e")
	if got := strings.Join(s.shown()[1:3], "|"); got != "smtp/b.example|about EXPLAIN smtp b.example" {
		t.Errorf("%s", got)
	}
	s.press("?")
	if got := s.shown()[1]; got != "keys" {
		t.Errorf("%s", got)
	}
	s.press("q", "q", "q")
	if s.quit || s.page != threadsPage {
		t.Errorf("left %v, page %d", s.quit, s.page)
	}
	s.press("q")
	if !s.quit {
		t.Error("still there")
	}
}

// TestTopAsksBeforeItActs: an order is given after y and no other key.
func TestTopAsksBeforeItActs(t *testing.T) {
	q := threeThreads()
	s := newTestScreen(t, q, 100, 8)
	s.press("h")
	if got := s.last(); got != "HOLD THREAD smtp b.example? (y/n)" {
		t.Errorf("%s", got)
	}
	s.press("enter", "h", "n", "h", "esc", "h", "q")
	if q.given() != "" || s.quit || s.last() != "nothing done" {
		t.Errorf("%q, left %v, %s", q.given(), s.quit, s.last())
	}
	s.press("h", "y")
	if q.given() != "HOLD THREAD smtp b.example" || s.last() != "HOLD 1 messages, 1 recipients, 1 threads." ||
		!strings.Contains(s.shown()[2], "held") {
		t.Errorf("%q, %s, %s", q.given(), s.last(), s.shown()[2])
	}
	s.press("r", "y", "t", "Y")
	if want := "HOLD THREAD smtp b.example; RELEASE THREAD smtp b.example; RETRY THREAD smtp b.example"; q.given() != want {
		t.Errorf("%q", q.given())
	}
	q.fail = errors.New("no \x1b[2JKILL allowed for you")
	s.press("h", "y")
	if got := s.last(); got != "HOLD: no ^[[2JKILL allowed for you" {
		t.Errorf("%s", got)
	}
}

// TestTopShowsErrors: the last snapshot stays, with its age.
func TestTopShowsErrors(t *testing.T) {
	q := threeThreads()
	s := newTestScreen(t, q, 100, 8)
	q.fail = errors.New("here reply nothing for 2m0s")
	s.press(" ")
	s.askedAt = noon.Add(-time.Minute)
	if got := s.shown(); got[7] != "here reply nothing for 2m0s" || !strings.HasSuffix(got[0], "1m old") || !strings.HasPrefix(got[2], "smtp/b") {
		t.Errorf("%q", got)
	}
	for _, key := range []string{"enter", "e", "esc"} {
		s.press(key)
		s.shown()
	}
}
