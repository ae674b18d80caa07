package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// The test binary is the helper process, an agent: see process_test.go.
func TestMain(m *testing.M) {
	if part := os.Getenv("HELPER"); part != "" {
		syscall.Exit(runHelper(part)) // os.Exit would write coverage data, or a warning, to stderr
	}
	os.Exit(m.Run())
}

// quick spares the helper processes the second that the race detector takes to end.
const quick = "GORACE=atexit_sleep_ms=0"

// agent is a started child and the events of it.
type agent struct {
	*Agent
	t      *testing.T
	events chan []Event
	seen   []Event // received, and not yet returned by next
	most   int     // events of the largest batch
}

// begin starts the test binary in a part. When the test ends it checks that
// the child is gone and that it left no goroutine.
func begin(t *testing.T, part string, change ...func(*Spec)) *agent {
	t.Helper()
	spec := Spec{
		Path: "/proc/self/exe", Args: []string{"agent"}, Env: []string{"HELPER=" + part, quick},
		UID: -1, GID: -1,
	}
	for _, f := range change {
		f(&spec)
	}
	before := runtime.NumGoroutine()
	a := &agent{t: t, events: make(chan []Event)}
	c, err := Start(spec, func(b []Event) { a.events <- b })
	if err != nil {
		t.Fatal(err)
	}
	a.Agent = c
	t.Cleanup(func() {
		c.Signal(unix.SIGKILL)
		a.exited()
		for end := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines are left:\n%s", runtime.NumGoroutine()-before, stacks())
			}
		}
	})
	return a
}

func stacks() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}

// next is the next event; after Exited it is Exited again.
func (a *agent) next() Event {
	a.t.Helper()
	for len(a.seen) == 0 {
		select {
		case batch := <-a.events:
			a.seen = batch
			a.most = max(a.most, len(batch))
		case <-time.After(2 * time.Minute):
			a.t.Fatalf("agent is silent:\n%s", stacks())
		}
	}
	h := a.seen[0]
	if _, last := h.(Exited); last {
		if len(a.seen) > 1 {
			a.t.Errorf("heard %v after Exited", a.seen[1:])
		}
		return h
	}
	a.seen = a.seen[1:]
	return h
}

// exited skips everything up to the end.
func (a *agent) exited() Exited {
	a.t.Helper()
	for {
		if e, ok := a.next().(Exited); ok {
			return e
		}
	}
}

// rest is all lines of both streams up to the end.
func (a *agent) rest() (said []ta.Line, stderr []string, end Exited) {
	a.t.Helper()
	for {
		switch h := a.next().(type) {
		case Line:
			said = append(said, ta.Line(h))
		case Stderr:
			stderr = append(stderr, string(h))
		case Exited:
			return said, stderr, h
		}
	}
}

func (a *agent) expectLine(want ta.Line) {
	a.t.Helper()
	h, ok := a.next().(Line)
	if !ok || ta.Line(h) != want {
		a.t.Fatalf("heard %#v, want %#v", h, want)
	}
}

func (a *agent) send(s string) {
	a.t.Helper()
	if err := a.Send([]byte(s)); err != nil {
		a.t.Fatal(err)
	}
}

var hungry = ta.Line{Kind: ta.Hungry}

func TestPoliteAgentWorksAndLeaves(t *testing.T) {
	a := begin(t, "polite")
	a.expectLine(hungry)
	a.send("B/I/15582\texample.net\n")
	a.expectLine(ta.Line{Kind: ta.Reported, Report: ta.Report{
		Message: 15582, Offset: 109, Status: ta.OK, Text: "example.net"}})
	a.expectLine(hungry)
	a.send("#idle\n")
	a.expectLine(hungry)
	a.send("\n")
	a.CloseWrite()
	if e := a.exited(); e != (Exited{Status: "exit status 0", Clean: true}) {
		t.Errorf("exited with %+v", e)
	}
}

