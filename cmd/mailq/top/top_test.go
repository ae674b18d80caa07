package top

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq/client"
)

// recorded is a server that answers as a scheduler did: testdata has what it answered in JSON.
// Orders are recorded, and change nothing.
type recorded struct {
	t     *testing.T
	mu    sync.Mutex
	fail  error  // of every connection
	would string // the answer to an order
	// breaks: the connection ends when an order comes that is no dry run.
	breaks bool
	asked  []string
}

// files are what each command is answered with.
var files = map[string]string{
	"JSON SHOW SNMP": "totals", "JSON SHOW QUEUE THREADS": "threads", "JSON SHOW QUEUE SHORT": "rings",
	"JSON SHOW COUNT reason": "reasons", "JSON SHOW HELD": "held", "JSON SHOW THREAD": "jobs", "JSON SHOW WHERE": "where",
	"JSON SHOW MSG": "message", "JSON EXPLAIN": "explain",
}

// connect begins a session.
func (r *recorded) connect() (*client.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return nil, r.fail
	}
	near, far := net.Pipe()
	go r.serve(far)
	return client.New(near, client.Options{Server: "here"})
}

func (r *recorded) serve(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "version zmailer 2.0\n220 MAILQ-V2-CHALLENGE: 1\n")
	in := bufio.NewScanner(conn)
	for in.Scan() {
		line, answer := in.Text(), ""
		r.mu.Lock()
		r.asked = append(r.asked, line)
		answer = r.would + "\n"
		ends := r.breaks && !strings.HasPrefix(line, "JSON ") && !strings.Contains(line, "DRYRUN")
		r.mu.Unlock()
		if ends {
			return
		}
		for command, file := range files {
			if line == command || strings.HasPrefix(line, command+" ") {
				text, err := os.ReadFile("testdata/" + file + ".json")
				if err != nil {
					r.t.Error(err)
				}
				answer = "+OK until LF.LF\n" + string(text) + ".\n"
			}
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// orders returns the commands that were neither questions nor dry runs.
func (r *recorded) orders() (given []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.asked {
		if !strings.HasPrefix(line, "JSON ") && !strings.Contains(line, "DRYRUN") {
			given = append(given, line)
		}
	}
	return given
}

func (r *recorded) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[len(r.asked)-1]
}

// testScreen is a view on a simulated screen.
type testScreen struct {
	t      *testing.T
	screen tcell.SimulationScreen
	drawn  chan string // what the screen shows, whenever that has changed
	now    string
	ended  chan error
	trace  func(string) ([]string, error)
}

func start(t *testing.T, r *recorded, width, height int) *testScreen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	s := &testScreen{t: t, screen: screen, drawn: make(chan string, 1000), ended: make(chan error, 1)}
	s.trace = func(id string) ([]string, error) { return []string{"the life of " + id}, nil }
	v := newView(&Top{Connect: r.connect, Every: time.Hour, Trace: func(id string) ([]string, error) { return s.trace(id) }, Screen: screen})
	screen.SetSize(width, height)
	v.app.SetAfterDrawFunc(func(tcell.Screen) {
		screen.Show()
		s.drawn <- contents(screen)
	})
	ctx, stop := context.WithCancel(context.Background())
	go func() { s.ended <- v.run(ctx); close(s.ended) }()
	t.Cleanup(func() {
		stop()
		for range s.ended {
		}
	})
	return s
}

