// This file holds the connection as lines. Commands are buffered and sent together
// when a reply is needed, which is pipelining (RFC 2920). Every read and write has
// a timeout.

package smtp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"zsched/internal/text"
)

// wire sends commands and reads replies.
type wire struct {
	raw          syscall.Conn // the connection
	nc           net.Conn     // the same, or TLS over it
	r            *bufio.Reader
	w            *bufio.Writer
	writeTimeout time.Duration
	trace        func(direction, line string) // called with every line
	closed       bool
}

func newWire(nc net.Conn, writeTimeout time.Duration, trace func(direction, line string)) *wire {
	w := &wire{writeTimeout: writeTimeout, trace: trace}
	w.raw, _ = nc.(syscall.Conn)
	w.attach(nc)
	return w
}

// attach replaces the connection, for example with TLS over it.
func (w *wire) attach(nc net.Conn) {
	w.nc = nc
	w.r = bufio.NewReaderSize(nc, 4096)
	w.w = bufio.NewWriterSize(timedWriter{w}, 16<<10)
}

// timedWriter gives each write its timeout.
type timedWriter struct{ w *wire }

func (t timedWriter) Write(b []byte) (int, error) {
	if err := t.w.nc.SetWriteDeadline(time.Now().Add(t.w.writeTimeout)); err != nil {
		return 0, err
	}
	return t.w.nc.Write(b)
}

// send buffers a command, which is sent when the next reply is read.
func (w *wire) send(line string) error {
	w.trace(ours, text.Escape(line))
	return w.sendUnlogged(line)
}

// sendUnlogged is send for a line that must not appear in logs.
func (w *wire) sendUnlogged(line string) error {
	if _, err := w.w.WriteString(line); err != nil {
		return err
	}
	_, err := w.w.WriteString("\r\n")
	return err
}

// command sends one command and reads its reply.
func (w *wire) command(timeout time.Duration, line string) (Reply, error) {
	if err := w.send(line); err != nil {
		return Reply{}, err
	}
	return w.reply(timeout)
}

// reply sends the buffered commands and reads one reply.
func (w *wire) reply(timeout time.Duration) (Reply, error) {
	if err := w.w.Flush(); err != nil {
		return Reply{}, fmt.Errorf("write: %w", err)
	}
	return w.readReply(timeout)
}

// readReply reads one reply without sending anything.
func (w *wire) readReply(timeout time.Duration) (Reply, error) {
	if err := w.nc.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return Reply{}, err
	}
	var lines []string
	size, traced, n, cut := 0, 0, 0, false
	for {
		line, err := w.line()
		if err != nil {
			return Reply{}, err
		}
		code, last, err := parseReplyLine(line)
		switch {
		case traced < maxTraced, last, err != nil:
			w.trace(theirs, line)
		case !cut:
			cut = true
			w.trace(theirs, "...")
		}
		traced += len(line)
		if err != nil {
			return Reply{}, err
		}
		lines, size = append(lines, line), size+len(line)
		for size > maxText && len(lines) > 3 {
			// Keep the first line and the last ones, and say so in the second.
			size += len("250-...") - len(lines[1]) - len(lines[2])
			lines = slices.Replace(lines, 1, 3, line[:3]+"-...")
		}
		if last {
			return newReply(code, lines), nil
		}
		if n++; n == maxReplyLines {
			return Reply{}, fmt.Errorf("%w: a reply of more than %d lines", errProtocol, maxReplyLines)
		}
	}
}

// maxTraced is how much of a reply goes into the log, in bytes, before its last line.
const maxTraced = 1000

// maxDropped is how much of a line may be dropped, in bytes.
const maxDropped = 1 << 20

// line reads one line. It drops the end of a line that is too long.
func (w *wire) line() (string, error) {
	// The buffer is longer than maxReplyLine, so the first part is enough.
	part, err := w.r.ReadSlice('\n')
	line := string(part[:min(len(part), maxReplyLine)])
	for dropped := len(part) - len(line); errors.Is(err, bufio.ErrBufferFull); dropped += len(part) {
		if dropped > maxDropped {
			return "", fmt.Errorf("%w: a line without end", errProtocol)
		}
		part, err = w.r.ReadSlice('\n')
	}
	switch {
	case err == io.EOF:
		return "", errors.New("peer closed the connection")
	case err != nil:
		return "", fmt.Errorf("read: %w", err)
	}
	return text.Escape(strings.TrimRight(line, "\r\n")), nil
}

// quit sends QUIT and closes the connection. It does not wait for the reply,
// because nothing depends on it.
func (w *wire) quit() {
	w.writeTimeout = min(w.writeTimeout, 2*time.Second)
	if w.send("QUIT") == nil {
		_ = w.w.Flush()
	}
	w.close()
}

// hasInput reports whether a read would return at once: with bytes, the end of the
// stream, or an error.
func (w *wire) hasInput() bool {
	if w.r.Buffered() > 0 {
		return true
	}
	raw, err := w.raw.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	e := raw.Control(func(fd uintptr) {
		_, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	if e != nil || err != syscall.EAGAIN {
		return true
	}
	if _, ok := w.nc.(*tls.Conn); !ok {
		return false
	}
	// The library may have read what it has not handed out.
	if err := w.nc.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return true
	}
	_, err = w.r.Peek(1)
	return !isTimeout(err)
}

func (w *wire) close() {
	if !w.closed {
		w.closed = true
		_ = w.nc.Close()
		w.trace(ours, "(close)")
	}
}

// why returns the error of a connection as a text for users, without the addresses
// and the operation that package net adds.
func why(err error) string {
	var op *net.OpError
	switch {
	case isTimeout(err):
		return "timed out"
	case errors.As(err, &op):
		err = op.Err
	}
	var system *os.SyscallError
	if errors.As(err, &system) {
		err = system.Err
	}
	return text.Escape(err.Error()) // a certificate may have any text in its names
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