func TestMuteAgentLeavesAtEndOfFile(t *testing.T) {
	a := begin(t, "mute")
	a.CloseWrite()
	a.CloseWrite()
	if err := a.Send([]byte("1\n")); err != ErrClosed {
		t.Errorf("Send after CloseWrite: %v", err)
	}
	said, stderr, e := a.rest()
	if len(said)+len(stderr) > 0 || !e.Clean {
		t.Errorf("heard %v %q %+v", said, stderr, e)
	}
}

func TestGarblingAgentIsHeardToTheEnd(t *testing.T) {
	a := begin(t, "garbling")
	said, _, _ := a.rest()
	var got []string
	for _, s := range said {
		got = append(got, fmt.Sprint(s.Kind, " ", len(s.Text), " ", s.Reason))
	}
	want := []string{
		fmt.Sprint(ta.Comment, " 0 "),
		fmt.Sprint(ta.Malformed, " 3 no slash after the message number"),
		fmt.Sprint(ta.Malformed, " 15 unknown status word"),
		fmt.Sprint(ta.Malformed, " 200 line is too long"),
		fmt.Sprint(ta.Hungry, " 0 "),
		fmt.Sprint(ta.Malformed, " 13 agent exited within a line"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("heard\n%q, want\n%q", got, want)
	}
}

// The old scheduler lost what an agent had written when its death was noticed
// first; unread input makes the kernel reset the connection besides.
func TestDyingAgentIsReadToTheEnd(t *testing.T) {
	a := begin(t, "dying")
	a.expectLine(hungry)
	a.send(strings.Repeat("1\texample.net\n", 1000)) // more than one read takes
	said, _, e := a.rest()
	if len(said) != 4096 || e.Status != "signal: killed" || e.Clean {
		t.Fatalf("heard %d lines, then %+v", len(said), e)
	}
	for i, s := range said {
		if s.Report.Offset != int64(i) {
			t.Fatalf("line %d is about %d", i, s.Report.Offset)
		}
	}
}

// One agent that talks without end must not keep the loop from the others.
func TestBatchesAreBounded(t *testing.T) {
	a := begin(t, "flooding")
	said, _, e := a.rest()
	if len(said) != 4096 || !e.Clean {
		t.Errorf("heard %d lines, then %+v", len(said), e)
	}
	if a.most > maxBatch {
		t.Errorf("a batch of %d", a.most)
	}
}

// What is late to be read is read all the same, however long after the exit.
func TestSlowSinkLosesNothing(t *testing.T) {
	a := begin(t, "flooding", func(s *Spec) { s.Grace = 1 })
	for !a.gone() { // the sink is blocked, the socket full of lines
		runtime.Gosched()
	}
	if said, _, _ := a.rest(); len(said) != 4096 {
		t.Errorf("heard %d lines of 4096", len(said))
	}
}

func (a *agent) gone() bool {
	select {
	case <-a.reaped:
		return true
	default:
		return false
	}
}

// A tail of 2048 bytes at a pause made the old scheduler drop the agent.
func TestTailOfPowerOfTwo(t *testing.T) {
	for _, n := range []int{1023, 1024, 2047, 2048, 3072, 4095, 4096, 8192, ta.MaxLine - 1} {
		a := begin(t, "pausing", func(s *Spec) { s.Env = append(s.Env, "TAIL="+strconv.Itoa(n)) })
		if h := a.next(); h != Stderr("paused") {
			t.Fatalf("heard %v", h)
		}
		a.send("go on\n")
		said, _, e := a.rest()
		if len(said) != 1 || len(said[0].Text) != n+1 || !e.Clean {
			t.Errorf("tail of %d: heard %d lines, then %+v", n, len(said), e)
		}
	}
}

func TestExitStatusIsKept(t *testing.T) {
	for part, want := range map[string]Exited{
		"exit 0":     {Status: "exit status 0", Clean: true},
		"exit 1":     {Status: "exit status 1"},
		"exit 70":    {Status: "exit status 70"},
		"signal 15":  {Status: "signal: terminated"},
		"signal 9":   {Status: "signal: killed"},
		"eof exit 3": {Status: "exit status 3"}, // its socket ends well before it
	} {
		a := begin(t, part)
		a.CloseWrite()
		if e := a.exited(); e != want {
			t.Errorf("%s: %+v, want %+v", part, e, want)
		}
	}
}

func TestAgentThatReadsNothingIsAskedWithoutWaiting(t *testing.T) {
	a := begin(t, "deaf")
	a.expectLine(hungry)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	var err error
	sent := 0
	for ; err == nil && sent < 64<<20; sent += len(line) {
		err = a.Send(line)
	}
	if err != ErrBacklog || sent < MaxPending {
		t.Fatalf("after %d bytes: %v", sent, err)
	}
	if err := a.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := a.exited(); e.Status != "signal: terminated" {
		t.Errorf("exited with %+v", e)
	}
	if err := a.Send(line); err != ErrClosed {
		t.Errorf("Send to the dead: %v", err)
	}
	if err := a.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal to the dead: %v", err)
	}
	a.CloseWrite()
}

