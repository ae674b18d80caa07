package xfer

// A link: the connection to one node, on which many sessions push at once.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"zsched/ta"
	"zsched/xfer"
)

// link is the connection to a node.
type link struct {
	ready chan struct{} // closed when the connection is open, or has failed
	conn  net.Conn      // nil: it was never open

	writing sync.Mutex // held while a push is written
	out     *bufio.Writer

	mu    sync.Mutex
	err   error // why the link has failed
	tag   uint64
	calls map[uint64]chan xfer.Reply // pushes without reply; closed when the link fails
}

const (
	// greetTimeout is how long a node may take to greet.
	greetTimeout = time.Minute
	// writeTimeout is how long a node may take to read what was sent.
	writeTimeout = 10 * time.Minute
)

// open greets the node over a new connection.
func (l *link) open(conn net.Conn, node string) error {
	in := bufio.NewReaderSize(conn, xfer.MaxLine)
	_ = conn.SetDeadline(time.Now().Add(greetTimeout))
	if err := xfer.Greet(conn, in, node); err != nil {
		_ = conn.Close()
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	l.conn, l.out, l.calls = conn, bufio.NewWriterSize(conn, 64<<10), make(map[uint64]chan xfer.Reply)
	go func() { l.fail(l.read(in)) }()
	return nil
}

// read gives replies to the sessions that wait for them, until the connection ends.
func (l *link) read(in *bufio.Reader) error {
	for {
		line, err := xfer.ReadLine(in)
		if err == io.EOF {
			return errors.New("the node has closed the connection")
		}
		if err != nil {
			return err
		}
		reply, err := xfer.ParseReply(line)
		if err != nil {
			return err
		}
		if reply.Tag == 0 {
			return fmt.Errorf("it answers %d %s", reply.Code, reply.Text)
		}
		l.mu.Lock()
		if call := l.calls[reply.Tag]; call != nil {
			call <- reply
		}
		delete(l.calls, reply.Tag)
		l.mu.Unlock()
	}
}

// fail ends the link and all pushes that wait for a reply.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	for _, call := range l.calls {
		close(call)
	}
	l.calls = nil
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// errLocal says that the message cannot be read, so that nothing was sent.
var errLocal = errors.New("reading the message")

// push sends a message and waits for the reply.
func (l *link) push(m *ta.Message, text []byte, timeout time.Duration) (xfer.Reply, error) {
	message, err := m.Whole()
	if err != nil {
		return xfer.Reply{}, fmt.Errorf("%w: %w", errLocal, err)
	}
	call := make(chan xfer.Reply, 1)
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return xfer.Reply{}, l.err
	}
	l.tag++
	push := xfer.Push{Tag: l.tag, Control: int64(len(text)), Message: m.Size, ModifiedAt: m.ModifiedAt.UnixNano()}
	l.calls[push.Tag] = call
	l.mu.Unlock()
	if err := l.send(&push, text, message); err != nil {
		// Half a message may be on the wire.
		l.fail(err)
		return xfer.Reply{}, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case reply, ok := <-call:
		if !ok {
			return reply, l.failure()
		}
		return reply, nil
	case <-timer.C:
		err := fmt.Errorf("no reply within %v", timeout)
		l.fail(err)
		return xfer.Reply{}, err
	}
}

// send writes a push, with the message file straight from the queue.
func (l *link) send(push *xfer.Push, text []byte, message io.Reader) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = l.out.WriteString(push.String() + "\n") // the last write returns the error
	_, _ = l.out.Write(text)
	if _, err := io.CopyN(l.out, message, push.Message); err != nil {
		return err
	}
	return l.out.Flush()
}

// close ends the connection.
func (l *link) close() {
	if l.failure() == nil {
		l.writing.Lock()
		_ = l.conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = l.out.WriteString("QUIT\n")
		_ = l.out.Flush()
		l.writing.Unlock()
	}
	l.fail(errors.New("the agent ends"))
}
