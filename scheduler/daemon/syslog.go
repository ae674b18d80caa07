package daemon

import (
	"log/syslog"

	"github.com/rs/zerolog"

	"zsched/scheduler"
)

// Syslog passes lines on to the system's log, facility mail, without making
// anybody wait. A line that syslogd does not take in time is dropped: our own
// log has it too.
type Syslog struct {
	lines chan syslogLine
	done  chan struct{} // closed when the goroutine has left
}

type syslogLine struct {
	severity scheduler.Severity
	text     string
}

// OpenSyslog begins to pass lines on. That syslogd cannot be reached is said
// once in the log.
func OpenSyslog(log zerolog.Logger) *Syslog {
	return openSyslog("", "", log)
}

func openSyslog(network, address string, log zerolog.Logger) *Syslog {
	s := &Syslog{lines: make(chan syslogLine, 1024), done: make(chan struct{})}
	go s.run(network, address, log)
	return s
}

// Line passes one line on.
func (s *Syslog) Line(severity scheduler.Severity, text string) {
	select {
	case s.lines <- syslogLine{severity, text}:
	default:
	}
}

// Close passes on what is left, or gives up after a second.
func (s *Syslog) Close() {
	close(s.lines)
	waitClosed(s.done)
}

func (s *Syslog) run(network, address string, log zerolog.Logger) {
	defer close(s.done)
	var w *syslog.Writer
	said := false
	for line := range s.lines {
		var err error
		if w == nil {
			w, err = syslog.Dial(network, address, syslog.LOG_MAIL|syslog.LOG_INFO, "scheduler")
		}
		if err == nil {
			err = writeSyslog(w, line)
		}
		if err != nil && !said {
			log.Warn().Err(err).Msg("syslog cannot be reached")
		}
		said = err != nil
	}
	if w != nil {
		w.Close()
	}
}

func writeSyslog(w *syslog.Writer, line syslogLine) error {
	if line.severity == scheduler.Error {
		return w.Err(line.text)
	}
	return w.Info(line.text)
}
