// Package logs passes lines to places that may be slow, full or away, without making
// the caller wait: log files and syslogd.
//
// A Writer gathers lines in memory, up to a bound, and a goroutine writes what has been
// gathered in one piece. What a place does not take is kept and tried again: on a full
// disk with the next line, and every second if the place has to be opened again. Lines
// beyond the bound are lost, and counted.
package logs

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// maxHeld bounds the bytes that are kept for a file.
	maxHeld = 4 << 20
	// closeTimeout bounds Close, so that no full pipe or stopped terminal keeps
	// the program from exiting.
	closeTimeout = time.Second
	// reopenInterval is how often a place that could not be opened is tried.
	reopenInterval = time.Second
)

// Writer appends lines to one place.
type Writer struct {
	// Lost is called with the number of lines lost, as soon as lines can be written
	// again. It may write to the Writer. nil: nobody is told.
	Lost func(lines int)
	// Failed is called with the first error of a place that cannot be opened or written,
	// once until it takes lines again. A full disk is no such error. It may write to the
	// Writer. nil: nobody is told.
	Failed func(error)

	open func() (io.WriteCloser, error)
	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses these.
	place   io.WriteCloser // nil: not open
	lines   []byte         // taken from gathered, and not written yet
	stale   bool           // Reopen was called, and the place could not be opened
	told    bool           // Failed was called, and nothing has been written since
	retryAt time.Time      // of the next attempt to open the place

	mu       sync.Mutex
	gathered []byte
	held     int    // bytes in gathered and lines
	maxHeld  int    // bound of held
	total    uint64 // lines lost since the start
	untold   int    // of them, those that Lost has not been called for
	reopen   bool   // Reopen was called
	closing  bool   // Close was called
}

// Open opens a place with open, which is called again, from another goroutine, at each
// Reopen and after an error of the place. If the disk is full, the place is opened when
// there is room; any other error is returned.
func Open(open func() (io.WriteCloser, error)) (*Writer, error) {
	place, err := open()
	if err != nil && !full(err) {
		return nil, err
	}
	w := newWriter(open, maxHeld)
	if err == nil {
		w.place = place
	}
	go w.run()
	return w, nil
}

func newWriter(open func() (io.WriteCloser, error), maxHeld int) *Writer {
	return &Writer{open: open, maxHeld: maxHeld, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Write takes whole lines. It never waits and never fails.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	if w.held+len(lines) > w.maxHeld {
		lost := bytes.Count(lines, []byte{'\n'})
		w.total, w.untold = w.total+uint64(lost), w.untold+lost
	} else {
		w.gathered = append(w.gathered, lines...)
		w.held += len(lines)
	}
	w.mu.Unlock()
	w.signal()
	return len(lines), nil
}

// Reopen closes the place and opens it again, by a name that may belong to another file
// by now. Lines from before Reopen go to the old file. If the place cannot be opened, the
// old file stays in use until it can.
func (w *Writer) Reopen() {
	w.mu.Lock()
	w.reopen = true
	w.mu.Unlock()
	w.signal()
}

// Close writes the gathered lines and closes the place, or gives up after a second.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.signal()
	select {
	case <-w.done:
	case <-time.After(closeTimeout):
	}
}

// LostLines returns how many lines were lost since the start.
func (w *Writer) LostLines() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		w.mu.Lock()
		w.lines, w.gathered = append(w.lines, w.gathered...), w.gathered[:0]
		reopen, closing := w.reopen, w.closing
		w.reopen = false
		w.mu.Unlock()

		if w.place == nil && len(w.lines) > 0 {
			w.openPlace()
		}
		w.writeLines()
		w.stale = w.stale || reopen
		if w.place != nil && w.stale {
			w.openPlace()
		}
		if closing {
			if w.place != nil {
				w.place.Close()
			}
			return
		}
	}
}

// openPlace opens the place, unless an attempt has just failed. If it succeeds, an old
// place is closed.
func (w *Writer) openPlace() {
	if time.Now().Before(w.retryAt) {
		return
	}
	next, err := w.open()
	if err != nil {
		w.failed(err)
		return
	}
	if w.place != nil {
		w.place.Close()
	}
	w.place, w.stale = next, false
	w.signal()
}

// failed reports an error of the place, which is tried again after a pause.
func (w *Writer) failed(err error) {
	if !w.told && w.Failed != nil {
		w.Failed(err)
	}
	w.told, w.retryAt = true, time.Now().Add(reopenInterval)
	time.AfterFunc(reopenInterval, w.signal)
}

// writeLines writes what the place takes. A place that fails, unless its disk is full, is
// closed and opened again.
func (w *Writer) writeLines() {
	if w.place == nil || len(w.lines) == 0 {
		return
	}
	n, err := w.place.Write(w.lines)
	broken := err != nil && !full(err)
	if broken {
		n = bytes.LastIndexByte(w.lines[:n], '\n') + 1 // the next place gets the whole line
	}
	w.lines = w.lines[:copy(w.lines, w.lines[n:])]
	w.mu.Lock()
	w.held -= n
	w.mu.Unlock()
	if broken {
		w.place.Close()
		w.place = nil
		w.failed(err)
	} else if err == nil {
		w.told = w.told && w.stale
		w.tellLost()
	}
}

// tellLost calls Lost if lines were lost.
func (w *Writer) tellLost() {
	w.mu.Lock()
	lost := w.untold
	w.untold = 0
	w.mu.Unlock()
	if lost > 0 && w.Lost != nil {
		w.Lost(lost)
	}
}

// full reports whether an error means that a disk is full.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
