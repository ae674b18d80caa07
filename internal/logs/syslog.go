package logs

// Syslog: lines for syslogd, facility mail.

import (
	"bytes"
	"fmt"
	"io"
	"log/syslog"
	"strings"
)

// Syslog passes lines on to the system's log. A nil Syslog drops them.
type Syslog struct{ w *Writer }

// SyslogOptions say whose lines they are and where they go.
type SyslogOptions struct {
	Tag string // the program's name
	// Network and Address name a socket other than the system's: "unixgram" and a
	// path. Empty means the system's.
	Network, Address string
	// Failed is called, from another goroutine, with the first error of a run
	// of errors. It may be nil.
	Failed func(error)
}

// maxForSyslog bounds the bytes that are kept while no syslogd listens: every agent may
// have as much.
const maxForSyslog = 64 << 10

// The first byte of a line in the Writer says how severe it is.
const (
	isInfo  = 'i'
	isError = 'e'
)

// OpenSyslog starts passing on lines. It connects when the first line comes, so it never
// fails.
func OpenSyslog(o SyslogOptions) *Syslog {
	return openSyslog(o, func() (connection, error) {
		return syslog.Dial(o.Network, o.Address, syslog.LOG_MAIL|syslog.LOG_INFO, o.Tag)
	})
}

func openSyslog(o SyslogOptions, dial func() (connection, error)) *Syslog {
	w := newWriter(func() (io.WriteCloser, error) {
		to, err := dial()
		return daemon{to}, err
	}, maxForSyslog)
	w.Failed = o.Failed
	w.Lost = func(lines int) { fmt.Fprintf(w, "%c%d lines were lost here\n", isInfo, lines) }
	go w.run()
	return &Syslog{w}
}

// Info passes on a line of severity info.
func (s *Syslog) Info(text string) { s.send(isInfo, text) }

// Error passes on a line of severity err.
func (s *Syslog) Error(text string) { s.send(isError, text) }

func (s *Syslog) send(severity byte, text string) {
	if s != nil {
		_, _ = s.w.Write(append(append([]byte{severity}, strings.ReplaceAll(text, "\n", " ")...), '\n'))
	}
}

// Close passes on the waiting lines, or gives up after a second. Info and Error must not
// be called after it.
func (s *Syslog) Close() {
	if s != nil {
		s.w.Close()
	}
}

// connection is what is used of a *syslog.Writer.
type connection interface {
	Info(string) error
	Err(string) error
	Close() error
}

// daemon is a connection to syslogd as a place for lines.
type daemon struct{ connection }

// Write passes on whole lines, one at a time: io.Writer.
func (d daemon) Write(lines []byte) (n int, err error) {
	for line := range bytes.Lines(lines) {
		put := d.Info
		if line[0] == isError {
			put = d.Err
		}
		if err := put(string(line[1 : len(line)-1])); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}
