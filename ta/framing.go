package ta

// This file writes the text of a message with the lines that its reader wants.

import (
	"bufio"
	"bytes"
	"io"
)

// Framing says how lines are written. Without any of it, a text stays as it is, but for the
// end of its last line.
type Framing struct {
	// CRLF ends lines with CRLF: those that end with LF, with CRLF or with a lone CR, so that
	// no reader sees a line end where another sees none.
	CRLF bool
	Dots bool // a dot at the beginning of a line is doubled
	From bool // ">" comes before "From " at the beginning of a line
}

// ReadError means that a message cannot be read. Other errors of Write mean that it could not
// be written.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return "read the message: " + e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// framingBlock is how much of a text is read at once, in bytes.
const framingBlock = 32 << 10

// Write writes a text of a size in bytes. The last line gets an end if it has none. The text
// begins where a line begins.
func (f Framing) Write(w *bufio.Writer, text io.Reader, size int64) error {
	in := bufio.NewReaderSize(text, int(min(size, framingBlock)))
	start := true
	for size > 0 {
		piece, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull && piece[len(piece)-1] == '\r' {
			_ = in.UnreadByte() // the LF may follow
			piece = piece[:len(piece)-1]
		}
		if size -= int64(len(piece)); err == io.EOF && size > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return &ReadError{err}
		}
		start = f.piece(w, piece, start)
	}
	if !start {
		f.endLine(w)
	}
	_, err := w.Write(nil) // w keeps its first error
	return err
}

// piece writes a line, or a part of a long one. start says that a line begins with it. It
// returns whether the next piece begins a line.
func (f Framing) piece(w *bufio.Writer, b []byte, start bool) bool {
	b, ended := bytes.CutSuffix(b, []byte{'\n'})
	if f.CRLF && ended {
		b = bytes.TrimSuffix(b, []byte{'\r'})
	}
	for more := true; more; {
		line := b
		if more = false; f.CRLF {
			line, b, more = bytes.Cut(b, []byte{'\r'})
		}
		switch {
		case !start:
		case f.Dots && bytes.HasPrefix(line, []byte{'.'}):
			_ = w.WriteByte('.')
		case f.From && bytes.HasPrefix(line, []byte("From ")):
			_ = w.WriteByte('>')
		}
		_, _ = w.Write(line)
		if start = start && len(line) == 0; more {
			f.endLine(w)
			start = true
		}
	}
	if ended {
		f.endLine(w)
	}
	return start || ended
}

func (f Framing) endLine(w *bufio.Writer) {
	if f.CRLF {
		_ = w.WriteByte('\r')
	}
	_ = w.WriteByte('\n')
}
