package ta

import (
	"bytes"
	"errors"
	"fmt"
)

// Job is one job line: work for one agent on one message.
type Job struct {
	Path string // control file below transport/: hash prefix and name
	Host string // the thread's host, lower case
	// WithHost says that the command line already named the host ($host), so
	// that the line is the path alone.
	WithHost bool
}

// The lines other than job lines that the scheduler writes, without their LF.
const (
	IdleLine  = "#idle" // nothing to do; answer with HungryLine
	LeaveLine = ""      // finish and exit
)

// AppendJob appends the job line j with its LF. A TAB or LF, which neither a
// path nor a host can hold, is written as '?': it must not start a new column
// or line.
func AppendJob(b []byte, j Job) []byte {
	b = appendClean(b, j.Path, '?', '?')
	if !j.WithHost {
		b = append(b, '\t')
		b = appendClean(b, j.Host, '?', '?')
	}
	return append(b, '\n')
}

// ParseJob reads a job line, without its LF, as an agent sees it. A line
// without TAB has no host (WithHost); columns after the second are ignored.
func ParseJob(line []byte) (Job, error) {
	path, rest, tab := bytes.Cut(line, []byte{'\t'})
	switch {
	case len(line) > MaxLine:
		return Job{}, fmt.Errorf("job line of %d bytes", len(line))
	case len(path) == 0:
		return Job{}, fmt.Errorf("job line %q names no control file", clip(line))
	case path[0] == '#':
		return Job{}, fmt.Errorf("job line %q is a word of the protocol", clip(line))
	case bytes.IndexByte(line, '\n') >= 0:
		return Job{}, errors.New("job line holds a line feed")
	case !tab:
		return Job{Path: string(path), WithHost: true}, nil
	}
	host, _, _ := bytes.Cut(rest, []byte{'\t'})
	return Job{Path: string(path), Host: string(host)}, nil
}

// appendClean appends s with its TABs and LFs replaced.
func appendClean(b []byte, s string, tab, lf byte) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\t':
			b = append(b, tab)
		case '\n':
			b = append(b, lf)
		default:
			b = append(b, c)
		}
	}
	return b
}

// clip shortens what is quoted in a message to a length a log can bear.
func clip(b []byte) []byte {
	if len(b) > 200 {
		return b[:200]
	}
	return b
}
