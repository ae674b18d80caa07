package ta

// This file has the agent's side of the socket: lines of several sessions are
// written together.

import (
	"bufio"
	"io"
	"sync"
	"time"
)

const (
	// outputDelay is how long a line may wait for others to be written with it.
	outputDelay = 5 * time.Millisecond
	// maxOutputDelayed is how many bytes may wait.
	maxOutputDelayed = 32 << 10
)

// output is the agent's side of the socket. While a write is under way, the sessions wait.
type output struct {
	timer *time.Timer // flushes after outputDelay

	mu    sync.Mutex
	w     *bufio.Writer // after its first error nothing is written
	armed bool          // the timer is running
	shut  bool          // lines that come now are dropped
}

func newOutput(w io.Writer) *output {
	o := &output{w: bufio.NewWriterSize(w, maxOutputDelayed)}
	o.timer = time.AfterFunc(time.Hour, func() { _ = o.flush() }) // the next flush returns the error too
	o.timer.Stop()
	return o
}

// line adds a line, given as words without its LF.
func (o *output) line(words ...string) {
	o.add(func(b []byte) []byte {
		for _, w := range words {
			b = append(b, w...)
		}
		return append(b, '\n')
	})
}

func (o *output) report(r Report) {
	o.add(func(b []byte) []byte { return AppendReport(b, r) })
}

// add adds what f appends, which is written soon.
func (o *output) add(f func(b []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		return
	}
	_, _ = o.w.Write(f(o.w.AvailableBuffer())) // o.w keeps the error
	if !o.armed {
		o.armed = true
		o.timer.Reset(outputDelay)
	}
}

// shutWith drops all lines from now on, but for these, and writes the others.
func (o *output) shutWith(lines string) {
	o.mu.Lock()
	_, _ = o.w.WriteString(lines)
	o.shut = true
	o.mu.Unlock()
	_ = o.flush()
}

// flush writes all waiting lines.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = false
	return o.w.Flush()
}

// broken reports whether nothing reaches the scheduler any more.
func (o *output) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.w.Write(nil)
	return err != nil
}

// close writes the waiting lines and stops the timer.
func (o *output) close() error {
	o.timer.Stop()
	return o.flush()
}
