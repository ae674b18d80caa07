// Package asyncfile appends lines to log files without making the caller wait
// (LOGDIR/scheduler, the statistics log).
package asyncfile

import (
	"bytes"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxHeld bounds the bytes that are kept while the file cannot be written.
	maxHeld = 4 << 20
	// closeTimeout bounds Close, so that no full pipe or stopped terminal keeps
	// the program from exiting.
	closeTimeout = time.Second
	// reopenInterval is how often a file that could not be opened again is tried.
	reopenInterval = time.Second
)

// Writer appends lines to a file. Lines that come during a write are gathered and
// written together, so an idle program keeps nothing in memory and a busy one
// writes in large pieces. What cannot be written (a full disk, a stopped terminal) is
// kept, up to 4 MiB, and tried again with the next line. Further lines are lost, and
// counted.
type Writer struct {
	// Lost is called with the number of lines lost, as soon as lines can be written
	// again. It may write to the Writer. nil: nobody is told.
	Lost func(lines int)
	// Failed is called once if the file cannot be opened again after Reopen, which is
	// then tried every second. It may write to the Writer. nil: nobody is told.
	Failed func(error)

	open func() (io.WriteCloser, error)
	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	gathered []byte
	lost     int
	reopen   bool
	closing  bool
}

// Open opens the file with open, which is called again, from another
// goroutine, at each Reopen.
func Open(open func() (io.WriteCloser, error)) (*Writer, error) {
	file, err := open()
	if err != nil {
		return nil, err
	}
	w := &Writer{open: open, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run(file)
	return w, nil
}

// Write takes whole lines. It never waits and never fails.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	if len(w.gathered)+len(lines) > maxHeld {
		w.lost += bytes.Count(lines, []byte{'\n'})
	} else {
		w.gathered = append(w.gathered, lines...)
	}
	w.mu.Unlock()
	w.signal()
	return len(lines), nil
}

// Reopen closes the file and opens it again by its name, which may belong to another
// file by now. If that fails, the old file stays in use until it succeeds. If the old
// file has been removed, nobody could read what is written to it: the lines are kept as
// if the write had failed.
func (w *Writer) Reopen() {
	w.mu.Lock()
	w.reopen = true
	w.mu.Unlock()
	w.signal()
}

// Close writes the gathered lines and closes the file, or gives up after a
// second.
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

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Writer) run(file io.WriteCloser) {
	defer close(w.done)
	var lines []byte // being written
	written := 0     // bytes of lines that are in the file
	stale := false   // the file could not be opened again
	var retryAt time.Time
	put := func(lines []byte) (n int, took bool) {
		if stale && removed(file) {
			return 0, false
		}
		return put(file, lines)
	}
	for range w.wake {
		// First write what could not be written last time.
		n, took := put(lines[written:])
		written += n
		all := written == len(lines)

		w.mu.Lock()
		reopen, closing := w.reopen, w.closing
		w.reopen = false
		if all {
			lines, w.gathered, written = w.gathered, lines[:0], 0
		}
		w.mu.Unlock()

		// Lines from before Reopen go to the old file.
		if all {
			n, more := put(lines)
			written, took = n, took || more
		}
		// Lost is called only when there is room for what it writes.
		if took {
			w.tellLost()
		}
		if reopen || stale && !time.Now().Before(retryAt) {
			if next, err := w.open(); err != nil {
				if !stale && w.Failed != nil {
					w.Failed(err)
				}
				stale, retryAt = true, time.Now().Add(reopenInterval)
				time.AfterFunc(reopenInterval, w.signal)
			} else {
				file.Close()
				file, stale = next, false
				// The old file has the beginning of this line; the rest of
				// it would not be a complete line in the new one.
				if written > 0 && lines[written-1] != '\n' {
					written += bytes.IndexByte(lines[written:], '\n') + 1
					w.lose(1)
				}
				w.signal()
			}
		}
		if closing {
			file.Close()
			return
		}
	}
}

// removed reports whether a file has been unlinked.
func removed(file io.Writer) bool {
	f, ok := file.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// put writes lines. It returns how many bytes it wrote, and whether all of them.
func put(file io.Writer, lines []byte) (n int, took bool) {
	if len(lines) == 0 {
		return 0, false
	}
	n, err := file.Write(lines)
	return n, err == nil
}

// tellLost calls Lost if lines were lost.
func (w *Writer) tellLost() {
	if lost := w.lose(0); lost > 0 && w.Lost != nil {
		w.lose(-lost)
		w.Lost(lost)
	}
}

// Untold returns how many lines are lost without Lost having been called for them yet.
func (w *Writer) Untold() int { return w.lose(0) }

// lose adds to the number of lost lines and returns it.
func (w *Writer) lose(lines int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += lines
	return w.lost
}
