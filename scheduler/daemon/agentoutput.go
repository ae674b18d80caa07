package daemon

// Output of agents: protocol lines become events; everything else goes to the
// log, up to a limit.

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/internal/text"
	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/ta"
)

// agentEvents is what an agent said, as events: at most maxBatch, so that no
// agent delays the others.
type agentEvents struct {
	agent  scheduler.AgentID
	events []scheduler.Event
	exited bool // the last event is its exit
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

// listener turns the output of one agent into events. Its methods run in the
// child's goroutine.
type listener struct {
	daemon *Daemon
	agent  scheduler.AgentID
	log    zerolog.Logger
	jobLog zerolog.Logger // without the host of the agent's first job
	limit  *outputLimit
	known  <-chan struct{} // closed when the core knows that the agent started
	last   string          // the last line outside the protocol
}

// hear passes on what the agent said. While the loop is busy, hear waits, and so
// the agent must wait too. It waits as well for each line that is not logged any more:
// an agent that writes without end has its own pace, and the loop keeps its time for others.
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
		select {
		case l.daemon.agentSaid <- said:
		case <-l.daemon.stopped:
			return
		}
		time.Sleep(l.limit.pause())
	}
}

// event returns the event for the core; nil if there is none.
func (l *listener) event(heard child.Event) scheduler.Event {
	switch heard := heard.(type) {
	case child.Line:
		return l.line(ta.Line(heard))
	case child.Stderr:
		l.last = text.CutMarked(string(heard), maxClip)
		l.logLine(&l.log, zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("stderr", text.CutMarked(string(heard), maxClip)).Msg("agent said")
		})
	case child.Exited:
		return scheduler.AgentExited{Agent: l.agent, Status: heard.Status, LastLine: l.last}
	}
	return nil
}

func (l *listener) line(said ta.Line) scheduler.Event {
	switch said.Kind {
	case ta.Hungry:
		return scheduler.AgentSaid{Agent: l.agent, Word: scheduler.Hungry}
	case ta.Reports:
		return scheduler.AgentSaid{Agent: l.agent, Word: scheduler.Reports}
	case ta.Locked:
		return scheduler.AgentSaid{Agent: l.agent, Word: scheduler.Locked}
	case ta.Reported:
		return scheduler.AgentReported{Agent: l.agent, Report: said.Report}
	case ta.Resync:
		if id, ok := messageOf(said.Path); ok {
			l.logLine(&l.jobLog, zerolog.InfoLevel, func(e *zerolog.Event) {
				e.Str("file", said.Path).Msg("agent found nothing to do")
			})
			return scheduler.AgentResync{Agent: l.agent, Message: id}
		}
		l.logLine(&l.log, zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("file", text.CutMarked(said.Path, maxClip)).Msg("agent asks to resync a file that is not a control file")
		})
		return nil
	case ta.Comment:
		l.last = text.CutMarked(strings.TrimPrefix(said.Text, "# "), maxClip)
		l.logLine(&l.log, zerolog.InfoLevel, func(e *zerolog.Event) {
			e.Str("line", text.CutMarked(strings.TrimPrefix(said.Text, "# "), maxClip)).Msg("agent said")
		})
		return nil
	}
	l.last = text.CutMarked(said.Text, maxClip)
	l.logLine(&l.log, zerolog.WarnLevel, func(e *zerolog.Event) {
		e.Str("line", text.CutMarked(said.Text, maxClip)).Str("reason", said.Reason).Msg("malformed line from agent")
	})
	return nil
}

// logLine logs a line of the agent, up to the limit.
func (l *listener) logLine(log *zerolog.Logger, level zerolog.Level, write func(*zerolog.Event)) {
	missing, ok := l.limit.take(time.Now())
	if !ok {
		return
	}
	line := log.WithLevel(level)
	if missing > 0 {
		line = line.Int("unlogged", missing)
	}
	write(line)
}

const (
	// outputLines is how many lines of an agent are logged in each outputPeriod.
	outputLines  = 50
	outputPeriod = time.Minute
	// unloggedPause is how long the agent is not heard after each line beyond that.
	unloggedPause = time.Millisecond
	// maxClip bounds the bytes of one line that are logged.
	maxClip = 1000
)

// outputLimit bounds how many lines about an agent are logged. The loop and the agent's
// listener share it.
type outputLimit struct {
	lines    logs.Throttle
	unlogged atomic.Int64 // lines that were not logged since the last pause
}

func newOutputLimit() *outputLimit {
	return &outputLimit{lines: logs.Throttle{Number: outputLines, Period: outputPeriod}}
}

// take reports whether a line may be logged, and how many before it were not.
func (o *outputLimit) take(now time.Time) (missing int, ok bool) {
	if missing, ok = o.lines.Take("", now); !ok {
		o.unlogged.Add(1)
	}
	return missing, ok
}

// pause returns how long not to hear the agent.
func (o *outputLimit) pause() time.Duration {
	return time.Duration(o.unlogged.Swap(0)) * unloggedPause
}
