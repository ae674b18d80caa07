package daemon

// Output of agents: protocol lines become events; everything else goes to the
// log, up to a limit.

import (
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/text"
	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/ta"
)

// agentEvents is what an agent said, as events: at most maxBatch, so that no
// agent delays the others.
type agentEvents struct {
	agent   scheduler.AgentID
	events  []scheduler.Event
	resyncs []resync
	exited  bool // the last event is its exit
}

// resync is an AgentResync that is to be logged, by the loop: it knows the job's host.
type resync struct {
	message  scheduler.MessageID
	path     string
	unlogged int // lines of the agent before it that were not logged
}

// said tells the core what an agent said.
func (all *agents) said(said agentEvents) {
	for _, r := range said.resyncs {
		all.logResync(said.agent, r)
	}
	for _, e := range said.events {
		all.loop.Step(e)
	}
	if said.exited {
		delete(all.byID, said.agent)
	}
}

// logResync logs a resync with the host of the job. The host that is in the other lines
// about an agent is its first one.
func (all *agents) logResync(id scheduler.AgentID, r resync) {
	a := all.byID[id]
	if a == nil {
		return
	}
	line := a.jobLog.Info()
	if host := all.loop.core.JobHost(id, r.message); host != "" {
		line = line.Str("host", host)
	}
	if r.unlogged > 0 {
		line = line.Int("unlogged", r.unlogged)
	}
	line.Str("file", r.path).Msg("agent found nothing to do")
}

// listener turns the output of one agent into events. Its methods run in the
// child's goroutine.
type listener struct {
	daemon  *Daemon
	agent   scheduler.AgentID
	program string
	user    int
	log     zerolog.Logger
	limit   *outputLimit
	known   <-chan struct{} // closed when the core knows that the agent started
	last    string          // the last line outside the protocol
	resyncs []resync        // of the batch
}

// hear passes on what the agent said. While the loop is busy, hear waits, and so
// the agent must wait too.
func (l *listener) hear(all []child.Event) {
	select {
	case <-l.known:
	case <-l.daemon.stopped:
		return
	}
	for len(all) > 0 {
		batch := all[:min(maxBatch, len(all))]
		all = all[len(batch):]
		said := agentEvents{agent: l.agent, events: make([]scheduler.Event, 0, len(batch))}
		for _, heard := range batch {
			if e := l.event(heard); e != nil {
				said.events = append(said.events, e)
			}
			_, exited := heard.(child.Exited)
			said.exited = said.exited || exited
		}
		said.resyncs, l.resyncs = l.resyncs, nil
		select {
		case l.daemon.agentSaid <- said:
		case <-l.daemon.stopped:
			return
		}
	}
}

// event returns the event for the core; nil if there is none.
func (l *listener) event(heard child.Event) scheduler.Event {
	switch heard := heard.(type) {
	case child.Line:
		return l.line(ta.Line(heard))
	case child.Stderr:
		l.last = text.CutMarked(string(heard), maxClip)
		return l.logged(zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("stderr", text.CutMarked(string(heard), maxClip)).Msg("agent said")
		})
	case child.Unlimited:
		if l.daemon.once.first(l.program, l.user) {
			l.log.Warn().Str("program", l.program).Int("user", l.user).Str("reason", string(heard)).
				Msg("agent may open more files than option -N says")
		}
	case child.Exited:
		if n := l.limit.rest(); n > 0 {
			l.log.Warn().Int("lines", n).Msg("lines of the agent were not logged")
		}
		return scheduler.AgentExited{Agent: l.agent, Status: heard.Status, LastLine: l.last}
	}
	return nil
}

