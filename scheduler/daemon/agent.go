package daemon

import (
	"strings"
	"sync"
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
	queued bool             // it is in agents.unsent
}

// agents are the started agents, and what is to be written to them.
type agents struct {
	daemon  *Daemon
	options AgentOptions
	loop    *Loop
	byID    map[scheduler.AgentID]*agent
	unsent  []*agent // those that something is to be written to at the end of the turn
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

// agentEvents is what an agent said, as events: at most maxBatch, so that no
// agent delays the others.
type agentEvents struct {
	agent  scheduler.AgentID
	events []scheduler.Event
	exited bool // the last event is its exit
}

// agentStart is how the start of an agent ended.
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
	context := all.loop.log.With().Str("channel", a.Channel)
	if a.Host != "" {
		context = context.Str("host", a.Host)
	}
	log := context.Logger()
	all.byID[a.Agent] = &agent{id: a.Agent, log: log}
	path, args, environ, err := child.Command(a.Command, all.options.Mailbin, all.options.Env)
	if err != nil {
		delete(all.byID, a.Agent)
		all.loop.queue(scheduler.AgentFailed{Agent: a.Agent, Reason: err.Error()})
		return
	}
	spec := child.Spec{
		Path: path, Args: args, Env: environ, Dir: all.options.Dir,
		UID: a.UID, GID: a.GID,
		Nice: a.Nice, Priority: a.Priority, PrioritySet: a.PrioritySet,
		NoFile: all.options.NoFile,
	}
	go all.startOutside(a.Agent, spec, log)
}

// startOutside runs outside of the loop.
func (all *agents) startOutside(id scheduler.AgentID, spec child.Spec, log zerolog.Logger) {
	s := agentStart{agent: id, log: log, known: make(chan struct{})}
	listener := &listener{daemon: all.daemon, agent: id, program: spec.Path, user: spec.UID, known: s.known}
	s.child, s.err = all.options.Start(spec, listener.hear)
	if s.err == nil {
		s.log = log.With().Int("pid", s.child.PID()).Logger()
		listener.log = s.log // it looks after known is closed
	}
	select {
	case all.daemon.started <- s:
	case <-all.daemon.stopped:
		if s.err == nil { // it would stay, and nobody would know of it
			_ = s.child.Signal(syscall.SIGKILL)
		}
	}
}

// agentStarted is told before anything the agent says.
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

// said tells the core what an agent said.
func (all *agents) said(said agentEvents) {
	for _, e := range said.events {
		all.loop.Step(e)
	}
	if said.exited {
		delete(all.byID, said.agent)
	}
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
func (l *listener) hear(all []child.Event) {
	select {
	case <-l.known:
	case <-l.daemon.stopped:
		return
	}
	for len(all) > 0 {
		batch := all[:min(maxBatch, len(all))]
		all = all[len(batch):]
		h := agentEvents{agent: l.agent, events: make([]scheduler.Event, 0, len(batch))}
		for _, said := range batch {
			if e := l.event(said); e != nil {
				h.events = append(h.events, e)
			}
			_, exited := said.(child.Exited)
			h.exited = h.exited || exited
		}
		select {
		case l.daemon.agentSaid <- h:
		case <-l.daemon.stopped:
			return
		}
	}
}

// event returns what the core is told of it, nil for nothing.
func (l *listener) event(said child.Event) scheduler.Event {
	switch said := said.(type) {
	case child.Line:
		return l.line(ta.Line(said))
	case child.Stderr:
		l.log.Warn().Str("stderr", string(said)).Msg("agent said")
		return scheduler.AgentSpoke{Agent: l.agent}
	case child.Unlimited:
		if l.daemon.once.first(l.program, l.user) {
			l.log.Warn().Str("program", l.program).Int("user", l.user).Str("reason", string(said)).
				Msg("agent may open more files than option -N says")
		}
	case child.Exited:
		return scheduler.AgentExited{Agent: l.agent, Status: said.Status}
	}
	return nil
}

func (l *listener) line(said ta.Line) scheduler.Event {
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
func (all *agents) feed(f scheduler.Feed) {
	if a := all.byID[f.Agent]; a != nil {
		a.coming = ta.AppendJob(a.coming, f.Job)
		all.queue(a)
	}
}

func (all *agents) send(id scheduler.AgentID, line string) {
	if a := all.byID[id]; a != nil {
		a.coming = append(a.coming, line...)
		all.queue(a)
	}
}

// closeAgent asks an agent to leave: old agents need the empty line.
func (all *agents) close(c scheduler.Close) {
	a := all.byID[c.Agent]
	if a == nil {
		return
	}
	a.coming = append(a.coming, '\n')
	a.last = true
	all.queue(a)
}

func (all *agents) kill(k scheduler.Kill) {
	sig := syscall.SIGTERM
	if k.Hard {
		sig = syscall.SIGKILL
	}
	if a := all.byID[k.Agent]; a != nil {
		a.after = append(a.after, sig)
		all.queue(a)
	}
}

func (all *agents) queue(a *agent) {
	if !a.queued {
		a.queued = true
		all.unsent = append(all.unsent, a)
	}
}

// flush gives each agent what this turn brought for it, in one write.
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

// oncePerProgram remembers what is logged once for a program and its user, whatever
// the hosts that its agents deliver to.
type oncePerProgram struct {
	mu     sync.Mutex
	logged map[programUser]struct{}
}

type programUser struct {
	program string
	user    int
}

// first says whether this is the first call for a program and its user.
func (o *oncePerProgram) first(program string, user int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := programUser{program, user}
	if _, ok := o.logged[key]; ok {
		return false
	}
	if o.logged == nil {
		o.logged = make(map[programUser]struct{})
	}
	o.logged[key] = struct{}{}
	return true
}
