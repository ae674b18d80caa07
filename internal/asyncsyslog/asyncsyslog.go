// Package asyncsyslog writes lines to the system's log, facility mail, without making
// the caller wait. Lines that syslogd does not take in time are dropped and counted;
// as soon as it takes lines again, a line says how many were lost. If no syslogd is
// listening, the writer tries to connect again after a pause that doubles each time,
// and drops the lines in between. Package log/syslog tries six sockets each time, and
// six failures for every line would cost a busy program more time than its work.
package asyncsyslog

import (
	"fmt"
	"log/syslog"
	"sync"
	"time"
)

// Options say whose lines they are and where they go.
type Options struct {
	Tag string // the program's name
	// Network and Address name a socket other than the system's: "unixgram" and a
	// path. Empty means the system's.
	Network, Address string
	// Failed is called, from another goroutine, with the first error of a run
	// of errors. It may be nil.
	Failed func(error)
	// CloseTimeout is how long Close waits for syslogd; 0 means 2 s.
	CloseTimeout time.Duration
}

// Writer passes lines on in a goroutine of its own. A nil Writer drops them.
type Writer struct {
	options Options
	lines   chan line
	done    chan struct{} // closed when the goroutine ends

	mu   sync.Mutex
	lost int // lines dropped since the last one that was written
}

type line struct {
	text    string
	isError bool
}

// queueLength is how many lines may wait for syslogd.
const queueLength = 1024

// Open starts the writer. It connects when the first line is written, so Open never
// fails.
func Open(o Options) *Writer { return open(o, dial) }

func open(o Options, dial func(Options) (connection, error)) *Writer {
	if o.CloseTimeout == 0 {
		o.CloseTimeout = 2 * time.Second
	}
	w := &Writer{options: o, lines: make(chan line, queueLength), done: make(chan struct{})}
	go w.run(dial)
	return w
}

// Info passes on a line of severity info.
func (w *Writer) Info(text string) { w.send(line{text: text}) }

// Error passes on a line of severity err.
func (w *Writer) Error(text string) { w.send(line{text, true}) }

func (w *Writer) send(l line) {
	if w == nil {
		return
	}
	select {
	case w.lines <- l:
	default:
		w.drop()
	}
}

// Close writes the waiting lines, or gives up when CloseTimeout has passed. Info
// and Error must not be called after it.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	close(w.lines)
	select {
	case <-w.done:
	case <-time.After(w.options.CloseTimeout):
	}
}

// The pause before the next attempt to connect.
const (
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
)

// connection is what the writer needs of a *syslog.Writer.
type connection interface {
	Info(string) error
	Err(string) error
	Close() error
}

func dial(o Options) (connection, error) {
	to, err := syslog.Dial(o.Network, o.Address, syslog.LOG_MAIL|syslog.LOG_INFO, o.Tag)
	if err != nil {
		return nil, err // not a connection that holds a nil *syslog.Writer
	}
	return to, nil
}

func (w *Writer) run(dial func(Options) (connection, error)) {
	defer close(w.done)
	var to connection
	var pause time.Duration // 0 after a line was written
	var dialAt time.Time
	for l := range w.lines {
		if to == nil && time.Now().Before(dialAt) {
			w.drop()
			continue
		}
		var err error
		if to == nil {
			to, err = dial(w.options)
		}
		if err == nil {
			w.reportLost(to)
			err = l.write(to)
		}
		if err == nil {
			pause = 0
			continue
		}
		if pause == 0 && w.options.Failed != nil {
			w.options.Failed(err)
		}
		w.drop()
		pause = min(max(2*pause, minPause), maxPause)
		dialAt = time.Now().Add(pause)
		if to != nil {
			_ = to.Close()
			to = nil
		}
	}
	if to != nil {
		w.reportLost(to)
		_ = to.Close()
	}
}

func (l line) write(to connection) error {
	if l.isError {
		return to.Err(l.text)
	}
	return to.Info(l.text)
}

func (w *Writer) drop() {
	w.mu.Lock()
	w.lost++
	w.mu.Unlock()
}

func (w *Writer) reportLost(to connection) {
	w.mu.Lock()
	lost := w.lost
	w.lost = 0
	w.mu.Unlock()
	if lost > 0 {
		_ = to.Info(fmt.Sprintf("%d lines were lost here", lost))
	}
}
