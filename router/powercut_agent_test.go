package router

// The agents of the simulated power cuts.

import (
	"fmt"
	"path"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/ta"
)

// modelAgent is an agent of the real protocol in a goroutine.
type modelAgent struct {
	*daemontest.InProcess
	machine *machine
	channel string
}

func (m *machine) startAgent(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agents++
	a := &modelAgent{machine: m, channel: spec.Args[1]}
	m.started = append(m.started, a)
	s := &ta.Server{
		Name: "agent", PID: ctlfile.MaxPID + m.agents, Channel: a.channel, Dir: m.office + "/transport", SenderOwned: true,
		Deliver: a.deliver,
	}
	a.InProcess = daemontest.NewInProcess(s, sink)
	if a.channel == "local" {
		s.Marking = ta.SchedulerMarks
	}
	if m.deliver != nil {
		s.Deliver = func(msg *ta.Message) { m.deliver(a.channel, msg) }
	}
	m.all.Go(func() { a.Serve(s) })
	return a, nil
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
