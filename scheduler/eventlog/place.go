package eventlog

// Places: the file or the socket that PARAMevent-log names.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	// Full is called with the limit when the file has reached it, once until it is opened
	// again or cut. It may write to other logs. nil: nobody is told.
	Full func(limit int64)

	lost    atomic.Uint64 // lines that the log says are lost
	mu      sync.Mutex
	counted uint64 // by Lost
}

// Lost returns how many lines were lost since the start, with those that are being lost
// now. It never returns less than before.
func (w *Writer) Lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	// While lines pass from one of the two counts to the other, they are in none.
	w.counted = max(w.counted, w.lost.Load()+uint64(w.Writer.Untold()))
	return w.counted
}

// Open opens the event log: a file, which is created with mode 0640 if there is
// none, or the stream socket UNIX:/path at which a reader listens. If no reader
// listens, the Writer tries again every second. A file that would have more than limit
// bytes takes no line until it is opened again or cut; 0: no limit. Open calls lostLines
// with the number of lines that were lost, from another goroutine.
func Open(place string, limit int64, lostLines func(lines int)) (*Writer, error) {
	w := new(Writer)
	open := func() (io.WriteCloser, error) {
		file, err := postoffice.OpenLog(place, 0o640)
		if err != nil || limit == 0 {
			return file, err
		}
		return &limited{File: file, limit: limit, full: func() {
			if w.Full != nil {
				w.Full(limit)
			}
		}}, nil
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
	w.Writer = out
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

// limited is a file that does not grow beyond its limit.
type limited struct {
	*os.File
	limit int64
	size  int64 // as it was last known; only a cut makes it smaller
	known bool
	full  func() // called once, and again after a cut
	told  bool
}

var errFull = errors.New("the event log has reached its limit")

// Write writes all of b or nothing: io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if !l.known || l.size+int64(len(b)) > l.limit {
		info, err := l.Stat()
		if err != nil {
			return 0, err
		}
		if info.Size() < l.size {
			l.told = false // it was cut
		}
		l.size, l.known = info.Size(), true
	}
	if l.size+int64(len(b)) > l.limit {
		if !l.told {
			l.told = true
			l.full()
		}
		return 0, errFull
	}
	n, err := l.File.Write(b)
	l.size += int64(n)
	return n, err
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
