package daemon

import (
	"bytes"
	"io"
	"sync"
)

// outletLimit bounds what an Outlet holds for a file that does not take it.
const outletLimit = 4 << 20

// Outlet appends lines to a file without making the writer wait: what has
// gathered while the file took the lines before goes out in one write. So
// nothing lies about in an idle daemon, and a busy one writes in large pieces.
// What a file does not take (a full disk, a stopped terminal) is kept up to
// 4 MiB; lines beyond that are lost, and counted.
type Outlet struct {
	// Lost is called with the number of lines lost, once lines go out again.
	// It may write to the Outlet. Nil: nobody is told.
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

// NewOutlet opens the file with open, which is called again, from another
// goroutine, at each Reopen.
func NewOutlet(open func() (io.WriteCloser, error)) (*Outlet, error) {
	file, err := open()
	if err != nil {
		return nil, err
	}
	o := &Outlet{open: open, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.run(file)
	return o, nil
}

// Write takes whole lines. It never waits and never fails.
func (o *Outlet) Write(lines []byte) (int, error) {
	o.mu.Lock()
	if len(o.gathered)+len(lines) > outletLimit {
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
func (o *Outlet) Reopen() {
	o.mu.Lock()
	o.reopen = true
	o.mu.Unlock()
	o.signal()
}

// Close writes what has gathered and closes the file.
func (o *Outlet) Close() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	o.signal()
	<-o.done
}

func (o *Outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outlet) run(file io.WriteCloser) {
	defer close(o.done)
	var spare []byte
	for range o.wake {
		o.mu.Lock()
		lines, lost, reopen, closing := o.gathered, o.lost, o.reopen, o.closing
		o.gathered, o.lost, o.reopen = spare[:0], 0, false
		o.mu.Unlock()

		// Lines written before a Reopen belong into the old file.
		if len(lines) > 0 {
			if n, err := file.Write(lines); err != nil {
				lost += bytes.Count(lines[n:], []byte{'\n'})
			} else if lost > 0 && o.Lost != nil {
				o.Lost(lost)
				lost = 0
			}
		}
		spare = lines // never the one that is being filled
		if lost > 0 {
			o.mu.Lock()
			o.lost += lost
			o.mu.Unlock()
		}
		if reopen {
			if next, err := o.open(); err == nil {
				file.Close()
				file = next
			}
		}
		if closing {
			file.Close()
			return
		}
	}
}