// What the socket does not take at once arrives later, in order, and the end
// of file after it.
func TestBacklogArrivesInOrder(t *testing.T) {
	a := begin(t, "late")
	a.expectLine(hungry)
	var want int
	for ; !a.backlogged() || want < 5000; want++ {
		a.send(fmt.Sprintf("%d\t%s\n", want+1, strings.Repeat("h", 60)))
	}
	a.CloseWrite()
	if err := a.Signal(unix.SIGUSR1); err != nil { // now it reads
		t.Fatal(err)
	}
	said, _, e := a.rest()
	if len(said) != want || !e.Clean {
		t.Fatalf("%d lines of %d came back, then %+v", len(said), want, e)
	}
	for i, s := range said {
		if s.Report.Message != uint64(i+1) {
			t.Fatalf("line %d is about %d", i, s.Report.Message)
		}
	}
}

func (a *agent) backlogged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining
}

// A grandchild that keeps the socket must not keep the slot.
func TestGrandchildMayHoldTheSocketForTheGrace(t *testing.T) {
	hold := filepath.Join(t.TempDir(), "hold")
	if err := unix.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	a := begin(t, "leaking", func(s *Spec) {
		s.Env = append(s.Env, "HOLD="+hold)
		s.Grace = 2 * time.Second // what was written before is read meanwhile
	})
	said, _, e := a.rest()
	if len(said) != 1 || said[0].Report.Message != 7 || e.Status != "exit status 5 (a descendant held its socket)" {
		t.Errorf("heard %v, then %+v", said, e)
	}
	// The grandchild waits for a writer; this one lets it go.
	f, err := os.OpenFile(hold, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// A grandchild that only keeps standard error is not worth a word.
func TestAgentThatClosesItsSocketIsKilledAfterTheGrace(t *testing.T) {
	a := begin(t, "hanging", func(s *Spec) { s.Grace = 50 * time.Millisecond })
	said, _, e := a.rest()
	if len(said) != 1 || e.Status != "signal: killed (it had closed its socket and did not leave)" {
		t.Errorf("heard %v, then %+v", said, e)
	}
}

func TestStderrComesInLines(t *testing.T) {
	a := begin(t, "complaining")
	said, stderr, _ := a.rest()
	want := []string{"# hash", "", strings.Repeat("e", maxStderr), "a\tb", "no end of line"}
	if len(said) > 0 || !slices.Equal(stderr, want) {
		t.Errorf("heard %v, %.100q", said, stderr)
	}
}

func BenchmarkFeedAndReport(b *testing.B) {
	heard := make(chan []Event, 16)
	c, err := Start(Spec{Path: "/proc/self/exe", Args: []string{"agent"},
		Env: []string{"HELPER=polite"}, UID: -1, GID: -1},
		func(batch []Event) { heard <- batch })
	if err != nil {
		b.Fatal(err)
	}
	line := []byte("B/I/15582\texample.net\n")
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Send(line); err != nil {
			b.Fatal(err)
		}
		for hungry := false; !hungry; {
			for _, h := range <-heard {
				said, ok := h.(Line)
				hungry = hungry || ok && said.Kind == ta.Hungry
			}
		}
	}
	c.CloseWrite()
	for done := false; !done; {
		batch := <-heard
		_, done = batch[len(batch)-1].(Exited)
	}
}
