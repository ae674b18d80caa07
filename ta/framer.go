package ta

import (
	"bytes"
	"io"
)

// Framing is how a message is written out for the one who reads it next.
type Framing uint8

const (
	CRLF      Framing = 1 << iota // lines end with CR and LF
	DotStuff                      // a dot that begins a line is doubled (RFC 5321 section 4.5.2)
	QuoteFrom                     // a line that begins with "From " gets ">" before it
)

// Framer writes lines through to another writer in some Framing. Lines may
// come with LF or CR LF as their end, in pieces of any size. What it writes
// goes in pieces too, so a buffer should stand behind it.
type Framer struct {
	w     io.Writer
	how   Framing
	head  []byte // begin of a line, up to what decides
	inner bool   // within a line, beyond that
	cr    bool   // a CR is not written yet: it may end the line
	err   error
}

// NewFramer writes to w.
func NewFramer(w io.Writer, how Framing) *Framer { return &Framer{w: w, how: how} }

var from = []byte("From ")

// Write writes through. After an error of the writer it only returns that.
func (f *Framer) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0 && f.err == nil; {
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			f.text(rest)
			break
		}
		f.text(rest[:n])
		f.endLine()
		rest = rest[n+1:]
	}
	if f.err != nil {
		return 0, f.err
	}
	return len(b), nil
}

// text writes a piece of a line.
func (f *Framer) text(b []byte) {
	if len(b) == 0 {
		return
	}
	if f.cr {
		f.cr = false
		f.line([]byte{'\r'})
	}
	if f.cr = b[len(b)-1] == '\r'; f.cr {
		b = b[:len(b)-1]
	}
	f.line(b)
}

// line writes what certainly does not end the line, and decides how the line
// begins as soon as that can be told.
func (f *Framer) line(b []byte) {
	if f.inner {
		f.put(b)
		return
	}
	if len(f.head) == 0 && (len(b) >= len(from) || len(b) > 0 && b[0] != from[0]) {
		f.begin(b)
		return
	}
	if f.head = append(f.head, b...); len(f.head) >= len(from) || !bytes.HasPrefix(from, f.head) {
		f.begin(f.head)
	}
}

// begin writes the begin of a line.
func (f *Framer) begin(b []byte) {
	if len(b) == 0 {
		return
	}
	switch {
	case f.how&DotStuff != 0 && b[0] == '.':
		f.put([]byte{'.'})
	case f.how&QuoteFrom != 0 && bytes.HasPrefix(b, from):
		f.put([]byte{'>'})
	}
	f.put(b)
	f.head, f.inner = f.head[:0], true
}

func (f *Framer) endLine() {
	f.begin(f.head)
	if f.how&CRLF != 0 {
		f.put([]byte("\r\n"))
	} else {
		f.put([]byte{'\n'})
	}
	f.inner, f.cr = false, false
}

func (f *Framer) put(b []byte) {
	if f.err == nil && len(b) > 0 {
		_, f.err = f.w.Write(b)
	}
}

// Close ends a last line that has no end; it does not close the writer.
func (f *Framer) Close() error {
	if f.inner || f.cr || len(f.head) > 0 {
		if f.cr {
			f.cr = false
			f.line([]byte{'\r'})
		}
		f.endLine()
	}
	return f.err
}
