// This file holds the message as it is sent: line ends, and doubled dots.

package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// content is a message as it is sent: the header of the control file, an empty
// line, and the body from its offset on, which is read while it is sent.
type content struct {
	header string // with LF line ends and the empty line after it
	body   *io.SectionReader
}

func newContent(header string, body *io.SectionReader) *content {
	// A CR within a field must not begin another field.
	return &content{strings.ReplaceAll(strings.ReplaceAll(header, "\r\n", "\n"), "\r", " ") + "\n", body}
}

// size is the length of the message in bytes as it is in the files.
func (c *content) size() int64 { return int64(len(c.header)) + c.body.Size() }

// send sends the message with a dot before each that begins a line, up to the final dot
// (RFC 5321 section 4.5.2). If the message file is shorter than it was, the error is a
// localError.
func (c *content) send(to *bufio.Writer) error {
	l := &lineWriter{w: to}
	if _, err := io.WriteString(l, c.header); err != nil {
		return err
	}
	if err := copyBody(l, c.body); err != nil {
		return err
	}
	l.end()
	return nil
}

// blockSize is how much of a message is read at once, in bytes.
const blockSize = 32 << 10

// copyBody writes a whole body. An error of reading is a localError.
func copyBody(w io.Writer, body *io.SectionReader) error {
	block := make([]byte, min(blockSize, body.Size()))
	for at := int64(0); at < body.Size(); at += int64(len(block)) {
		block = block[:min(blockSize, body.Size()-at)]
		if err := readFull(body, block, at); err != nil {
			return &localError{err}
		}
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// readFull fills b from an offset on. It is an error if the message file is shorter than it
// was.
func readFull(body *io.SectionReader, b []byte, at int64) error {
	n, err := body.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return errCut
	}
	return err
}

var errCut = errors.New("the message file is shorter than it was")

// lineWriter writes text with CRLF line ends, and doubles a dot at the beginning of a line. Line
// ends of any kind, LF, CRLF and a lone CR, become CRLF, so that no server sees a line end where
// another sees none.
type lineWriter struct {
	w      *bufio.Writer // it keeps its first error
	cr     bool          // the last byte was a CR, and its CRLF is written
	inLine bool
}

func (l *lineWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if l.cr && rest[0] == '\n' {
			l.cr, rest = false, rest[1:]
			continue
		}
		l.cr = false
		end := bytes.IndexByte(rest, '\n')
		line := rest
		if end >= 0 {
			line = rest[:end]
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			end, line, l.cr = cr, rest[:cr], true
		}
		if !l.inLine && len(line) > 0 && line[0] == '.' {
			_ = l.w.WriteByte('.')
		}
		_, _ = l.w.Write(line)
		rest = rest[len(line):]
		if l.inLine = end < 0; end >= 0 {
			_, _ = l.w.WriteString("\r\n")
			rest = rest[1:]
		}
	}
	if _, err := l.w.Write(nil); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end ends the last line.
func (l *lineWriter) end() {
	if l.inLine {
		_, _ = l.w.WriteString("\r\n")
	}
}

// localError means that the message cannot be read. Other errors mean that it could
// not be sent.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }
