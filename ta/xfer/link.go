package xfer

// A link: a connection to a node, on which one session pushes at a time.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"zsched/ta"
	"zsched/xfer"
)

// link is a connection to a node.
type link struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
}

const (
	// greetTimeout is how long a node may take to greet.
	greetTimeout = time.Minute
	// writeTimeout is how long a node may take to read what was sent.
	writeTimeout = 10 * time.Minute
)

// newLink greets the node over a new connection.
func newLink(conn net.Conn, node string) (*link, error) {
	l := &link{conn, bufio.NewReaderSize(conn, xfer.MaxLine), bufio.NewWriterSize(conn, 64<<10)}
	_ = conn.SetDeadline(time.Now().Add(greetTimeout))
	if err := xfer.Greet(conn, l.in, node); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

// errLocal says that the message cannot be read, so that nothing was sent.
var errLocal = errors.New("reading the message")

// push sends a message and waits for the reply. After an error other than errLocal the link
// cannot be used again.
func (l *link) push(m *ta.Message, text []byte, timeout time.Duration) (xfer.Reply, error) {
	message, err := m.Whole()
	if err != nil {
		return xfer.Reply{}, fmt.Errorf("%w: %w", errLocal, err)
	}
	push := xfer.Push{Tag: 1, Control: int64(len(text)), Message: m.Size, ModifiedAt: m.ModifiedAt.UnixNano()}
	if err := l.send(&push, text, message); err != nil {
		return xfer.Reply{}, err
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(timeout))
	line, err := xfer.ReadLine(l.in)
	switch {
	case err == io.EOF:
		return xfer.Reply{}, errors.New("the node has closed the connection")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return xfer.Reply{}, fmt.Errorf("no reply within %v", timeout)
	case err != nil:
		return xfer.Reply{}, err
	}
	reply, err := xfer.ParseReply(line)
	if err == nil && reply.Tag != push.Tag {
		err = fmt.Errorf("it answers %d %s", reply.Code, reply.Text)
	}
	return reply, err
}

// send writes a push, with the message file straight from the queue.
func (l *link) send(push *xfer.Push, text []byte, message io.Reader) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = l.out.WriteString(push.String() + "\n") // the last write returns the error
	_, _ = l.out.Write(text)
	if _, err := io.CopyN(l.out, message, push.Message); err != nil {
		return err
	}
	return l.out.Flush()
}

// quit ends a connection that works.
func (l *link) quit() {
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = l.out.WriteString("QUIT\n")
	_ = l.out.Flush()
	_ = l.conn.Close()
}
