// Package eventlog writes the event log of the scheduler: what happened to each
// message, one JSON object a line (scheduler-events(5)).
//
//	{"time":"2026-11-22T08:15:06.123Z","event":"arrival","spoolid":"S12AbTCLWiT","message_id":"<1@a>",
//	 "sender":"a@b","recipient":"u@h","channel":"smtp","host":"h","since":"…","delay":0.213,"size":812,"recipients":1}
//	{"time":"…","event":"attempt","spoolid":"S12AbTCLWiT",…,"pid":711,"command":"smtp -c smtp","peer":"mx.h (192.0.2.1)",
//	 "status":"deferred","class":4,"dsn":"4.7.1","text":"451 4.7.1 greylisted","attempts":1,"next":"…"}
//	{"time":"…","event":"end","spoolid":"S12AbTCLWiT",…,"recipients":1,"failed":0}
//
// A Log observes the scheduler's loop (daemon.Observer), builds each line in the
// loop's goroutine, and passes it to a writer that does not wait (Open). The core
// keeps no addresses, so the Log keeps those of the messages in the queue (pack): about
// 90 bytes for a message with one recipient, and 20 for each further recipient.
package eventlog

import (
	"cmp"
	"io"
	"path"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Log writes events. It belongs to the loop's goroutine.
type Log struct {
	out      zerolog.Logger
	now      time.Time                    // of the event that is being written
	messages *texts                       // as pack returns them
	domains  domains                      // of these messages, and of earlier ones
	owing    map[scheduler.MessageID]bool // "owed" was written, and no "notice" since then
	agents   map[scheduler.AgentID]*agent
	exited   []scheduler.AgentID // oldest first; still in agents
	down     bool                // the spool cannot be written
}

type agent struct {
	pid     int // 0: not started yet
	command string
}

// maxExited bounds the agents that are kept after their exit: the results of their
// last job lines may follow later, when the control files have been read.
const maxExited = 256

var _ daemon.Observer = (*Log)(nil)

// New returns a Log that writes each line with one call of out.Write, which must
// not wait. The configuration of the core must have Events set, and the options of the
// spool must have Users set.
func New(out io.Writer) *Log {
	return &Log{
		out:      zerolog.New(text.JSONWriter{To: out}),
		messages: newTexts(),
		domains:  domains{numbers: make(map[string]int)},
		owing:    make(map[scheduler.MessageID]bool),
		agents:   make(map[scheduler.AgentID]*agent),
	}
}

// Event writes the lines for an event of the loop, if there are any: daemon.Observer.
func (l *Log) Event(now time.Time, e scheduler.Event) {
	l.now = now
	switch e := e.(type) {
	case scheduler.Arrived:
		l.arrived(&e.Message)
	case scheduler.AgentStarted:
		if a := l.agents[e.Agent]; a != nil {
			a.pid = e.PID
		}
	case scheduler.AgentFailed:
		delete(l.agents, e.Agent)
	case scheduler.AgentExited:
		l.exited = append(l.exited, e.Agent)
		if len(l.exited) > maxExited {
			delete(l.agents, l.exited[0])
			l.exited = l.exited[1:]
		}
	case scheduler.HeldThread:
		event := "release"
		if e.Held {
			event = "hold"
		}
		l.begin(event).thread(e.Channel, e.Host).order(e.By, e.Because).write()
	case scheduler.Lifted:
		l.begin("lift").thread(e.Channel, e.Host).order(e.By, e.Because).write()
	case scheduler.Failed:
		if e.SpoolDown && !l.down {
			l.down = true
			l.begin("spool-down").text("text", oneLine(e.Reason)).write()
		}
	case scheduler.SpoolBack:
		if l.down {
			l.down = false
			l.begin("spool-up").write()
		}
	}
}

// Action writes the lines for an action of the core, if there are any: daemon.Observer.
func (l *Log) Action(now time.Time, a scheduler.Action) {
	l.now = now
	switch a := a.(type) {
	case scheduler.Start:
		l.agents[a.Agent] = &agent{command: commandLine(a.Command)}
	case *scheduler.Outcome:
		l.outcome(a)
	case scheduler.Condition:
		l.condition(&a)
	}
}

// Result writes the lines for a result of the spool, if there are any: daemon.Observer.
func (l *Log) Result(now time.Time, r spool.Result) {
	l.now = now
	switch r := r.(type) {
	case spool.Answered:
		l.answered(&r)
	case spool.Refused:
		l.refused(&r)
	}
}

// Turn does nothing: daemon.Observer.
func (l *Log) Turn(time.Duration) {}

// answered writes the lines for an action on files that has ended.
func (l *Log) answered(r *spool.Answered) {
	m := l.find(r.Message)
	l.noticed(&m, r.Notice)
	if _, is := r.Action.(scheduler.Resubmit); is && len(r.Offsets) > 0 {
		l.begin("resubmitted").message(&m).number("recipients", len(r.Offsets)).text("new", r.NewFiles()).text("new_spoolid", r.SpoolID).write()
	}
	if r.Err != nil || r.Missing || m.id == 0 {
		return
	}
	switch a := r.Action.(type) {
	case *scheduler.Finish:
		l.begin("end").message(&m).times(m.since, l.now).number("recipients", a.Recipients).number("failed", a.Failed).write()
		l.forget(m.id)
	case scheduler.Hold:
		l.begin("hold").message(&m).times(m.since, l.now).write()
	case scheduler.Release:
		if n := strings.Count(m.users, "\n"); n > manyRecipients {
			l.begin("arrival").message(&m).number("recipients", n).text("text", "released").write()
			break
		}
		for line := range strings.Lines(m.users) {
			_, address := numbered(line)
			l.begin("arrival").message(&m).text("recipient", l.domains.restore(address)).text("text", "released").write()
		}
	}
}

// owes writes, once, that a message owes a notice. Nobody gets one about a message with the
// null sender.
func (l *Log) owes(m *message, owes bool) {
	if owes && m.id != 0 && !l.owing[m.id] && m.sender != "<>" {
		l.owing[m.id] = true
		l.begin("owed").message(m).write()
	}
}

// noticed writes that the sender gets a notice.
func (l *Log) noticed(m *message, written string) {
	if written != "" {
		l.begin("notice").message(m).text("new", written).write()
		delete(l.owing, m.id) // a later failure is logged again
	}
}

func (l *Log) outcome(a *scheduler.Outcome) {
	event, status, class := "attempt", a.State, 5
	switch status {
	case "ok", "ok2", "ok3":
		class = 2
	case "deferred":
		class = 4
	case "expire":
		event = "expiry"
	case "killed":
		event, class = "kill", 0
	}
	m := l.find(a.Message)
	b := l.begin(event).message(&m).text("recipient", l.address(&m, a.Offset)).thread(a.Channel, a.Host)
	if by := l.agents[a.Agent]; by != nil {
		b.number("pid", by.pid).text("command", by.command)
	}
	said := parseReply(a.Notary, a.Text, event == "expiry")
	b.text("peer", said.peer).text("status", status)
	if class > 0 {
		b.number("class", class)
	}
	b.text("dsn", said.code).text("text", said.text)
	if m.id != 0 {
		b.times(m.since, l.now)
	}
	b.number("attempts", a.Attempts).time("next", a.NextAt).write()
	l.owes(&m, a.Owes)
}

func (l *Log) condition(c *scheduler.Condition) {
	m := l.find(c.Message)
	if m.id == 0 && c.State == "gone" {
		return // it is in corrupt/, and "quarantined" was written
	}
	b := l.begin(c.State).message(&m)
	switch c.State {
	case "order":
		if m.id == 0 { // it is not in the queue
			b.text("spoolid", ctlfile.SpoolID(uint64(c.Message), c.ModifiedAt))
		}
		b.text("order", c.Order).order(cmp.Or(c.By, "scheduler"), c.Because).number("recipients", c.Recipients)
		if c.Channel != "" {
			b.text("to", c.Channel+"/"+c.Host)
		}
	case "rule", "undone":
		b.thread(c.Channel, c.Host).text("order", c.Order).text("text", oneLine(c.Because))
	default:
		b.thread(c.Channel, c.Host).time("next", c.NextAt).order(c.By, c.Because)
	}
	b.write()
	if c.State == "gone" {
		l.forget(c.Message)
	}
}

// refused writes why a control file did not become a message. If it is refused
// repeatedly, the first, second, fourth, eighth and so on are written.
func (l *Log) refused(r *spool.Refused) {
	if r.Why == spool.Quarantined {
		l.quarantined(r)
		return
	}
	if r.Why == spool.Vanished || r.Tries&(r.Tries-1) != 0 {
		return
	}
	l.begin("refused").text("file", r.Name.Path).text("status", r.Why.String()).text("text", oneLine(r.Reason)).write()
}

// quarantined writes the last line about a message whose files are in corrupt/ now, and
// deletes the message. The spoolid is known if there is a message file.
func (l *Log) quarantined(r *spool.Refused) {
	id := scheduler.MessageID(r.Name.ID)
	b := l.begin("quarantined")
	if m := l.find(id); m.id != 0 {
		b.message(&m)
	} else if !r.ModifiedAt.IsZero() {
		b.text("spoolid", ctlfile.SpoolID(r.Name.ID, r.ModifiedAt))
	}
	b.text("file", r.Name.Path).text("status", r.Why.String()).text("text", oneLine(r.Reason)).write()
	l.forget(id)
}

// commandLine returns the command of an agent without its environment.
func commandLine(words []string) string {
	for len(words) > 1 && strings.Contains(words[0], "=") {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(append([]string{path.Base(words[0])}, words[1:]...), " ")
}
