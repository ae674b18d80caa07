package eventlog

// Places: the file or the socket that PARAMevent-log names.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"zsched/internal/asyncfile"
	"zsched/internal/postoffice"
)

// File returns the name of the file that a place means; "" if it is a socket.
func File(place string) string {
	if _, ok := socket(place); ok {
		return ""
	}
	return place
}

func socket(place string) (path string, ok bool) {
	if len(place) > 5 && strings.EqualFold(place[:5], "UNIX:") {
		return place[5:], true
	}
	return "", false
}

// Writer accepts lines without waiting. It buffers up to 4 MiB while the file or
// the reader does not accept them. Further lines are lost and counted; an event in
// the log says how many.
type Writer struct {
	*asyncfile.Writer
	lost atomic.Uint64
}

// Lost returns how many lines were lost since the start. Lines that are being lost now
// are counted as soon as the log can be written again.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Open opens the event log: a file, which is created with mode 0640 if there is
// none, or the stream socket UNIX:/path at which a reader listens. If no reader
// listens, the Writer tries again every second. It calls lostLines with the number
// of lines that were lost, from another goroutine.
func Open(place string, lostLines func(lines int)) (*Writer, error) {
	open := func() (io.WriteCloser, error) {
		return postoffice.OpenLog(place, 0o640)
	}
	path, ok := socket(place)
	if !filepath.IsAbs(place) && !ok {
		return nil, fmt.Errorf("%q is not an absolute path", place)
	}
	if ok {
		open = func() (io.WriteCloser, error) { return &connection{path: path}, nil }
	}
	out, err := asyncfile.Open(open)
	if err != nil {
		return nil, err
	}
	w := &Writer{Writer: out}
	out.Lost = func(n int) {
		w.lost.Add(uint64(n))
		var event line
		event.begin(time.Now(), lost)
		event.number(linesField, n)
		_, _ = out.Write(append(event.b, '}', '\n'))
		lostLines(n)
	}
	return w, nil
}

// connection is a connection to a reader, which is made again after it breaks.
type connection struct {
	path    string
	conn    net.Conn // nil: none
	retryAt time.Time
	midLine bool // the last byte that was written is not the end of a line
	torn    bool // the beginning of the current line went to an earlier connection
}

const (
	dialTimeout  = time.Second
	dialInterval = time.Second
)

var errNoReader = errors.New("nobody reads the event log")

// Write writes as much as the reader accepts: io.Writer. If the beginning of a line
// went to an earlier connection, the rest of that line is skipped.
func (c *connection) Write(b []byte) (n int, err error) {
	if c.conn == nil {
		if time.Now().Before(c.retryAt) {
			return 0, errNoReader
		}
		c.conn, err = net.DialTimeout("unix", c.path, dialTimeout)
		if err != nil {
			c.conn, c.retryAt = nil, time.Now().Add(dialInterval)
			return 0, err
		}
		c.torn = c.midLine
	}
	if c.torn {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return len(b), nil
		}
		n, c.torn, c.midLine = end+1, false, false
	}
	sent, err := c.conn.Write(b[n:])
	n += sent
	if sent > 0 {
		c.midLine = b[n-1] != '\n'
	}
	if err != nil {
		c.conn.Close()
		c.conn, c.retryAt = nil, time.Now()
	}
	return n, err
}

// Close closes the connection: io.Closer.
func (c *connection) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
