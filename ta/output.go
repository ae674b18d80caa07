package ta

// This file has the agent's side of the socket: lines of several sessions are
// written together.

import (
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

// output is the agent's side of the socket. While a write is under way, the
// lines of all sessions gather, and the next write takes them together.
type output struct {
	w     io.Writer
	timer *time.Timer // flushes after outputDelay

	mu      sync.Mutex
	buf     []byte     // whole lines, not yet written
	spare   []byte     // the other of two buffers
	armed   bool       // the timer is running
	shut    bool       // lines that come now are dropped
	writing bool       // a flush is under way, which will take buf too
	err     error      // of the first write that failed; nothing is written after it
	written *sync.Cond // signals that writing has become false
}

func newOutput(w io.Writer) *output {
	o := &output{w: w}
	o.written = sync.NewCond(&o.mu)
	o.timer = time.AfterFunc(time.Hour, func() {
		o.mu.Lock()
		o.armed = false
		o.mu.Unlock()
		_ = o.flush() // the next flush returns the error too
	})
	o.timer.Stop()
	return o
}

// line adds a line, given as words without its LF.
func (o *output) line(words ...string) {
	o.mu.Lock()
	if o.shut {
		o.mu.Unlock()
		return
	}
	for _, w := range words {
		o.buf = append(o.buf, w...)
	}
	o.buf = append(o.buf, '\n')
	o.unlockAndFlush()
}

func (o *output) report(r Report) {
	o.mu.Lock()
	o.buf = AppendReport(o.buf, r)
	o.unlockAndFlush()
}

// shutWith drops all lines from now on, but for these, and writes the others.
func (o *output) shutWith(lines string) {
	o.mu.Lock()
	o.buf = append(o.buf, lines...)
	o.shut = true
	o.mu.Unlock()
	_ = o.flush()
}

// unlockAndFlush unlocks o after a line was added, and flushes it now or soon.
func (o *output) unlockAndFlush() {
	full := len(o.buf) >= maxOutputDelayed
	if !full && !o.armed {
		o.armed = true
		o.timer.Reset(outputDelay)
	}
	o.mu.Unlock()
	if full {
		_ = o.flush()
	}
}

// flush writes all waiting lines, or leaves them to the flush that is under way.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		return o.err
	}
	o.writing = true
	for len(o.buf) > 0 && o.err == nil {
		b := o.buf
		o.buf = o.spare[:0]
		o.mu.Unlock()
		_, err := o.w.Write(b)
		o.mu.Lock()
		o.spare, o.err = b, err
	}
	o.writing = false
	o.written.Broadcast()
	return o.err
}

// broken reports whether nothing reaches the scheduler any more.
func (o *output) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// drain returns when everything is written, by this flush or another.
func (o *output) drain() error {
	for {
		_ = o.flush() // its error is in o.err too
		o.mu.Lock()
		for o.writing {
			o.written.Wait()
		}
		err, done := o.err, len(o.buf) == 0
		o.mu.Unlock()
		if done || err != nil {
			return err
		}
	}
}

// close drains o and stops its timer.
func (o *output) close() error {
	o.timer.Stop()
	return o.drain()
}
