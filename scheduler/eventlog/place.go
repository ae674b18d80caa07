package eventlog

// Places: the file or the socket that PARAMevent-log names.

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

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

// dialTimeout bounds how long a reader may take to accept a connection.
const dialTimeout = time.Second

// Open opens the event log: a file, which is created with mode 0640 if there is
// none, or the stream socket UNIX:/path at which a reader listens. If no reader
// listens, the Writer tries again every second. When lines were lost, an event in the log
// says how many; Open also calls lostLines with the number, from another goroutine.
func Open(place string, lostLines func(lines int)) (out *logs.Writer, err error) {
	path, isSocket := socket(place)
	switch {
	case isSocket:
		out = logs.OpenLater(func() (io.WriteCloser, error) { return net.DialTimeout("unix", path, dialTimeout) })
	case !filepath.IsAbs(place):
		return nil, fmt.Errorf("%q is not an absolute path", place)
	default:
		out, err = logs.Open(func() (io.WriteCloser, error) { return postoffice.OpenLog(place, 0o640) })
		if err != nil {
			return nil, err
		}
	}
	log := zerolog.New(out)
	out.Lost = func(n int) {
		beginLine(&log, time.Now(), "lost").number("lines", n).write()
		lostLines(n)
	}
	return out, nil
}
