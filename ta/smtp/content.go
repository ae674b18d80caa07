// This file holds the message as it is sent: line ends, doubled dots, and the length
// for SIZE.

package smtp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
)

// content is a message as it is sent: the header of the control file, an empty
// line, and the body from its offset on. Every line ends with CRLF.
type content struct {
	header  string // lines end with LF
	body    io.ReadSeeker
	buffers *buffers
	size    int64 // number of bytes to send, without added dots
	eight   bool  // some bytes are above 127
}

// measure counts the bytes of a message. The error is a localError.
func measure(header string, body io.ReadSeeker, b *buffers) (*content, error) {
	body, err := kept(body)
	if err != nil {
		return nil, &localError{err}
	}
	// A CR within a field must not begin another field.
	header = strings.ReplaceAll(strings.ReplaceAll(header, "\r\n", "\n"), "\r", " ")
	c := &content{header: header, body: body, buffers: b}
	n := &lineCounter{}
	if err := c.writeTo(n); err != nil {
		return nil, err
	}
	c.size, c.eight = n.end(), n.eight
	return c, nil
}

// maxKept is the longest body in bytes that is kept from measuring until sending, so
// that the file is read once. Most bodies are shorter.
const maxKept = 8 << 10

// kept reads a short body into memory.
func kept(body io.ReadSeeker) (io.ReadSeeker, error) {
	file, ok := body.(*io.SectionReader)
	if !ok || file.Size() > maxKept {
		return body, nil
	}
	text := make([]byte, file.Size())
	n, err := file.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return bytes.NewReader(text[:n]), nil
}

// writeTo writes the message without changing its line ends. The error is the
// writer's or a localError.
func (c *content) writeTo(w textWriter) error {
	if _, err := w.WriteString(c.header); err != nil {
		return err
	}
	if _, err := w.WriteString("\n"); err != nil {
		return err
	}
	err := c.copyBody(w)
	switch {
	case err == nil:
		return nil
	case w.failed() != nil:
		return w.failed()
	}
	return &localError{err}
}

func (c *content) copyBody(w io.Writer) error {
	if _, err := c.body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buf := c.buffers.get()
	defer c.buffers.put(buf)
	_, err := io.CopyBuffer(w, c.body, *buf)
	return err
}

// sendTo sends the line before, then exactly as many bytes as were measured. dots says that
// a dot at the beginning of a line is doubled. If the message has changed since it was
// measured, the error is a localError. commit, if not nil, is called before the last bytes
// are sent, which are not sent if it returns an error.
func (c *content) sendTo(w io.Writer, before string, dots bool, commit func() error) error {
	buf := c.buffers.get()
	defer c.buffers.put(buf)
	s := &sender{w: w, out: append((*buf)[:0], before...), dots: dots, left: c.size}
	if err := c.writeTo(s); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if commit != nil {
		if err := commit(); err != nil {
			return err
		}
	}
	return s.flush()
}

// textWriter is a Writer that keeps its first error.
type textWriter interface {
	io.Writer
	io.StringWriter
	failed() error
}

// lineCounter counts the bytes that a text has if each of its lines ends with CRLF.
type lineCounter struct {
	size   int64
	eight  bool // a byte is above 127
	cr     bool // the last byte was a CR
	inLine bool // the last line has not ended
}

func (n *lineCounter) failed() error                     { return nil }
func (n *lineCounter) WriteString(s string) (int, error) { return n.Write([]byte(s)) }

func (n *lineCounter) Write(b []byte) (int, error) {
	n.eight = n.eight || has8(b)
	if !n.cr && len(b) > 0 && bytes.IndexByte(b, '\r') < 0 {
		n.size += int64(len(b) + bytes.Count(b, []byte{'\n'}))
		n.inLine = b[len(b)-1] != '\n'
		return len(b), nil
	}
	for _, c := range b {
		switch {
		case c == '\n' && n.cr: // counted with the CR
		case c == '\n', c == '\r':
			n.size += 2
		default:
			n.size++
		}
		n.cr, n.inLine = c == '\r', c != '\r' && c != '\n'
	}
	return len(b), nil
}

// end returns the size, with the end of the last line.
func (n *lineCounter) end() int64 {
	if n.inLine {
		return n.size + 2
	}
	return n.size
}

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

// sender sends text with CRLF line ends. Line ends of any kind, LF, CRLF and a
// lone CR, become CRLF, so that no server sees a line end where another sees none.
type sender struct {
	w      io.Writer
	out    []byte // not yet written
	dots   bool   // a dot at the beginning of a line is doubled (RFC 5321 section 4.5.2)
	left   int64  // bytes that may still follow, without added dots
	cr     bool   // the last byte was a CR, and its CRLF is in out
	inLine bool
	err    error // of w, or errChanged
}

// errChanged means that the message does not have as many bytes as were measured.
var errChanged = errors.New("the message changed while it was sent")

func (s *sender) failed() error                        { return s.err }
func (s *sender) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

func (s *sender) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0 && s.err == nil; {
		if s.cr && rest[0] == '\n' {
			s.cr, rest = false, rest[1:]
			continue
		}
		s.cr = false
		end := bytes.IndexByte(rest, '\n')
		line := rest
		if end >= 0 {
			line = rest[:end]
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			end, line, s.cr = cr, rest[:cr], true
		}
		s.add(line, end >= 0)
		rest = rest[len(line):]
		if end >= 0 {
			rest = rest[1:]
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(b), nil
}

// add adds a line, or part of a line that has not ended.
func (s *sender) add(line []byte, ended bool) {
	s.left -= int64(len(line))
	if s.dots && !s.inLine && len(line) > 0 && line[0] == '.' {
		s.out = append(s.out, '.')
	}
	s.out = append(s.out, line...)
	s.inLine = !ended
	if ended {
		s.out = append(s.out, '\r', '\n')
		s.left -= 2
	}
	switch {
	case s.left < 0:
		s.err = &localError{errChanged}
	case len(s.out) >= bufferSize-maxReplyLine && s.left > 0: // the last bytes wait for commit
		s.err = s.flush()
	}
}

// end ends the last line. It is an error if bytes are missing.
func (s *sender) end() error {
	if s.inLine {
		s.add(nil, true)
	}
	if s.err == nil && s.left > 0 {
		s.err = &localError{errChanged}
	}
	return s.err
}

func (s *sender) flush() error {
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	return err
}

// localError means that the message cannot be read. Other errors mean that it could
// not be sent.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// bufferSize is how much of a message is read or written at once.
const bufferSize = 32 << 10

// buffers keeps buffers for reading and writing messages. A connection that waits
// for a server holds none.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, bufferSize)
	return &buf
}

func (b *buffers) put(buf *[]byte) { b.pool.Put(buf) }
