package daemon

import (
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	"zsched/ta"
	"zsched/ta/child"
)

// agent is a started agent as the loop has it. Before its process exists,
// child is nil and what is meant for it waits here.
type agent struct {
	id     scheduler.AgentID
	log    zerolog.Logger // names its channel and, once there is one, its pid
	child  Agent
	coming []byte           // what it gets at the end of the turn
	last   bool             // close its input after that
	after  []syscall.Signal // and then send these
	queued bool             // it is in Daemon.unsent
}

// heard is what an agent said, as events. At most turnLimit come at once, so
// that no agent holds up the others.
type heard struct {
	agent  scheduler.AgentID
	events []scheduler.Event
	exited bool // the last event is its exit
}

// started is how the start of an agent ended.
type started struct {
	agent scheduler.AgentID
	child Agent
	err   error
	log   zerolog.Logger
	known chan struct{} // closed when the loop has told the core
}

// start starts an agent without waiting for fork and exec, which take about a
// millisecond.
func (d *Daemon) start(a scheduler.Start) {
	context := d.Log.With().Str("channel", a.Channel)
	if a.Host != "" {
		context = context.Str("host", a.Host)
	}
	log := context.Logger()
	d.agents[a.Agent] = &agent{id: a.Agent, log: log}
	path, args, environ, err := child.Command(a.Command, d.Mailbin, d.Env)
	if err != nil {
		delete(d.agents, a.Agent)
		d.then(scheduler.AgentFailed{Agent: a.Agent, Reason: err.Error()})
		return
	}
	spec := child.Spec{
		Path: path, Args: args, Env: environ, Dir: d.Dir,
		UID: a.UID, GID: a.GID,
		Nice: a.Nice, Priority: a.Priority, PrioritySet: a.PrioritySet,
		NoFile: d.NoFile,
	}
	go d.startOutside(a.Agent, spec, log)
}

// startOutside runs outside of the loop.
func (d *Daemon) startOutside(id scheduler.AgentID, spec child.Spec, log zerolog.Logger) {
	s := started{agent: id, log: log, known: make(chan struct{})}
	listener := &listener{daemon: d, agent: id, program: spec.Path, user: spec.UID, known: s.known}
	s.child, s.err = d.Start(spec, listener.hear)
	if s.err == nil {
		s.log = log.With().Int("pid", s.child.PID()).Logger()
		listener.log = s.log // it looks after known is closed
	}
	select {
	case d.starts <- s:
	case <-d.left:
		if s.err == nil { // it would stay, and nobody would know of it
			_ = s.child.Signal(syscall.SIGKILL)
		}
	}
}

// agentStarted is told before anything the agent says.
func (d *Daemon) agentStarted(s started) {
	a := d.agents[s.agent]
	if s.err != nil {
		delete(d.agents, s.agent)
		d.tally.starts++
		d.step(scheduler.AgentFailed{Agent: s.agent, Reason: s.err.Error()})
	} else {
		a.child, a.log = s.child, s.log
		d.step(scheduler.AgentStarted{Agent: s.agent, PID: s.child.PID()})
		d.queueAgent(a)
	}
	close(s.known)
}

// listener hears one agent. Its methods run in the child's goroutine.
type listener struct {
	daemon  *Daemon
	agent   scheduler.AgentID
	program string
	user    int
	log     zerolog.Logger
	known   <-chan struct{}
}

// hear makes events of what the agent said. It waits when the loop is behind,
// and the agent with it.
func (l *listener) hear(all []child.Heard) {
	select {
	case <-l.known:
	case <-l.daemon.left:
		return
	}
	for len(all) > 0 {
		batch := all[:min(turnLimit, len(all))]
		all = all[len(batch):]
		h := heard{agent: l.agent, events: make([]scheduler.Event, 0, len(batch))}
		for _, said := range batch {
			if e := l.event(said); e != nil {
				h.events = append(h.events, e)
			}
			_, exited := said.(child.Exited)
			h.exited = h.exited || exited
		}
		select {
		case l.daemon.heard <- h:
		case <-l.daemon.left:
			return
		}
	}
}

