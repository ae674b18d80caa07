package eventlog

// The file of the event log, which PARAMevent-log names.

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logindex"
	"zsched/internal/logs"
	"zsched/internal/postoffice"
)

// Open opens the event log, which is created with mode 0640 if there is none. Its writer
// does not wait, and writes an index, too. When lines were lost, an event in the log says how many.
func Open(path string) (*logs.Writer, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q is not an absolute path", path)
	}
	out, err := logs.Open(func() (io.WriteCloser, error) {
		file, err := postoffice.OpenLog(path, 0o640)
		if err != nil {
			return nil, err
		}
		return logindex.Open(file), nil
	})
	if err != nil {
		return nil, err
	}
	log := zerolog.New(out)
	out.Lost = func(n int) { beginLine(&log, time.Now(), "lost").number("lines", n).write() }
	return out, nil
}
