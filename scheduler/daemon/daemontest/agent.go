package daemontest

// A fake agent, which speaks the protocol without a process.

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"zsched/ctlfile"
	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/ta"
)

// FakeAgent is an agent in a goroutine. The Harness decides what it does with a
// job line.
type FakeAgent struct {
	harness *Harness
	pid     int
	sink    func([]child.Event)

	mu      sync.Mutex
	unread  bytes.Buffer
	eof     bool
	status  string
	wake    chan struct{}
	signals []syscall.Signal
	deaf    bool // it ignores everything but SIGKILL
}

// Start starts a fake agent: daemon.Starter.
func (h *Harness) Start(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &FakeAgent{harness: h, pid: 1000 + len(h.agents), sink: sink, wake: make(chan struct{}, 1)}
	h.agents = append(h.agents, a)
	go a.live()
	return a, nil
}

func (a *FakeAgent) live() {
	defer func() {
		a.mu.Lock()
		status := a.status
		a.mu.Unlock()
		a.sink([]child.Event{child.Exited{Status: status, Clean: status == "exit status 0"}})
	}()
	a.Say(child.Line{Kind: ta.Hungry})
	for range a.wake {
		for {
			line, dead := a.next()
			if dead {
				return
			}
			if line == "" {
				break
			}
			if a.deaf {
				continue
			}
			if line != "#idle\n" {
				job, err := ta.ParseJobLine([]byte(strings.TrimSuffix(line, "\n")))
				if err != nil {
					a.harness.t.Errorf("agent was given %q: %v", line, err)
					continue
				}
				a.do(job)
				if a.dying() {
					return
				}
			}
			a.Say(child.Line{Kind: ta.Hungry})
		}
	}
}

// next returns a complete line, if there is one, and whether the agent ends now.
func (a *FakeAgent) next() (line string, dead bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != "" {
		return "", true
	}
	line, err := a.unread.ReadString('\n')
	if err != nil {
		a.unread.WriteString(line)
		line = ""
	}
	if !a.deaf && (line == "\n" || line == "" && a.eof) {
		a.status = "exit status 0"
		return "", true
	}
	return line, false
}

// dying reports whether the agent ends now.
func (a *FakeAgent) dying() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != ""
}

func (a *FakeAgent) do(job ta.JobLine) {
	if a.harness.Deliver != nil {
		a.harness.Deliver(a, job)
		return
	}
	a.ReportAll(job, ta.OK2, "delivered")
}

// ReportAll reports every open recipient of a job line in the same way, and
// tags those that are done, as agents do.
func (a *FakeAgent) ReportAll(job ta.JobLine, status ta.Status, text string) {
	s := a.harness.Spool
	s.Mu.Lock()
	f := s.Files[job.Path]
	var reports []child.Event
	for _, to := range f.Loaded.Recipients {
		if to.Host != job.Host || f.Tags[to.Offset] != ctlfile.Open {
			continue
		}
		switch status {
		case ta.OK2, ta.OK3:
			f.Tags[to.Offset] = ctlfile.Delivered
		case ta.Error2:
			f.Tags[to.Offset] = ctlfile.Failed
		}
		reports = append(reports, child.Line{Kind: ta.Reported, Report: ta.Report{
			Message: f.Loaded.Name.ID, Offset: to.Offset, Status: status, Text: text,
		}})
	}
	s.Mu.Unlock()
	a.Say(reports...)
}

// Deafen makes the agent ignore everything but SIGKILL.
func (a *FakeAgent) Deafen() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf = true
}

func (a *FakeAgent) Say(said ...child.Event) { a.sink(said) }

func (a *FakeAgent) notify() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Given returns what the agent has not read yet and the signals it got.
func (a *FakeAgent) Given() (lines, signals string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unread.String(), fmt.Sprint(a.signals)
}

func (a *FakeAgent) PID() int { return a.pid }

func (a *FakeAgent) Send(b []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread.Write(b)
	a.notify()
	return nil
}

func (a *FakeAgent) CloseWrite() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eof = true
	a.notify()
}

func (a *FakeAgent) Signal(sig syscall.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signals = append(a.signals, sig)
	if !a.deaf || sig == syscall.SIGKILL {
		a.status = fmt.Sprintf("signal: %v", sig)
	}
	a.notify()
	return nil
}
