package eventlog

// Places: the file or the socket that PARAMevent-log names.

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"zsched/internal/logs"
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

// Writer accepts lines without waiting (logs.Writer). When lines were lost, an event in
// the log says how many.
type Writer struct{ *logs.Writer }

// dialTimeout bounds how long a reader may take to accept a connection.
const dialTimeout = time.Second

// Open opens the event log: a file, which is created with mode 0640 if there is
// none, or the stream socket UNIX:/path at which a reader listens. If no reader
// listens, the Writer tries again every second. Open calls lostLines with the number of
// lines that were lost, from another goroutine.
func Open(place string, lostLines func(lines int)) (*Writer, error) {
	var out *logs.Writer
	if path, ok := socket(place); ok {
		out = logs.OpenLater(func() (io.WriteCloser, error) { return net.DialTimeout("unix", path, dialTimeout) })
	} else if !filepath.IsAbs(place) {
		return nil, fmt.Errorf("%q is not an absolute path", place)
	} else {
		var err error
		out, err = logs.Open(func() (io.WriteCloser, error) { return postoffice.OpenLog(place, 0o640) })
		if err != nil {
			return nil, err
		}
	}
	out.Lost = func(n int) {
		var event line
		event.begin(time.Now(), lost)
		event.number(linesField, n)
		_, _ = out.Write(append(event.b, '}', '\n'))
		lostLines(n)
	}
	return &Writer{out}, nil
}
