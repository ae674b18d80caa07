package ta

// This file reads lines of bounded length, for both sides.

import (
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
	r   io.Reader
	max int // longest line, without LF
	// buf[next:end] is read and not yet returned; buf[next:seen] is known to
	// hold no LF. Invariant: next <= seen <= end.
	buf             []byte
	next, seen, end int
	dropping        bool  // within the rest of an overlong line
	err             error // of the stream, returned when buf is empty
}

// NewLineReader reads lines of at most max bytes from r.
func NewLineReader(r io.Reader, max int) *LineReader {
	return &LineReader{r: r, max: max, buf: make([]byte, min(4096, max+1))}
}

// Next returns the next line without its LF. The bytes are valid until the next
// call. The error is ErrLong or ErrTail, together with bytes, or the stream's:
// io.EOF at its end.
func (l *LineReader) Next() ([]byte, error) {
	for {
		if line, ok := l.cut(); ok {
			if l.dropping {
				l.dropping = false
				continue
			}
			return line, nil
		}
		switch held := l.buf[l.next:l.end]; {
		case l.dropping:
			l.next, l.seen, l.end = 0, 0, 0
		case len(held) > l.max:
			l.dropping = true
			l.next = l.end
			return held[:l.max], ErrLong
		case l.err != nil && len(held) > 0:
			l.next = l.end
			return held, ErrTail
		}
		if l.err != nil {
			return nil, l.err
		}
		l.fill()
	}
}

// Buffered reports whether Next would return something without reading.
func (l *LineReader) Buffered() bool {
	if l.err != nil {
		return true
	}
	i := bytes.IndexByte(l.buf[l.seen:l.end], '\n')
	if i >= 0 {
		l.seen += i
		return !l.dropping || bytes.IndexByte(l.buf[l.seen+1:l.end], '\n') >= 0
	}
	l.seen = l.end
	return !l.dropping && l.end-l.next > l.max
}

// cut takes a complete line off the buffer.
func (l *LineReader) cut() ([]byte, bool) {
	i := bytes.IndexByte(l.buf[l.seen:l.end], '\n')
	if i < 0 {
		l.seen = l.end
		return nil, false
	}
	line := l.buf[l.next : l.seen+i]
	l.next = l.seen + i + 1
	l.seen = l.next
	return line, true
}

// fill reads once, after making room: the buffer grows until it holds the
// longest line and its LF, never beyond.
func (l *LineReader) fill() {
	if l.next > 0 {
		l.end = copy(l.buf, l.buf[l.next:l.end])
		l.seen -= l.next
		l.next = 0
	}
	if l.end == len(l.buf) {
		grown := make([]byte, min(2*len(l.buf), l.max+1))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	// A Reader may return 0 bytes without an error. It is then called again, but
	// not forever.
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if l.err = err; n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
