package daemon

// Agents: start, job lines, #idle, close, signals.

import (
	"syscall"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/ta"
)

// agent is a started agent as the loop knows it. Until its process exists, child
// is nil, and output and signals wait here.
type agent struct {
	id      scheduler.AgentID
	log     zerolog.Logger // names its channel, its first host and, once there is one, its pid
	limit   *outputLimit   // of what is logged about it
	child   Agent
	output  []byte           // written to it at the end of the turn
	eof     bool             // its input is closed after that
	signals []syscall.Signal // sent after that
	queued  bool             // it is in agents.unsent
}

// agents are the started agents, and what is to be written to them.
type agents struct {
	daemon  *Daemon
	options AgentOptions
	loop    *Loop
	byID    map[scheduler.AgentID]*agent
	unsent  []*agent // those with output or signals for the end of the turn
}

func newAgents(d *Daemon) agents {
	return agents{daemon: d, options: d.options.Agents, loop: &d.loop, byID: make(map[scheduler.AgentID]*agent)}
}

// starting counts the agents whose process does not exist yet.
func (all *agents) starting() int {
	n := 0
	for _, a := range all.byID {
		if a.child == nil {
			n++
		}
	}
	return n
}

// agentStart is the result of starting an agent.
type agentStart struct {
	agent scheduler.AgentID
	child Agent
	err   error
	log   zerolog.Logger
	known chan struct{} // closed when the loop has told the core
}

// start starts an agent without waiting for fork and exec, which take about a
// millisecond.
func (all *agents) start(a scheduler.Start) {
	jobLog := all.loop.log.With().Str("channel", a.Channel).Logger()
	log := jobLog
	if a.Host != "" {
		log = log.With().Str("host", a.Host).Logger()
	}
	limit := newOutputLimit()
	all.byID[a.Agent] = &agent{id: a.Agent, log: log, limit: limit}
	var env map[string]string
	if all.options.Env != nil {
		env = all.options.Env()
	}
	path, args, environ, err := child.Command(a.Command, all.options.Mailbin, env)
	if err != nil {
		delete(all.byID, a.Agent)
		all.loop.queue(scheduler.AgentFailed{Agent: a.Agent, Reason: err.Error()})
		return
	}
	spec := child.Spec{
		Path: path, Args: args, Env: environ, Dir: all.options.Dir,
		UID: a.UID, GID: a.GID, FileGroup: all.options.FileGroup,
		Nice: a.Nice, Priority: a.Priority, PrioritySet: a.PrioritySet,
		NoFile: all.options.NoFile,
	}
	l := &listener{daemon: all.daemon, agent: a.Agent, limit: limit, log: log, jobLog: jobLog}
	go all.startOutside(l, spec)
}

// startOutside starts an agent outside the loop.
func (all *agents) startOutside(l *listener, spec child.Spec) {
	known := make(chan struct{})
	l.known = known
	s := agentStart{agent: l.agent, known: known}
	s.child, s.err = all.options.Start(spec, l.hear)
	if s.err == nil {
		s.log = l.log.With().Int("pid", s.child.PID()).Logger()
		// They are read by hear after known is closed.
		l.log, l.jobLog = s.log, l.jobLog.With().Int("pid", s.child.PID()).Logger()
	}
	select {
	case all.daemon.started <- s:
	case <-all.daemon.stopped:
		if s.err == nil { // otherwise it would keep running unnoticed
			_ = s.child.Signal(syscall.SIGKILL)
		}
	}
}

// started tells the core how a start ended, before the core hears anything from
// the agent.
func (all *agents) started(s agentStart) {
	a := all.byID[s.agent]
	if s.err != nil {
		delete(all.byID, s.agent)
		all.loop.Step(scheduler.AgentFailed{Agent: s.agent, Reason: s.err.Error()})
	} else {
		a.child, a.log = s.child, s.log
		all.loop.Step(scheduler.AgentStarted{Agent: s.agent, PID: s.child.PID()})
		all.queue(a)
	}
	close(s.known)
}

// feed gives an agent a job line.
func (all *agents) feed(f *scheduler.Feed) {
	if a := all.byID[f.Agent]; a != nil {
		a.output = ta.AppendJobLine(a.output, f.Job)
		all.queue(a)
	}
}

func (all *agents) send(id scheduler.AgentID, line string) {
	if a := all.byID[id]; a != nil {
		a.output = append(a.output, line...)
		all.queue(a)
	}
}

// close asks an agent to exit. Old agents need the empty line.
func (all *agents) close(c scheduler.Close) {
	a := all.byID[c.Agent]
	if a == nil {
		return
	}
	a.output = append(a.output, '\n')
	a.eof = true
	all.queue(a)
}

func (all *agents) kill(k scheduler.Kill) {
	sig := syscall.SIGTERM
	if k.Hard {
		sig = syscall.SIGKILL
	}
	if a := all.byID[k.Agent]; a != nil {
		a.signals = append(a.signals, sig)
		all.queue(a)
	}
}

// killAll kills every agent at the end of this turn, without its output.
func (all *agents) killAll() {
	for _, a := range all.byID {
		a.output, a.signals = nil, append(a.signals, syscall.SIGKILL)
		all.queue(a)
	}
}

func (all *agents) queue(a *agent) {
	if !a.queued {
		a.queued = true
		all.unsent = append(all.unsent, a)
	}
}

// flush sends each agent its output of this turn, in one write, and its signals.
func (all *agents) flush() {
	for _, a := range all.unsent {
		a.queued = false
		if a.child != nil {
			a.flush()
		}
	}
	clear(all.unsent)
	all.unsent = all.unsent[:0]
}

func (a *agent) flush() {
	if len(a.output) > 0 {
		// If the agent is gone or does not read, its exit or its timeout
		// follows.
		if err := a.child.Send(a.output); err != nil {
			a.log.Debug().Err(err).Msg("agent does not read its input")
		}
		a.output = a.output[:0]
	}
	if a.eof {
		a.child.CloseWrite()
		a.eof = false
	}
	for _, sig := range a.signals {
		if err := a.child.Signal(sig); err != nil {
			a.log.Debug().Err(err).Stringer("signal", sig).Msg("agent not signalled")
		}
	}
	a.signals = a.signals[:0]
}
