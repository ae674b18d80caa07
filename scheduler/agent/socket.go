package agent

// This file writes to and reads from an agent's socket.

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Send sends b to the agent. It never blocks: what the socket does not take at
// once is kept and written later, in order. It accepts all of b or nothing: the
// error is ErrBacklog if more than MaxPending would be kept, and ErrClosed after
// CloseWrite or when the agent is gone.
func (c *Agent) Send(b []byte) error {
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

// CloseWrite makes the agent read end of file after everything that was sent.
// Send returns an error from then on.
func (c *Agent) CloseWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing && !c.draining {
		c.shutdown()
	}
	c.closing = true
}

// write writes what the socket takes without waiting.
func (c *Agent) write(b []byte) (n int, err error) {
	var sent error
	err = c.raw.Write(func(fd uintptr) bool {
		n, sent = postoffice.Retry1(func() (int, error) {
			return unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
		return true
	})
	if err == nil && sent != nil && sent != unix.EAGAIN {
		err = sent
	}
	return max(n, 0), err
}

// drain writes what is pending, as fast as the agent reads, until nothing is left.
func (c *Agent) drain() {
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

// shutdown closes our direction of the socket. An error means that the agent is
// gone.
func (c *Agent) shutdown() {
	c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
}

// drainLimit is how many bytes are read from a stream after the grace period.
// A socket or pipe holds less, so everything that the process itself wrote is
// read, however late we are. A descendant that writes forever is cut off.
const drainLimit = 4 << 20

// stream reads a file. After the file's read deadline it reads only what is
// there already.
type stream struct {
	f    *os.File
	late bool // the deadline has passed
	left int  // bytes of drainLimit that may still be read, once late
	held bool // it ended although a process has the other end open
}

// Read returns io.EOF for every error. A connection reset also means that the
// agent is gone: it occurs when the agent closes its socket with unread input.
func (s *stream) Read(b []byte) (int, error) {
	if !s.late {
		n, err := s.f.Read(b)
		if n > 0 {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, io.EOF
		}
		s.late, s.left = true, drainLimit
	}
	n := s.take(b[:min(len(b), s.left)])
	s.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take reads without waiting; 0 means the end.
func (s *stream) take(b []byte) int {
	if len(b) == 0 {
		s.held = true
		return 0
	}
	conn, err := s.f.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	conn.Control(func(fd uintptr) {
		n, err = postoffice.Retry1(func() (int, error) { return unix.Read(int(fd), b) })
	})
	s.held = err == unix.EAGAIN
	return max(n, 0)
}
