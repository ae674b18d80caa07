// This file holds the message as it is sent: line ends, doubled dots, and the length
// for SIZE.

package smtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// content is a message as it is sent: the header of the control file, an empty
// line, and the body from its offset on. A short one is in memory; a long one is read while
// it is sent.
type content struct {
	text   []byte // a short message, with CRLF line ends; nil: it is long
	header string // of a long one, with LF line ends and the empty line after it
	body   *io.SectionReader
	size   int64 // length of text; of a long message its bytes as they are in the files
	eight  bool  // some bytes are above 127, or may be: it is long
}

// maxShort is the length in bytes of the longest message that is kept in memory. Most are
// shorter.
const maxShort = 16 << 10

// newContent reads a short message.
func newContent(header string, body *io.SectionReader) (*content, error) {
	// A CR within a field must not begin another field.
	header = strings.ReplaceAll(strings.ReplaceAll(header, "\r\n", "\n"), "\r", " ") + "\n"
	c := &content{header: header, body: body, size: int64(len(header)) + body.Size(), eight: true}
	if c.size > maxShort {
		return c, nil
	}
	text := make([]byte, c.size)
	copy(text, header)
	if err := readFull(body, text[len(header):], 0); err != nil {
		return nil, err
	}
	c.text = withCRLF(text)
	c.size, c.eight = int64(len(c.text)), has8(text)
	return c, nil
}

// withCRLF returns a text with CRLF line ends.
func withCRLF(text []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(text) + bytes.Count(text, []byte{'\n'}) + 2)
	w := bufio.NewWriterSize(&b, 16)
	l := lineWriter{w: w}
	_, _ = l.Write(text) // a Buffer does not fail
	l.end()
	_ = w.Flush()
	return b.Bytes()
}

// sendDotted sends the message with a dot before each that begins a line, up to the final dot
// (RFC 5321 section 4.5.2). If the message file is shorter than it was, the error is a
// localError.
func (c *content) sendDotted(to io.Writer) error {
	if c.text != nil {
		text := bytes.ReplaceAll(c.text, []byte("\n."), []byte("\n.."))
		if text[0] == '.' {
			text = append([]byte{'.'}, text...)
		}
		_, err := to.Write(text)
		return err
	}
	w := bufio.NewWriterSize(to, blockSize)
	l := &lineWriter{w: w, dots: true}
	if _, err := io.WriteString(l, c.header); err != nil {
		return err
	}
	if err := copyBody(l, c.body); err != nil {
		return err
	}
	l.end()
	return w.Flush()
}

// blockSize is how much of a long message is read or written at once, in bytes.
const blockSize = 32 << 10

// copyBody writes a whole body. An error of reading is a localError.
func copyBody(w io.Writer, body *io.SectionReader) error {
	block := make([]byte, blockSize)
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

// has8 reports whether a byte is above 127.
func has8(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return true
		}
	}
	for _, c := range b {
		if c > 0x7f {
			return true
		}
	}
	return false
}

// lineWriter writes text with CRLF line ends. Line ends of any kind, LF, CRLF and a
// lone CR, become CRLF, so that no server sees a line end where another sees none.
type lineWriter struct {
	w      *bufio.Writer // it keeps its first error
	dots   bool          // a dot at the beginning of a line is doubled
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
		if l.dots && !l.inLine && len(line) > 0 && line[0] == '.' {
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