func (l *listener) line(said ta.Line) scheduler.Event {
	switch said.Kind {
	case ta.Hungry:
		return scheduler.AgentHungry{Agent: l.agent}
	case ta.Reports:
		return scheduler.AgentReports{Agent: l.agent}
	case ta.Locked:
		return scheduler.AgentLocked{Agent: l.agent}
	case ta.Reported:
		return scheduler.AgentReported{Agent: l.agent, Report: said.Report}
	case ta.Resync:
		if id, ok := messageOf(said.Path); ok {
			switch missing, ok := l.limit.take(time.Now()); {
			case ok:
				l.resyncs = append(l.resyncs, resync{id, said.Path, missing})
			case l.limit.flooded():
				return scheduler.AgentFlooded{Agent: l.agent}
			}
			return scheduler.AgentResync{Agent: l.agent, Message: id}
		}
		return l.logged(zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("file", text.CutMarked(said.Path, maxClip)).Msg("agent asks to resync a file that is not a control file")
		})
	case ta.Comment:
		l.last = text.CutMarked(strings.TrimPrefix(said.Text, "# "), maxClip)
		return l.logged(zerolog.InfoLevel, func(e *zerolog.Event) {
			e.Str("line", text.CutMarked(strings.TrimPrefix(said.Text, "# "), maxClip)).Msg("agent said")
		})
	}
	l.last = text.CutMarked(said.Text, maxClip)
	return l.logged(zerolog.WarnLevel, func(e *zerolog.Event) {
		e.Str("line", text.CutMarked(said.Text, maxClip)).Str("reason", said.Reason).Msg("malformed line from agent")
	})
}

// logged logs a line of the agent, up to the limit. If the agent has to be
// ended, logged returns the event that does so; otherwise nil.
func (l *listener) logged(level zerolog.Level, write func(*zerolog.Event)) scheduler.Event {
	missing, ok := l.limit.take(time.Now())
	if !ok {
		if l.limit.flooded() {
			return scheduler.AgentFlooded{Agent: l.agent}
		}
		return nil
	}
	line := l.log.WithLevel(level)
	if missing > 0 {
		line = line.Int("unlogged", missing)
	}
	write(line)
	return nil
}

const (
	// outputBurst is how many lines of an agent may be logged at once. After
	// each outputInterval, one more may be.
	outputBurst    = 50
	outputInterval = time.Second
	// maxUnlogged is how many lines beyond that an agent may write without being
	// given a job line. After that it is ended.
	maxUnlogged = 10_000
	// maxClip bounds the bytes of one line that are logged.
	maxClip = 1000
)

// outputLimit bounds how many lines about one agent are logged, and counts the
// rest. The loop and the agent's listener share it.
type outputLimit struct {
	mu       sync.Mutex
	earnedAt time.Time // lines includes those earned up to then; zero: not used yet
	lines    int       // lines that may be logged now
	missing  int       // lines not logged since the last logged line
	excess   int       // lines not logged since the last job line
	told     bool      // flooded has returned true
}

// take reports whether a line may be logged, and how many before it were not.
func (o *outputLimit) take(now time.Time) (missing int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.earnedAt.IsZero() {
		o.earnedAt, o.lines = now, outputBurst
	}
	earned := now.Sub(o.earnedAt) / outputInterval
	o.earnedAt = o.earnedAt.Add(earned * outputInterval)
	o.lines = min(outputBurst, o.lines+int(earned))
	if o.lines == 0 {
		o.missing++
		o.excess++
		return 0, false
	}
	o.lines--
	missing, o.missing = o.missing, 0
	return missing, true
}

// flooded reports, only once, that the agent has written too much.
func (o *outputLimit) flooded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told || o.excess <= maxUnlogged {
		return false
	}
	o.told = true
	return true
}

// fed notes that the agent was given a job line.
func (o *outputLimit) fed() {
	o.mu.Lock()
	o.excess = 0
	o.mu.Unlock()
}

// rest returns how many lines were not logged since the last logged line.
func (o *outputLimit) rest() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.missing
}

// oncePerProgram remembers the programs, each with its user, for which something
// was logged, so that it is logged once and not once per host.
type oncePerProgram struct {
	mu     sync.Mutex
	logged map[programUser]struct{}
}

type programUser struct {
	program string
	user    int
}

// first reports whether this is the first call for a program and its user.
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
