package ta

// This file reads lines of bounded length, for both sides.

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Errors that LineReader.Next returns together with bytes that are not a
// complete line.
var (
	// ErrLong says that the line is longer than allowed. Its beginning is
	// returned; the rest, up to its LF, is dropped.
	ErrLong = errors.New("line is too long")
	// ErrTail says that the stream ended within a line. The part that
	// arrived is returned. It must not be taken for a complete line.
	ErrTail = errors.New("stream ended within a line")
)

// LineReader cuts a stream into lines of bounded length. It keeps no more than
// one line of that length in memory, and far less while lines are short.
type LineReader struct {
	r    *bufio.Reader
	max  int    // longest line, without LF
	long []byte // a line that is longer than the buffer of r
	err  error  // of the stream, which has ended
}

// NewLineReader reads lines of at most max bytes from r.
func NewLineReader(r io.Reader, max int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 4096), max: max}
}

// Next returns the next line without its LF. The bytes are valid until the next
// call. The error is ErrLong or ErrTail, together with bytes, or the stream's:
// io.EOF at its end.
func (l *LineReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = l.readLong(line)
	}
	l.err = err
	body, whole := bytes.CutSuffix(line, []byte{'\n'})
	switch {
	case len(body) > l.max:
		return body[:l.max], ErrLong
	case whole:
		return body, nil
	case len(body) > 0:
		return body, ErrTail
	}
	return nil, err
}

// readLong reads the rest of a line, and returns no more of the line than shows whether it is
// too long.
func (l *LineReader) readLong(part []byte) (line []byte, err error) {
	l.long = l.long[:0]
	for {
		l.long = append(l.long, part[:min(len(part), l.max+1-len(l.long))]...)
		if err != nil && err != bufio.ErrBufferFull || bytes.HasSuffix(part, []byte{'\n'}) {
			return l.long, err
		}
		part, err = l.r.ReadSlice('\n')
	}
}

// Buffered reports whether Next would return something without reading.
func (l *LineReader) Buffered() bool {
	held, _ := l.r.Peek(l.r.Buffered())
	return l.err != nil || bytes.IndexByte(held, '\n') >= 0
}
