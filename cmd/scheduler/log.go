package main

// Logs: the log file, the statistics log, the event log and the syslog.

import (
	"fmt"
	"io"
	"os"
	"slices"
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
	files      []*logs.Writer // all of them, the log first
	statistics *logs.Writer   // nil: none
	events     *logs.Writer   // nil: none
	syslog     *logs.Syslog   // nil: none
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
		l.statistics = l.keep(statistics, "the statistics log")
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
func (l *logSet) openMain(s *setting, stderr io.Writer) error {
	file, again := s.where.log, false
	main, err := logs.Open(func() (io.WriteCloser, error) {
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
	var to io.Writer = text.JSONWriter{To: main}
	if file == "" && text.IsTerminal(stderr) {
		to = zerolog.ConsoleWriter{Out: main, TimeFormat: time.DateTime}
	}
	level := zerolog.InfoLevel
	if s.verbose || s.verboseLater {
		level = zerolog.DebugLevel
	}
	l.log = zerolog.New(to).Level(level).With().Timestamp().Logger()
	l.keep(main, "the log")
	return nil
}

// openEvents opens the event log that the configuration names, if any.
func (l *logSet) openEvents(place string) error {
	if place == "" {
		return nil
	}
	events, err := eventlog.Open(place)
	if err != nil {
		return fmt.Errorf("opening the event log: %w", err)
	}
	l.events = l.keep(events, "the event log")
	return nil
}

// keep adds a file to the set. What happens to it is logged.
func (l *logSet) keep(file *logs.Writer, what string) *logs.Writer {
	before := file.Lost
	file.Lost = func(lines int) {
		if before != nil {
			before(lines)
		}
		l.log.Warn().Int("lines", lines).Msg("lines of " + what + " are lost")
	}
	file.Failed = func(err error) {
		l.log.Error().Err(err).Msg(what + " cannot be written; opening it is tried every second")
	}
	l.files = append(l.files, file)
	return file
}

// reopen opens all log files again, after they were renamed.
func (l *logSet) reopen() {
	for _, file := range l.files {
		file.Reopen()
	}
}

// close writes the lines that are still buffered and closes the logs.
func (l *logSet) close() {
	l.syslog.Close()
	for _, file := range slices.Backward(l.files) {
		file.Close()
	}
}

func openAppend(file string) (*os.File, error) { return postoffice.OpenLog(file, 0o640) }

// redirect sends a daemon's standard output and error to its log. Only a crash
// writes to them.
func redirect(file string) error {
	f, err := openAppend(file)
	if postoffice.IsNoRoom(err) {
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
