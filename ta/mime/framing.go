package mime

// This file writes the lines of a message with CRLF, doubled dots or quoted From.

import (
	"bufio"
	"io"
)

// Framing is how the lines of a message are written for a program that reads
// it. Several may be combined.
type Framing uint8

const (
	CRLF      Framing = 1 << iota // lines end with CR and LF
	DotStuff                      // a dot that begins a line is doubled (RFC 5321 section 4.5.2)
	QuoteFrom                     // a line that begins with "From " gets ">" before it
)

// Framer writes lines to another writer in some Framing. Lines may come with LF
// or CR LF as their end, in pieces of any size.
type Framer struct {
	w      *bufio.Writer // it keeps its first error
	how    Framing
	within bool // a line has begun and is not ended
	from   int  // bytes of fromLine that begin the line and are not written yet
	cr     bool // a CR is not written yet: it may belong to the line end
}

const fromLine = "From "

// NewFramer writes to w through a buffer that Close flushes.
func NewFramer(w io.Writer, how Framing) *Framer { return &Framer{w: bufio.NewWriter(w), how: how} }

// Write writes a piece of the message. The error is the writer's.
func (f *Framer) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == '\n' {
			f.endLine()
			continue
		}
		if f.cr {
			f.literal('\r')
			f.cr = false
		}
		if c == '\r' {
			f.cr = true
		} else {
			f.literal(c)
		}
	}
	if _, err := f.w.Write(nil); err != nil {
		return 0, err
	}
	return len(b), nil
}

// literal writes a byte that does not end a line. At the start of a line it
// holds back what may become fromLine.
func (f *Framer) literal(c byte) {
	if f.within && f.from == 0 {
		_ = f.w.WriteByte(c)
		return
	}
	if f.how&QuoteFrom != 0 && c == fromLine[f.from] {
		if f.from++; f.from == len(fromLine) {
			_ = f.w.WriteByte('>')
			f.release()
		}
		f.within = true
		return
	}
	if !f.within && c == '.' && f.how&DotStuff != 0 {
		_ = f.w.WriteByte('.')
	}
	f.release()
	f.within = true
	_ = f.w.WriteByte(c)
}

// release writes what was held back.
func (f *Framer) release() {
	_, _ = f.w.WriteString(fromLine[:f.from])
	f.from = 0
}

func (f *Framer) endLine() {
	f.release()
	if f.how&CRLF != 0 {
		_ = f.w.WriteByte('\r')
	}
	_ = f.w.WriteByte('\n')
	f.within, f.cr = false, false
}

// Close adds the line end if the last line has none. It does not close the writer.
func (f *Framer) Close() error {
	if f.cr {
		f.literal('\r')
	}
	if f.within {
		f.endLine()
	}
	return f.w.Flush()
}
