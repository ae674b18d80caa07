package router

// The agents of the simulated power cuts.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/ta"
)

// modelAgent is an agent of the real protocol in a goroutine.
type modelAgent struct {
	machine *machine
	pid     int
	channel string
	sink    func([]child.Event)

	mu     sync.Mutex
	more   sync.Cond
	unread bytes.Buffer
	eof    bool
}

func (m *machine) startAgent(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agents++
	a := &modelAgent{machine: m, pid: ctlfile.MaxPID + m.agents, channel: spec.Args[1], sink: sink}
	a.more.L = &a.mu
	m.started = append(m.started, a)
	s := &ta.Server{
		Name: "agent", PID: a.pid, Channel: a.channel, Dir: m.office + "/transport", SenderOwned: true,
		In: a, Out: (*agentOutput)(a), Err: io.Discard, Deliver: a.deliver,
	}
	if a.channel == "local" {
		s.Marking = ta.SchedulerMarks
	}
	if m.deliver != nil {
		s.Deliver = func(msg *ta.Message) { m.deliver(a.channel, msg) }
	}
	m.all.Go(func() {
		_ = s.Serve(context.Background())
		sink([]child.Event{child.Exited{Status: "exit status 0", Clean: true}})
	})
	return a, nil
}

func (a *modelAgent) PID() int { return a.pid }

func (a *modelAgent) Send(b []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread.Write(b)
	a.more.Signal()
	return nil
}

func (a *modelAgent) CloseWrite() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eof = true
	a.more.Signal()
}

func (a *modelAgent) Signal(syscall.Signal) error {
	a.CloseWrite()
	return nil
}

// Read reads job lines.
func (a *modelAgent) Read(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.unread.Len() == 0 && !a.eof {
		a.more.Wait()
	}
	return a.unread.Read(b)
}

// agentOutput is what an agent writes.
type agentOutput modelAgent

func (o *agentOutput) Write(b []byte) (int, error) {
	var events []child.Event
	for line := range bytes.Lines(b) {
		events = append(events, child.Line(ta.ParseLine(bytes.TrimSuffix(line, []byte("\n")))))
	}
	o.sink(events)
	return len(b), nil
}

// deliver does with the recipients of a message what the ledger says.
func (a *modelAgent) deliver(msg *ta.Message) {
	m := a.machine
	text, err := a.read(msg)
	for i := range msg.Recipients {
		r := &msg.Recipients[i]
		if off, _ := m.disk.IsOff(); off || err != nil {
			r.Report(ta.Result{Status: ta.Deferred, Text: "the message cannot be read"})
			continue
		}
		if strings.HasPrefix(r.User, "sender") {
			m.ledger.Notice(r.User, text)
			m.disk.Trace(fmt.Sprintf("NOTICE to %s delivered from %s", r.User, msg.Job.Path))
			r.Report(ta.Result{Status: ta.OK, Text: "delivered"})
			continue
		}
		fate := m.ledger.Attempt(r.User)
		m.disk.Trace(fmt.Sprintf("ATTEMPT %d for %s from %s", fate, r.User, msg.Job.Path))
		switch fate {
		case ledger.Delivers:
			m.ledger.Deliver(r.User, text, m.life, m.mayDouble)
			r.Report(ta.Result{Status: ta.OK, Text: "delivered"})
		case ledger.Fails:
			r.Report(ta.Result{Status: ta.Error, Fields: ta.Fields{Code: "5.1.1", Diagnostic: "smtp; 550 no such user"}, Text: "no such user"})
		default:
			r.Report(ta.Result{Status: ta.Deferred, Fields: ta.Fields{Code: "4.2.0", Diagnostic: "smtp; 450 later"}, Text: "later"})
		}
	}
}

// mayDouble says why a recipient may be delivered again in this life of the machine.
// Calls may have failed in it if faults is set.
func (m *machine) mayDouble(e *ledger.Entry) string {
	switch {
	case e.Resent:
		return "recipient sent elsewhere by an order"
	case e.Delivered[len(e.Delivered)-1] != m.life:
		return "recipient delivered before the cut"
	case m.faults:
		return "recipient whose tag could not be written"
	}
	return ""
}

// read returns the message file of a message.
func (a *modelAgent) read(msg *ta.Message) (string, error) {
	file := path.Join(a.machine.office, "queue", msg.Job.Path)
	text, err := postoffice.ReadFile(postoffice.WorkingDir, file, 1<<20)
	return string(text), err
}
