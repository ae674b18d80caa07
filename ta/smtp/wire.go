package smtp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// wire is a connection in lines, with a time limit for everything. Writes
// gather until the next reply is wanted, which is what pipelining is.
type wire struct {
	nc     net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	write  time.Duration // a write may take so long
	trace  func(direction, line string)
	closed bool
}

// The directions of a transcript.
const (
	ours   = "<<-"
	theirs = "->>"
)

func newWire(nc net.Conn, write time.Duration, trace func(direction, line string)) *wire {
	w := &wire{write: write, trace: trace}
	w.attach(nc)
	return w
}

// attach goes on over another connection: TLS over the first.
func (w *wire) attach(nc net.Conn) {
	w.nc = nc
	w.r = bufio.NewReaderSize(nc, 4096)
	w.w = bufio.NewWriterSize(timedWriter{w}, 4096)
}

// timedWriter gives each write its time.
type timedWriter struct{ w *wire }

func (t timedWriter) Write(b []byte) (int, error) {
	if err := t.w.nc.SetWriteDeadline(time.Now().Add(t.w.write)); err != nil {
		return 0, err
	}
	return t.w.nc.Write(b)
}

// send adds a command to what goes out with the next reply that is waited for.
func (w *wire) send(line string) error {
	w.trace(ours, line)
	return w.sendQuietly(line)
}

// sendQuietly is send of what must not be seen in logs.
func (w *wire) sendQuietly(line string) error {
	if _, err := w.w.WriteString(line); err != nil {
		return err
	}
	_, err := w.w.WriteString("\r\n")
	return err
}

// reply sends what has gathered and reads one reply.
func (w *wire) reply(limit time.Duration) (Reply, error) {
	if err := w.w.Flush(); err != nil {
		return Reply{}, fmt.Errorf("write: %w", err)
	}
	return w.readReply(limit)
}

// readReply reads one reply, whether or not all that was to go out has gone.
func (w *wire) readReply(limit time.Duration) (Reply, error) {
	if err := w.nc.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return Reply{}, err
	}
	var lines []string
	for {
		line, err := w.line()
		if err != nil {
			return Reply{}, err
		}
		w.trace(theirs, line)
		code, last, err := parseReplyLine(line)
		if err != nil {
			return Reply{}, err
		}
		if lines = append(lines, line); last {
			return newReply(code, lines), nil
		}
		if len(lines) == maxReplyLines {
			return Reply{}, fmt.Errorf("%w: a reply of more than %d lines", errProtocol, maxReplyLines)
		}
	}
}

// line reads one line. What makes it too long is dropped, up to a bound.
func (w *wire) line() (string, error) {
	var line []byte
	for dropped := 0; ; {
		part, err := w.r.ReadSlice('\n')
		room := min(len(part), maxReplyLine-len(line))
		line = append(line, part[:room]...)
		if dropped += len(part) - room; dropped > 1<<20 {
			return "", fmt.Errorf("%w: a line without end", errProtocol)
		}
		switch {
		case err == nil:
			return visible(strings.TrimRight(string(line), "\r\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF:
			return "", errors.New("peer closed the connection")
		default:
			return "", fmt.Errorf("read: %w", err)
		}
	}
}

// visible has no control characters: what a peer says ends up in logs and on
// terminals.
func visible(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}

// command sends one command and reads its reply.
func (w *wire) command(limit time.Duration, line string) (Reply, error) {
	if err := w.send(line); err != nil {
		return Reply{}, err
	}
	return w.reply(limit)
}

// quit takes leave and closes. The answer is not waited for: nothing depends
// on it, and the place is wanted.
func (w *wire) quit() {
	w.write = min(w.write, 2*time.Second)
	if w.send("QUIT") == nil {
		_ = w.w.Flush()
	}
	w.close()
}

func (w *wire) close() {
	if !w.closed {
		w.closed = true
		_ = w.nc.Close()
		w.trace(ours, "(close)")
	}
}

// why is an error of a connection in words for people, without the addresses
// and file descriptors that net puts into it.
func why(err error) string {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.As(err, &op):
		err = op.Err
	}
	var system *os.SyscallError
	if errors.As(err, &system) {
		err = system.Err
	}
	return err.Error()
}
