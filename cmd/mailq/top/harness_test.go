package top

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// recorded is a source that answers as a scheduler did: testdata has what mailq
// --json printed of one queue. Orders are recorded, and change nothing but what a
// test changes.
type recorded struct {
	mu       sync.Mutex
	snapshot client.Snapshot
	jobs     []*mailq.Job
	selected []*mailq.Job
	reasons  []*mailq.ReasonItem
	held     []*mailq.HeldItem
	reports  map[string][]string
	more     bool
	fail     error // of everything
	failed   []error
	would    mailq.Outcome // the answer to an order
	orders   []string      // without dry runs
	counted  []string      // dry runs
	asked    []string
}

// recordedAt is when testdata was recorded.
var recordedAt = time.Date(2026, 11, 22, 10, 55, 19, 0, time.UTC)

// lines reads a file of testdata with one object a line.
func readObjects[T any](t *testing.T, name string) (items []*T) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		item := new(T)
		if err := json.Unmarshal(line, item); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		items = append(items, item)
	}
	return items
}

func readText(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

func newRecorded(t *testing.T) *recorded {
	t.Helper()
	s := &recorded{
		jobs: readObjects[mailq.Job](t, "jobs.json"), selected: readObjects[mailq.Job](t, "where.json"),
		reasons: readObjects[mailq.ReasonItem](t, "reasons.json"), held: readObjects[mailq.HeldItem](t, "held.json"),
		reports: map[string][]string{"EXPLAIN": readText(t, "explain.txt"), "SHOW": readText(t, "message.txt")},
		would:   mailq.Outcome{Messages: 2, Recipients: 3, Threads: 1},
	}
	for _, thread := range readObjects[mailq.ThreadItem](t, "threads.json") {
		s.snapshot.Threads = append(s.snapshot.Threads, *thread)
	}
	for _, ring := range readObjects[mailq.Ring](t, "rings.json") {
		s.snapshot.Rings = append(s.snapshot.Rings, *ring)
	}
	s.snapshot.Totals = readObjects[mailq.Totals](t, "totals.json")[0]
	return s
}

func (s *recorded) ask(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

func (s *recorded) Snapshot() (*client.Snapshot, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	snapshot := s.snapshot
	snapshot.Threads = append([]mailq.ThreadItem(nil), snapshot.Threads...)
	totals := *snapshot.Totals
	snapshot.Totals = &totals
	return &snapshot, nil
}

func (s *recorded) Jobs(name mailq.Name) ([]*mailq.Job, bool, error) {
	s.ask("jobs " + name.Channel + "/" + name.Host)
	return s.jobs, s.more, s.fail
}

func (s *recorded) Select(where mailq.Selection) ([]*mailq.Job, bool, error) {
	s.ask("select " + where.String())
	return s.selected, s.more, s.fail
}

func (s *recorded) Reasons() ([]*mailq.ReasonItem, error) { return s.reasons, s.fail }

func (s *recorded) Held() ([]*mailq.HeldItem, bool, error) { return s.held, s.more, s.fail }

func (s *recorded) Report(command string) ([]string, error) {
	s.ask(command)
	verb, _, _ := strings.Cut(command, " ")
	return s.reports[verb], s.fail
}

func (s *recorded) Orders(orders []mailq.Order) (mailq.Outcome, []error, error) {
	for _, o := range orders {
		if o.DryRun {
			s.counted = append(s.counted, o.String())
		} else {
			s.orders = append(s.orders, o.String())
		}
	}
	return s.would, s.failed, s.fail
}

func (s *recorded) given() string { return strings.Join(s.orders, "; ") }

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
	s := &testScreen{t, newView(time.Second, recordedAt), source, screen}
	s.settle(s.refresh())
	return s
}

// settle answers questions until there are none.
func (s *testScreen) settle(q question) {
	for q != nil {
		q = q(s.source)(s.view)
		s.askedAt = s.now
	}
}

var namedKeys = map[string]tcell.Key{
	"enter": tcell.KeyEnter, "esc": tcell.KeyEscape, "down": tcell.KeyDown, "up": tcell.KeyUp,
	"end": tcell.KeyEnd, "home": tcell.KeyHome, "pgdn": tcell.KeyPgDn, "pgup": tcell.KeyPgUp, "bs": tcell.KeyBackspace2,
	"left": tcell.KeyLeft, "right": tcell.KeyRight, "tab": tcell.KeyTab, "backtab": tcell.KeyBacktab,
	"ctrl-c": tcell.KeyCtrlC, "ctrl-u": tcell.KeyCtrlU, "ctrl-z": tcell.KeyCtrlZ,
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

// shown is what the screen shows.
func (s *testScreen) shown() []string {
	s.draw(s.screen)
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

// wants compares the whole screen.
func (s *testScreen) wants(want string) {
	s.t.Helper()
	lines := s.shown()
	last := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	got := strings.Join(append(lines, last), "\n")
	if want = strings.Trim(want, "\n"); got != want {
		s.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// first is the first word of every row of the list, without cursor and marks.
func (s *testScreen) first() string {
	s.t.Helper()
	s.shown()
	var words []string
	p := s.page()
	for i := p.list.first; i < min(len(p.rows), p.list.first+s.height); i++ {
		words = append(words, p.rows[i].cells[0].text)
	}
	return strings.Join(words, " ")
}

func (s *testScreen) last() string { lines := s.shown(); return lines[len(lines)-1] }

func (s *testScreen) lastIs(want string) {
	s.t.Helper()
	if got := s.last(); got != want {
		s.t.Errorf("the last line is %q, want %q", got, want)
	}
}
