package daemontest

// Real agents in this process.

import (
	"bytes"
	"context"
	"io"
	"sync"
	"syscall"

	child "zsched/scheduler/agent"
	"zsched/ta"
)

// InProcess is an agent of the real protocol in a goroutine: a daemon.Agent. A signal ends it as
// the end of its input does.
type InProcess struct {
	pid  int
	sink func([]child.Event)

	mu     sync.Mutex
	more   sync.Cond
	unread bytes.Buffer
	eof    bool
	left   bool // the scheduler has exited
}

// NewInProcess connects an agent to the scheduler, which its events go to. s.PID must be set.
// The caller runs it with Serve.
func NewInProcess(s *ta.Server, sink func([]child.Event)) *InProcess {
	a := &InProcess{pid: s.PID, sink: sink}
	a.more.L = &a.mu
	s.In, s.Out, s.Err = a, a, io.Discard
	return a
}

// Serve runs the agent until its input ends.
func (a *InProcess) Serve(s *ta.Server) {
	_ = s.Serve(context.Background())
	a.sink([]child.Event{child.Exited{Status: "exit status 0", Clean: true}})
}

func (a *InProcess) PID() int { return a.pid }

func (a *InProcess) Send(b []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread.Write(b)
	a.more.Signal()
	return nil
}

func (a *InProcess) CloseWrite() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eof = true
	a.more.Signal()
}

// Leave ends input and output, as when the scheduler has exited.
func (a *InProcess) Leave() {
	a.CloseWrite()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
}

func (a *InProcess) Signal(syscall.Signal) error {
	a.CloseWrite()
	return nil
}

// Read reads job lines.
func (a *InProcess) Read(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.unread.Len() == 0 && !a.eof {
		a.more.Wait()
	}
	return a.unread.Read(b)
}

// Write takes what the agent says.
func (a *InProcess) Write(b []byte) (int, error) {
	a.mu.Lock()
	left := a.left
	a.mu.Unlock()
	if left {
		return 0, syscall.EPIPE
	}
	var events []child.Event
	for line := range bytes.Lines(b) {
		events = append(events, child.Line(ta.ParseLine(bytes.TrimSuffix(line, []byte("\n")))))
	}
	a.sink(events)
	return len(b), nil
}
