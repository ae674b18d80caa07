// Package asyncfile appends lines to log files without making the caller wait
// (LOGDIR/scheduler, the statistics log).
package asyncfile

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// maxHeld bounds what an File holds for a file that does not take
	// it, beyond the lines that it is at.
	maxHeld = 4 << 20
	// closeTime is how long a log may take to end: no full pipe, stopped
	// terminal or stuck syslogd keeps a scheduler from leaving.
	closeTime = time.Second
)

// File appends lines to a file without making the writer wait: what has
// gathered while the file took the lines before goes out in one write. So
// nothing lies about in an idle daemon, and a busy one writes in large pieces.
// What a file does not take (a full disk, a stopped terminal) is kept up to
// 4 MiB and tried again with the next line; lines beyond that are lost, and
// counted.
type Writer struct {
	// Lost is called with the number of lines lost, once lines go out again.
	// It may write to the File. Nil: nobody is told.
	Lost func(lines int)

	open func() (io.WriteCloser, error)
	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when the goroutine has left

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
	o := &Writer{open: open, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.run(file)
	return o, nil
}

// Write takes whole lines. It never waits and never fails.
func (o *Writer) Write(lines []byte) (int, error) {
	o.mu.Lock()
	if len(o.gathered)+len(lines) > maxHeld {
		o.lost += bytes.Count(lines, []byte{'\n'})
	} else {
		o.gathered = append(o.gathered, lines...)
	}
	o.mu.Unlock()
	o.signal()
	return len(lines), nil
}

// Reopen closes the file and opens it again by its name, which may be that of
// another file by now. If that fails, the old file stays in use.
func (o *Writer) Reopen() {
	o.mu.Lock()
	o.reopen = true
	o.mu.Unlock()
	o.signal()
}

// Close writes what has gathered and closes the file, or gives up after a
// second.
func (o *Writer) Close() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	o.signal()
	waitClosed(o.done)
}

// waitClosed waits for what is closing, for a while.
func waitClosed(done <-chan struct{}) {
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (o *Writer) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Writer) run(file io.WriteCloser) {
	defer close(o.done)
	var lines []byte // taken out, to be written
	written := 0     // bytes of them that were
	for range o.wake {
		// What the file did not take comes first.
		written += o.put(file, lines[written:])
		all := written == len(lines)

		o.mu.Lock()
		reopen, closing := o.reopen, o.closing
		o.reopen = false
		if all {
			lines, o.gathered, written = o.gathered, lines[:0], 0
		}
		o.mu.Unlock()

		// Lines from before a Reopen belong into the old file.
		if all {
			written = o.put(file, lines)
		}
		if reopen {
			if next, err := o.open(); err == nil {
				file.Close()
				file = next
				// The rest of a line that the old file has the front of
				// would be none in the new one.
				if written > 0 && lines[written-1] != '\n' {
					written += bytes.IndexByte(lines[written:], '\n') + 1
					o.lose(1)
				}
				o.signal()
			}
		}
		if closing {
			file.Close()
			return
		}
	}
}

// put writes lines and returns how many bytes of them it could.
func (o *Writer) put(file io.Writer, lines []byte) int {
	if len(lines) == 0 {
		return 0
	}
	n, err := file.Write(lines)
	if err != nil {
		return n
	}
	if lost := o.lose(0); lost > 0 && o.Lost != nil {
		o.lose(-lost)
		o.Lost(lost)
	}
	return n
}

// lose counts lines that are lost, and returns how many are by now.
func (o *Writer) lose(lines int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += lines
	return o.lost
}
