package main

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/scheduler/daemon"
)

// openLog returns the log and what writes it. A file gets one JSON object a
// line; without a file the lines go to stderr, written for people where that
// is a terminal.
func openLog(file string, o *options, stderr io.Writer) (zerolog.Logger, *daemon.Outlet, error) {
	again := false
	outlet, err := daemon.NewOutlet(func() (io.WriteCloser, error) {
		if file == "" {
			return stays{stderr}, nil
		}
		if again && o.daemon {
			if err := redirect(file); err != nil {
				return nil, err
			}
		}
		again = true
		return openAppend(file)
	})
	if err != nil {
		return zerolog.Logger{}, nil, err
	}
	var to io.Writer = outlet
	if file == "" && isTerminal(stderr) {
		to = zerolog.ConsoleWriter{Out: outlet, TimeFormat: time.DateTime}
	}
	level := zerolog.InfoLevel
	if o.verbose || o.verboseLater {
		level = zerolog.DebugLevel
	}
	log := zerolog.New(to).Level(level).With().Timestamp().Logger()
	outlet.Lost = func(lines int) { log.Warn().Int("lines", lines).Msg("log lines lost") }
	return log, outlet, nil
}

// openStatistics opens the statistics log, nil when there is none.
func openStatistics(file string, log zerolog.Logger) (*daemon.Outlet, error) {
	if file == "" {
		return nil, nil
	}
	outlet, err := daemon.NewOutlet(func() (io.WriteCloser, error) { return openAppend(file) })
	if err != nil {
		return nil, err
	}
	outlet.Lost = func(lines int) { log.Warn().Int("lines", lines).Msg("statistics lines lost") }
	return outlet, nil
}

func openAppend(file string) (*os.File, error) {
	return os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
}

// redirect sends a daemon's standard output and error, where only a crash
// would say something, to its log.
func redirect(file string) error {
	f, err := openAppend(file)
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
