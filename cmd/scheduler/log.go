package main

// Logs: the log file, the statistics log, the event log and the syslog.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/internal/logs"
	"zsched/internal/postoffice"
	"zsched/internal/text"
	"zsched/scheduler/eventlog"
)

// logSet has the files and the syslog that the scheduler writes.
type logSet struct {
	log        zerolog.Logger
	main       *logs.Writer
	statistics *logs.Writer // nil: none
	events     *logs.Writer // nil: none
	syslog     *logs.Syslog // nil: none
}

func openLogs(s *setting, stderr io.Writer) (*logSet, error) {
	l := new(logSet)
	if err := l.openMain(s, stderr); err != nil {
		return nil, err
	}
	if s.where.statistics != "" {
		statistics, err := logs.Open(func() (io.WriteCloser, error) { return openAppend(s.where.statistics) })
		if err != nil {
			l.close()
			return nil, err
		}
		statistics.Lost = func(lines int) { l.log.Warn().Int("lines", lines).Msg("statistics lines lost") }
		statistics.Failed = func(err error) { l.cannotReopen(err) }
		l.statistics = statistics
	}
	if s.env.LogsCompletions() {
		l.syslog = logs.OpenSyslog(logs.SyslogOptions{
			Tag:    "scheduler",
			Failed: func(err error) { l.log.Warn().Err(err).Msg("syslog cannot be reached") },
		})
	}
	return l, nil
}

// openMain opens the log. A file gets one JSON object per line. Without a file the
// lines go to stderr, formatted for people if that is a terminal.
func (l *logSet) openMain(s *setting, stderr io.Writer) (err error) {
	file, again := s.where.log, false
	l.main, err = logs.Open(func() (io.WriteCloser, error) {
		if file == "" {
			return stays{stderr}, nil
		}
		if again && s.daemon {
			if err := redirect(file); err != nil {
				return nil, err
			}
		}
		again = true
		return openAppend(file)
	})
	if err != nil {
		return err
	}
	var to io.Writer = text.JSONWriter{To: l.main}
	if file == "" && isTerminal(stderr) {
		to = zerolog.ConsoleWriter{Out: l.main, TimeFormat: time.DateTime}
	}
	level := zerolog.InfoLevel
	if s.verbose || s.verboseLater {
		level = zerolog.DebugLevel
	}
	l.log = zerolog.New(to).Level(level).With().Timestamp().Logger()
	l.main.Failed = l.cannotReopen
	l.main.Lost = func(lines int) { l.log.Warn().Int("lines", lines).Msg("log lines lost") }
	return nil
}

// cannotReopen logs that a log file could not be opened again.
func (l *logSet) cannotReopen(err error) {
	l.log.Error().Err(err).Msg("a log file cannot be opened or written; opening it is tried every second")
}

// openEvents opens the event log that the configuration names, if any.
func (l *logSet) openEvents(place string) (err error) {
	if place == "" {
		return nil
	}
	l.events, err = eventlog.Open(place, func(lines int) {
		l.log.Warn().Int("lines", lines).Msg("event log lines lost")
	})
	if err != nil {
		return fmt.Errorf("opening the event log: %w", err)
	}
	l.events.Failed = func(err error) {
		l.log.Error().Err(err).Msg("the event log cannot be written; opening it is tried every second")
	}
	return nil
}

// reopen opens all log files again, after they were renamed.
func (l *logSet) reopen() {
	l.main.Reopen()
	if l.statistics != nil {
		l.statistics.Reopen()
	}
	if l.events != nil {
		l.events.Reopen()
	}
}

// close writes the lines that are still buffered and closes the logs.
func (l *logSet) close() {
	l.syslog.Close()
	if l.statistics != nil {
		l.statistics.Close()
	}
	if l.events != nil {
		l.events.Close()
	}
	l.main.Close()
}

func openAppend(file string) (*os.File, error) { return postoffice.OpenLog(file, 0o640) }

// redirect sends a daemon's standard output and error to its log. Only a crash
// writes to them.
func redirect(file string) error {
	f, err := openAppend(file)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0) // until the log is reopened
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for _, fd := range []int{syscall.Stdout, syscall.Stderr} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// stays is a writer that Close leaves open.
type stays struct{ io.Writer }

func (stays) Close() error { return nil }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
