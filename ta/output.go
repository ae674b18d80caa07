package ta

import (
	"io"
	"sync"
	"time"
)

const (
	// outputHold is how long a line may wait for others to go with it, when
	// nobody flushes.
	outputHold = 5 * time.Millisecond
	// outputFull is how many bytes may wait.
	outputFull = 32 << 10
)

// output is the agent's side of the socket. Lines of any number of sessions
// gather while a write is under way and go in one write after it.
type output struct {
	w     io.Writer
	timer *time.Timer // flushes what was held long enough

	mu      sync.Mutex
	buf     []byte     // whole lines, not yet written
	spare   []byte     // the other of two buffers
	armed   bool       // timer runs
	writing bool       // somebody is in flush and will take buf too
	err     error      // of the first write that failed; all is lost from then on
	written *sync.Cond // writing has become false
}

func newOutput(w io.Writer) *output {
	o := &output{w: w}
	o.written = sync.NewCond(&o.mu)
	o.timer = time.AfterFunc(time.Hour, func() {
		o.mu.Lock()
		o.armed = false
		o.mu.Unlock()
		_ = o.flush() // whoever flushes next is told
	})
	o.timer.Stop()
	return o
}

// line adds a line, given without LF.
func (o *output) line(words ...string) {
	o.mu.Lock()
	for _, w := range words {
		o.buf = append(o.buf, w...)
	}
	o.buf = append(o.buf, '\n')
	o.added()
}

func (o *output) report(r Report) {
	o.mu.Lock()
	o.buf = AppendReport(o.buf, r)
	o.added()
}

// added ends what began with a lock.
func (o *output) added() {
	full := len(o.buf) >= outputFull
	if !full && !o.armed {
		o.armed = true
		o.timer.Reset(outputHold)
	}
	o.mu.Unlock()
	if full {
		_ = o.flush()
	}
}

// flush writes what there is, or leaves it to the one who is writing.
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

// broken says that nothing reaches the scheduler any more.
func (o *output) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// drain returns when all is written, by whomever.
func (o *output) drain() error {
	for {
		_ = o.flush() // what it says is in err, too
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

// close is drain, and the timer goes with it.
func (o *output) close() error {
	o.timer.Stop()
	return o.drain()
}