func contents(screen tcell.SimulationScreen) string {
	cells, width, height := screen.GetContents()
	var b strings.Builder
	for y := range height {
		line := ""
		for _, cell := range cells[y*width : (y+1)*width] {
			line += string(cell.Bytes)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// shows waits until a text is on the screen.
func (s *testScreen) shows(text string) {
	s.t.Helper()
	for !strings.Contains(s.now, text) {
		select {
		case s.now = <-s.drawn:
		case <-time.After(20 * time.Second):
			s.t.Fatalf("%q does not appear:\n%s", text, s.now)
		}
	}
}

func (s *testScreen) press(keys string) {
	for _, r := range keys {
		switch r {
		case '\r':
			s.screen.InjectKey(tcell.KeyEnter, 0, 0)
		case '\x1b':
			s.screen.InjectKey(tcell.KeyEscape, 0, 0)
		default:
			s.screen.InjectKey(tcell.KeyRune, r, 0)
		}
	}
	s.now = ""
}

func TestPagesOfARealQueue(t *testing.T) {
	r := &recorded{t: t}
	s := start(t, r, 110, 24)
	s.shows("smtp/busy.example.net")
	for _, want := range []string{
		"mailq  7 threads, 15 recipients, 9 agents (6 idle)", "\n4 due, 3 fed, 8 waiting, 1 message held, 1 thread held\n",
		"[1 threads]  2 rings  3 agents  4 reasons  5 held  by RCPTS\n",
		"THREAD                JOBS RCPTS", "susp. ", "destination is out of order",
	} {
		if !strings.Contains(s.now, want) {
			t.Errorf("no %q on\n%s", want, s.now)
		}
	}
	for _, page := range []struct{ key, shows string }{
		{"2", "MAXRING"}, {"3", "15000 local/fred"}, {"4", "smtp/busy.example.net deferred on request"}, {"5", "whole thread"}, {"1", "OLDEST"},
	} {
		s.press(page.key)
		s.shows(page.shows)
	}
	s.press("q")
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A ring shows its threads, a reason or thread its messages, a message its recipients; nothing
// that a peer has said commands the terminal or the library.
func TestPagesOpen(t *testing.T) {
	r := &recorded{t: t}
	s := start(t, r, 110, 24)
	s.shows("smtp/busy.example.net")
	s.press("\r")
	s.shows("S10568691AbmKVKzPvUuqp")
	s.press("\r")
	s.shows("bob^[[2J@busy.example.net via smtp/busy.example.net: waiting, 1 attempt")
	s.shows("[red]deferred")
	s.press("\x1bT")
	s.shows("the life of S1")
	s.press("\x1be")
	s.shows("Every job waits for its retry.")
	s.press("?")
	s.shows("requeue: back to the router")
	s.press("\x1b\x1b\x1b")
	s.shows("[1 threads]  2 rings")
	s.press("4")
	s.shows("EXAMPLE")
	s.press("\r")
	s.shows("ATTEMPTS")
	if got := r.last(); got != `JSON SHOW WHERE reason="deferred on request"` {
		t.Errorf("asked %s", got)
	}
	s.press("2")
	s.shows("MAXRING")
	s.press("\r")
	s.shows("ring smtp/*")
	s.trace = func(string) ([]string, error) { return nil, errors.New("no \x1b[2Jlog") }
	s.press("5")
	s.shows("whole thread")
	s.press("T")
	s.shows("no message is selected")
	s.press("jT")
	s.shows("no ^[[2Jlog")
}

func TestFilterAndOrderOfRows(t *testing.T) {
	s := start(t, &recorded{t: t}, 110, 24)
	s.shows("by RCPTS")
	s.press("/Local\r")
	s.shows("filter local")
	if strings.Contains(s.now, "smtp/busy") || !strings.Contains(s.now, "local/anne") {
		t.Errorf("%s", s.now)
	}
	s.press("\x1b")
	s.shows("smtp/busy")
	s.press("ssssss")
	s.shows("by THREAD")
	if strings.Index(s.now, "local/anne") > strings.Index(s.now, "smtp/busy") {
		t.Errorf("not sorted by name:\n%s", s.now)
	}
}

// An order is counted, confirmed and given, for the line under the cursor alone.
func TestOrders(t *testing.T) {
	r := &recorded{t: t, would: `+OK; {"messages":2,"recipients":3,"threads":1,"with_agents":1}`}
	s := start(t, r, 180, 24)
	s.shows("smtp/busy")
	s.press("h")
	s.shows("hold for a time")
	s.press("soon\r")
	s.shows("soon")
	s.press("h2h\rrain\r")
	s.shows("2 messages, 3 recipients, 1 thread; 1 message is with agents: held when the agent reports, unless it delivers them?")
	s.shows("(y/n)")
	s.press("n\r")
	s.shows("nothing done")
	s.press("r")
	s.shows("(y/n)")
	s.press("y\r")
	s.shows("done: RELEASE 2 messages")
	s.press("R")
	s.shows("reroute to channel/host")
	s.press("smtp/relay\r\r")
	s.shows("(y/n)")
	s.press("yes\r")
	s.shows("done: REROUTE")
	r.mu.Lock()
	r.would = `+OK; {"messages":101,"recipients":101,"threads":1}`
	r.mu.Unlock()
	s.press("Q\r")
	s.shows("(yes/n)")
	s.press("y\r")
	s.shows("nothing done")
	s.press("4")
	s.shows("EXAMPLE")
	s.press("K\r")
	s.shows("(yes/n)")
	s.press("yes\r")
	s.shows("done: KILL 101 messages")
	want := `RELEASE THREAD smtp busy.example.net; REROUTE THREAD smtp busy.example.net smtp relay; KILL WHERE reason="deferred on request"`
	if got := strings.Join(r.orders(), "; "); got != want {
		t.Errorf("gave %s\nwant %s", got, want)
	}
	r.mu.Lock()
	r.would = "-ERR; nothing in the queue matches"
	r.mu.Unlock()
	s.press("t")
	s.shows("RETRY: nothing in the queue matches")
	s.press("2")
	s.shows("MAXRING")
	s.press("h")
	s.shows("nothing to hold here")
}

// An order whose answer is lost is not given again: the scheduler may have carried it out.
func TestNoOrderIsGivenTwice(t *testing.T) {
	r := &recorded{t: t, would: `+OK; {"messages":1,"recipients":1,"threads":1}`, breaks: true}
	s := start(t, r, 110, 24)
	s.shows("smtp/busy")
	s.press("K\r")
	s.shows("(y/n)")
	s.press("y\r")
	s.shows("KILL: here closed the connection")
	s.press(" ")
	s.press("2")
	s.shows("MAXRING")
	if got := r.orders(); len(got) != 1 {
		t.Errorf("gave %q", got)
	}
}

// The last answer stays on the screen while the server does not answer, and a line says why.
func TestErrorsAreShown(t *testing.T) {
	r := &recorded{t: t}
	s := start(t, r, 110, 24)
	s.shows("smtp/busy")
	r.mu.Lock()
	r.fail = &client.Error{Kind: client.Unavailable, Err: errors.New("here: connection refused")}
	r.mu.Unlock()
	s.press(" ")
	s.shows("! no answer for 0s: here: connection refused")
	if !strings.Contains(s.now, "smtp/busy") {
		t.Errorf("the last answer is gone:\n%s", s.now)
	}
	r.mu.Lock()
	r.fail = nil
	r.mu.Unlock()
	s.press("2")
	s.shows("MAXRING")
	if strings.Contains(s.now, "!") {
		t.Errorf("the error stays:\n%s", s.now)
	}
}
