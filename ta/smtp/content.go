package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"zsched/ta/mime"
)

// content is a message as it goes over the wire: the headers of the control
// file, an empty line, and the body from its offset on, every line with CRLF.
type content struct {
	plan *mime.Plan
	size int64 // bytes on the wire, without dots added
}

// measure plans how the message goes and counts its bytes. The error is
// mime.ErrConversion or a localError.
func measure(header string, body io.ReadSeeker, how mime.Conversion) (*content, error) {
	plan, err := mime.NewPlan(header, body, how)
	if errors.Is(err, mime.ErrConversion) {
		return nil, err
	}
	if err != nil {
		return nil, &localError{err}
	}
	c := &content{plan: plan}
	n := new(counter)
	if err := c.writeTo(n); err != nil {
		return nil, err
	}
	c.size = int64(*n)
	return c, nil
}

type counter int64

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

// eightBit says that there are bytes beyond ASCII in what is sent.
func (c *content) eightBit() bool { return c.plan.EightBitHeader || c.plan.EightBitBody }

// writeTo writes the message with CRLF line ends. The error is the writer's or
// a localError.
func (c *content) writeTo(w io.Writer) error {
	lines := &crlf{w: w}
	if _, err := io.WriteString(lines, c.plan.Header()); err != nil {
		return err
	}
	if _, err := io.WriteString(lines, "\n"); err != nil {
		return err
	}
	err := c.plan.WriteBody(lines)
	switch {
	case lines.err != nil:
		return lines.err
	case err != nil:
		return &localError{err}
	}
	return lines.end()
}

// sendTo is writeTo of exactly as many bytes as were measured. A message that
// is another one by now is a localError, and must not get its end.
func (c *content) sendTo(w io.Writer) error {
	rest := &exactly{w, c.size}
	err := c.writeTo(rest)
	if err == nil && rest.left > 0 {
		err = &localError{errChanged}
	}
	return err
}

// localError is a message that cannot be read, not a peer that cannot be
// written to.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// crlf turns line ends of any kind, LF, CRLF and a lone CR, into CRLF: no peer
// may see a line end where another sees none.
type crlf struct {
	w    io.Writer
	cr   bool // the last byte was a CR, whose CRLF is written
	part bool // within a line
	out  []byte
	err  error
}

func (l *crlf) Write(b []byte) (int, error) {
	out := l.out[:0]
	for rest := b; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			out, l.cr, l.part = append(out, rest...), false, true
			break
		}
		out = append(out, rest[:i]...)
		if i > 0 {
			l.cr = false
		}
		if rest[i] == '\r' || !l.cr {
			out = append(out, '\r', '\n')
		}
		l.cr, l.part = rest[i] == '\r', false
		rest = rest[i+1:]
	}
	l.out = out
	if l.err == nil {
		_, l.err = l.w.Write(out)
	}
	if l.err != nil {
		return 0, l.err
	}
	return len(b), nil
}

// end ends the last line.
func (l *crlf) end() error {
	if !l.part {
		return nil
	}
	_, err := l.Write([]byte("\n"))
	return err
}

// stuffed doubles the dot at the front of a line (RFC 5321 section 4.5.2). It
// is given CRLF line ends only, and starts at the front of a line.
type stuffed struct {
	w      *bufio.Writer
	within bool // a line
}

func (s *stuffed) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if !s.within && rest[0] == '.' {
			if err := s.w.WriteByte('.'); err != nil {
				return 0, err
			}
		}
		i := bytes.IndexByte(rest, '\n')
		line := rest[:i+1]
		if i < 0 {
			line = rest
		}
		if _, err := s.w.Write(line); err != nil {
			return 0, err
		}
		s.within = i < 0
		rest = rest[len(line):]
	}
	return len(b), nil
}

// exactly passes on no more than was promised.
type exactly struct {
	w    io.Writer
	left int64
}

var errChanged = errors.New("the message changed while it was sent")

func (e *exactly) Write(b []byte) (int, error) {
	if e.left -= int64(len(b)); e.left < 0 {
		return 0, &localError{errChanged}
	}
	return e.w.Write(b)
}
