package xfer

// A link: the connection to one node, on which many sessions push at once.

import (
	"bufio"
	"bytes"
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
	ended chan struct{} // closed when nothing more will be read
	syncs *groupSync    // of the agent

	writing sync.Mutex // held while a push is written
	out     *bufio.Writer
	waiting int // sessions that wait for writing; guarded by mu

	mu    sync.Mutex
	err   error // why the link has failed
	tag   uint64
	calls map[uint64]chan xfer.Reply // pushes without reply; closed when the link fails
}

// writeTimeout is how long a node may take to read what was sent.
const writeTimeout = 10 * time.Minute

// open greets the node over a new connection.
func (l *link) open(conn net.Conn, node string) error {
	in := bufio.NewReaderSize(conn, xfer.MaxLine)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	err := xfer.Greet(conn, in, node)
	if err != nil {
		_ = conn.Close()
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	l.conn, l.out, l.calls = conn, bufio.NewWriterSize(conn, 64<<10), make(map[uint64]chan xfer.Reply)
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		l.read(in)
	}()
	return nil
}

// read reads replies until the connection ends. It takes all that have arrived together,
// so that their sessions know of each other.
func (l *link) read(in *bufio.Reader) {
	for {
		var replies []xfer.Reply
		for len(replies) == 0 || bytes.IndexByte(buffered(in), '\n') >= 0 {
			line, err := xfer.ReadLine(in)
			if err == io.EOF {
				err = errors.New("the node has closed the connection")
			}
			var reply xfer.Reply
			if err == nil {
				reply, err = xfer.ParseReply(line)
			}
			if err == nil && reply.Tag == 0 {
				err = fmt.Errorf("it answers %d %s", reply.Code, reply.Text)
			}
			if err != nil {
				l.dispatch(replies)
				l.fail(err)
				return
			}
			replies = append(replies, reply)
		}
		l.dispatch(replies)
	}
}

func buffered(in *bufio.Reader) []byte {
	text, _ := in.Peek(in.Buffered())
	return text
}

// dispatch gives replies to the sessions that wait for them.
func (l *link) dispatch(replies []xfer.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := make([]chan xfer.Reply, len(replies))
	accepted := 0
	for i, reply := range replies {
		calls[i] = l.calls[reply.Tag]
		delete(l.calls, reply.Tag)
		if calls[i] != nil && reply.Code == xfer.Accepted {
			accepted++
		}
	}
	l.syncs.expect(accepted)
	for i, call := range calls {
		if call != nil {
			call <- replies[i]
		}
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
	tag := l.tag
	l.calls[tag] = call
	l.waiting++
	l.mu.Unlock()
	push := xfer.Push{
		Tag: tag, Control: int64(len(text)), Message: m.Size,
		ModifiedAt: m.ModifiedAt.UnixNano(), Owner: m.Owner(), Mode: messageMode,
	}
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
		l.fail(fmt.Errorf("no reply within %v", timeout))
		if reply, ok := <-call; ok {
			return reply, nil // it has come just now
		}
		return xfer.Reply{}, l.failure()
	}
}

// messageMode is the mode of a message file at the other node: agents can read it.
const messageMode = 0o440

// errLocal says that the message cannot be read, so that nothing was sent.
var errLocal = errors.New("reading the message")

// send writes a push, with the message file straight from the queue. The last of the
// sessions that wait flushes.
func (l *link) send(push *xfer.Push, text []byte, message io.Reader) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.waiting--
	last := l.waiting == 0
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = l.out.WriteString(push.String() + "\n") // the last write returns the error
	_, _ = l.out.Write(text)
	if _, err := io.CopyN(l.out, message, push.Message); err != nil {
		return err
	}
	if last {
		return l.out.Flush()
	}
	return nil
}

// done tells the node that recipients will not be pushed again.
func (l *link) done(d xfer.Done) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := l.out.WriteString(d.String() + "\n"); err != nil {
		return err
	}
	return l.out.Flush()
}

// closeTimeout is how long the node may take to close the connection after QUIT.
const closeTimeout = time.Second

// close ends the connection when the node has read everything.
func (l *link) close() {
	if l.failure() != nil {
		return
	}
	l.writing.Lock()
	_ = l.conn.SetDeadline(time.Now().Add(closeTimeout))
	_, _ = l.out.WriteString("QUIT\n")
	_ = l.out.Flush()
	l.writing.Unlock()
	<-l.ended
}
