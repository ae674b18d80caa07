package daemon

// Logs: the scheduler's own, the statistics log and the system's log.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// account writes one line of the statistics log: scheduler(8), "STATISTICS
// LOG FORMAT".
func (d *Daemon) account(a *scheduler.Outcome) {
	if d.options.Account != nil && a.IsFinal() {
		d.options.Account(appendAccount(nil, a, d.loop.now))
	}
}

// appendAccount appends a line: the spoolid, dt1 from the message file to its control file, dt2
// from there to now, the state, the channel and the host.
func appendAccount(b []byte, a *scheduler.Outcome, now time.Time) []byte {
	b = append(b, ctlfile.SpoolID(uint64(a.Message), a.ModifiedAt)...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, a.ChangedAt.Unix()-a.ModifiedAt.Unix(), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, now.Unix()-a.ChangedAt.Unix(), 10)
	b = append(b, ' ')
	b = append(b, a.State...)
	b = append(b, ' ')
	b = append(b, a.Channel...)
	b = append(b, '/')
	b = append(b, a.Host...)
	return append(b, '\n')
}

// note logs a line of the core. A line about an agent counts towards the limit on
// that agent's output.
func (d *Daemon) note(n scheduler.Note) {
	l := &d.loop
	log, missing := &l.log, 0
	if a := l.agents.byID[n.Agent]; a != nil {
		log = &a.log
		if n.Severity != scheduler.Error {
			ok := false
			if missing, ok = a.limit.take(l.now); !ok {
				return
			}
		}
	}
	line := log.WithLevel(level(n.Severity))
	if missing > 0 {
		line = line.Int("unlogged", missing)
	}
	text := n.Text
	if n.Message != 0 {
		file := strconv.FormatUint(uint64(n.Message), 10)
		line = line.Str("file", file)
		text = file + ": " + text
	}
	line.Msg(n.Text)
	forSyslog := n.Severity == scheduler.Error || n.Severity == scheduler.Info && n.Message != 0
	if d.options.Syslog != nil && forSyslog {
		d.options.Syslog(n.Severity, text)
	}
}

func level(s scheduler.Severity) zerolog.Level {
	switch s {
	case scheduler.Error:
		return zerolog.ErrorLevel
	case scheduler.Warning:
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}

// logVerbose logs one event or action with its fields (option -v). what is
// "event" or "action".
func logVerbose(log *zerolog.Logger, what string, v any) {
	name := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", v), "*"), "scheduler.")
	line := log.Debug().Str(what, name)
	if r, ok := v.(scheduler.Reloaded); ok {
		line.Int("clauses", len(r.Config.Clauses)).Send()
		return
	}
	if detail, err := json.Marshal(v); err == nil && string(detail) != "{}" {
		line = line.RawJSON("detail", detail)
	}
	line.Send()
}

// logState logs the counters (SIGUSR2).
func (l *Loop) logState() {
	l.log.Info().
		Any("counts", l.core.Counts()).
		Int("agents", len(l.agents.byID)).
		Int("taking", len(l.intake.taking)).
		Int("writing", l.files.pending).
		Msg("state")
}