// event returns what the core is told of it, nil for nothing.
func (l *listener) event(said child.Heard) scheduler.Event {
	switch said := said.(type) {
	case child.Said:
		return l.line(ta.Said(said))
	case child.Stderr:
		l.log.Warn().Str("stderr", string(said)).Msg("agent said")
		return scheduler.AgentSpoke{Agent: l.agent}
	case child.Unlimited:
		if l.daemon.restraint.first(l.program, l.user) {
			l.log.Warn().Str("program", l.program).Int("user", l.user).Str("reason", string(said)).
				Msg("agent may open more files than option -N says")
		}
	case child.Exited:
		return scheduler.AgentExited{Agent: l.agent, Status: said.Status}
	}
	return nil
}

func (l *listener) line(said ta.Said) scheduler.Event {
	switch said.Kind {
	case ta.Hungry:
		return scheduler.AgentHungry{Agent: l.agent}
	case ta.Reported:
		return scheduler.AgentReported{Agent: l.agent, Report: said.Report}
	case ta.Resync:
		if id, ok := messageOf(said.Path); ok {
			l.log.Info().Str("file", said.Path).Msg("agent found nothing to do")
			return scheduler.AgentResync{Agent: l.agent, Message: id}
		}
		l.log.Warn().Str("file", said.Path).Msg("agent resyncs what is no control file")
	case ta.Comment:
		l.log.Info().Str("line", strings.TrimPrefix(said.Text, "# ")).Msg("agent said")
	default:
		l.log.Warn().Str("line", said.Text).Str("reason", said.Reason).Msg("garbled line from agent")
	}
	return scheduler.AgentSpoke{Agent: l.agent}
}

// feedAgent gives an agent a job line.
func (d *Daemon) feedAgent(f scheduler.Feed) {
	if a := d.agents[f.Agent]; a != nil {
		a.coming = ta.AppendJob(a.coming, f.Job)
		d.queueAgent(a)
	}
}

func (d *Daemon) send(id scheduler.AgentID, line string) {
	if a := d.agents[id]; a != nil {
		a.coming = append(a.coming, line...)
		d.queueAgent(a)
	}
}

// closeAgent asks an agent to leave: old agents need the empty line.
func (d *Daemon) closeAgent(c scheduler.Close) {
	a := d.agents[c.Agent]
	if a == nil {
		return
	}
	a.coming = append(a.coming, '\n')
	a.last = true
	d.queueAgent(a)
}

func (d *Daemon) signalAgent(id scheduler.AgentID, sig syscall.Signal) {
	if a := d.agents[id]; a != nil {
		a.after = append(a.after, sig)
		d.queueAgent(a)
	}
}

func (d *Daemon) queueAgent(a *agent) {
	if !a.queued {
		a.queued = true
		d.unsent = append(d.unsent, a)
	}
}

// flush gives each agent what this turn brought for it, in one write.
func (d *Daemon) flush() {
	for _, a := range d.unsent {
		a.queued = false
		if a.child != nil {
			d.flushAgent(a)
		}
	}
	clear(d.unsent)
	d.unsent = d.unsent[:0]
}

func (d *Daemon) flushAgent(a *agent) {
	if len(a.coming) > 0 {
		// An agent that is gone or does not read: its exit, or the core's
		// watch, will tell.
		if err := a.child.Send(a.coming); err != nil {
			a.log.Debug().Err(err).Msg("agent takes nothing")
		}
		a.coming = a.coming[:0]
	}
	if a.last {
		a.child.CloseWrite()
		a.last = false
	}
	for _, sig := range a.after {
		if err := a.child.Signal(sig); err != nil {
			a.log.Debug().Err(err).Stringer("signal", sig).Msg("agent not signalled")
		}
	}
	a.after = a.after[:0]
}
