package child

import (
	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// Send gives the agent b. It never blocks: what the socket does not take at
// once is kept and written later, in order. It takes all of b or nothing:
// ErrBacklog when more than MaxPending would be kept, ErrClosed after
// CloseWrite or when the agent has gone.
func (c *Child) Send(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return ErrClosed
	case c.draining:
		if len(c.pending)+len(b) > MaxPending {
			return ErrBacklog
		}
		c.pending = append(c.pending, b...)
		return nil
	case len(b) > MaxPending:
		return ErrBacklog
	}
	n, err := c.write(b)
	if err != nil {
		c.closing = true
		return ErrClosed
	}
	if n < len(b) {
		c.pending = append(c.pending, b[n:]...)
		c.draining = true
		c.finished.Add(1)
		go c.drain()
	}
	return nil
}

// CloseWrite shows the agent end of file after all that was sent. Send is an
// error from now on.
func (c *Child) CloseWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing && !c.draining {
		c.shutdown()
	}
	c.closing = true
}

// write gives the socket what it takes without waiting.
func (c *Child) write(b []byte) (n int, err error) {
	var sent error
	err = c.raw.Write(func(fd uintptr) bool {
		n, sent = eintr.Retry1(func() (int, error) {
			return unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
		return true
	})
	if err == nil && sent != nil && sent != unix.EAGAIN {
		err = sent
	}
	return max(n, 0), err
}

// drain writes what is pending until nothing is, as fast as the agent reads.
func (c *Child) drain() {
	defer c.finished.Done()
	for {
		c.mu.Lock()
		b := c.pending
		c.pending = nil
		if len(b) == 0 {
			c.draining = false
			if c.closing {
				c.shutdown()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		if _, err := c.sock.Write(b); err != nil {
			c.mu.Lock()
			c.pending, c.draining, c.closing = nil, false, true
			c.mu.Unlock()
			return
		}
	}
}

// shutdown tells the agent that nothing more comes. An error means that it is
// gone.
func (c *Child) shutdown() {
	c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
}
