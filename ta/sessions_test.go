package ta

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Sessions at work, and their end.

func TestSessionsWorkAtOnce(t *testing.T) {
	const n = 4
	o := newTestSpool(t)
	var told strings.Builder
	for i := range 5 * n {
		o.put(fmt.Sprint(i+1), rcpt("smtp", "a.example", "bob"))
		fmt.Fprintf(&told, "%d\ta.example\n", i+1)
	}
	var mu sync.Mutex
	together := make(chan struct{})
	busy, delivered := 0, map[uint64]int{}
	got := o.serve(&Server{Sessions: n, Deliver: func(m *Message) {
		mu.Lock()
		delivered[m.ID]++
		if busy++; busy == n {
			close(together) // none goes on before all are at work
		}
		mu.Unlock()
		<-together
		m.Recipients[0].Report(Result{Status: OK})
	}}, told.String())
	if len(delivered) != 5*n || strings.Count(got, "\t\tok3 \n") != 5*n || strings.Count(got, "#hungry\n") != n+5*n {
		t.Errorf("delivered %v: %q", delivered, got)
	}
	if !strings.HasPrefix(got, strings.Repeat("#hungry\n", n)) {
		t.Errorf("begins %q", got[:60])
	}
}

// scheduler is the other end of an agent's socket, for tests of when things
// are said.
type scheduler struct {
	to   chan string
	from chan string
	left string
}

func (c *scheduler) Read(b []byte) (int, error) {
	if c.left == "" {
		s, ok := <-c.to
		if !ok {
			return 0, io.EOF
		}
		c.left = s
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *scheduler) Write(b []byte) (int, error) {
	c.from <- string(b)
	return len(b), nil
}

// Job lines that come together are answered together; what was done before a
// slow delivery is told while that goes on.
func TestReportsGoInFewWritesAndAreNotHeldBack(t *testing.T) {
	o := newTestSpool(t)
	for _, name := range []string{"1", "2", "3"} {
		o.put(name, rcpt("smtp", "a.example", "bob"))
	}
	synctest.Test(t, func(t *testing.T) {
		c := &scheduler{to: make(chan string), from: make(chan string)}
		s := &Server{Channel: "smtp", Dir: o.transport(), In: c, Out: c, Deliver: func(m *Message) {
			if m.ID == 3 {
				time.Sleep(time.Hour)
			}
			m.Recipients[0].Report(Result{Status: OK})
		}}
		done := make(chan error)
		go func() { done <- s.Serve(t.Context()) }()
		expect(t, <-c.from, "#hungry\n")
		c.to <- "1\ta.example\n2\ta.example\n3\ta.example\n"
		began := time.Now()
		expect(t, <-c.from, "1/82\t\tok3 \n#hungry\n2/82\t\tok3 \n#hungry\n")
		if waited := time.Since(began); waited > outputDelay {
			t.Errorf("reports waited %v", waited)
		}
		expect(t, <-c.from, "3/82\t\tok3 \n#hungry\n")
		close(c.to)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestLeavesAfterTheMessageUnderWay(t *testing.T) {
	o := newTestSpool(t)
	for _, sessions := range []int{1, 2} {
		for _, name := range []string{"1", "2", "3"} {
			o.put(name, rcpt("smtp", "a.example", "bob"))
		}
		ctx, leave := context.WithCancel(context.Background())
		var out bytes.Buffer
		s := &Server{Channel: "smtp", Dir: o.transport(), Sessions: sessions, Out: &out,
			In: strings.NewReader("1\ta.example\n2\ta.example\n3\ta.example\n"),
			Deliver: func(m *Message) {
				leave()
				m.Recipients[0].Report(Result{Status: OK})
			}}
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "ok3"); n < 1 || n > sessions || !strings.HasSuffix(out.String(), "ok3 \n") {
			t.Errorf("sessions=%d: %q", sessions, out.String())
		}
	}
}

// The scheduler may be gone when there is something to report: the message is
// tagged all the same.
func TestSchedulerIsGone(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "bob"))
	o.put("2", rcpt("smtp", "a.example", "bob"))
	for _, sessions := range []int{1, 2} {
		s := &Server{Channel: "smtp", Dir: o.transport(), Sessions: sessions,
			In:      strings.NewReader(fmt.Sprintf("%d\ta.example\n", sessions)),
			Out:     writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe }),
			Deliver: with(Result{Status: OK})}
		if err := s.Serve(context.Background()); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("sessions=%d: error %v", sessions, err)
		}
	}
	broken := errors.New("broken")
	s := &Server{In: io.MultiReader(strings.NewReader("#idle\n"), errReader{broken}), Out: io.Discard}
	if err := s.Serve(context.Background()); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
