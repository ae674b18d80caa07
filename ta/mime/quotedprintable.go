package mime

// This file encodes, repairs and decodes quoted-printable (RFC 2045 section 6.7).

import (
	"bufio"
	"bytes"
	"encoding/hex"
)

const (
	// qpWidth is how long a line in quoted-printable may become, without the "=" of
	// a soft line break (RFC 2045 section 6.7, rule 5: 76 in all).
	qpWidth = 75
	// maxTextLine is how long a line of 8bit text may be (RFC 5322 section 2.1.1).
	maxTextLine = 998
)

const hexDigits = "0123456789ABCDEF"

// qpEncoder writes quoted-printable. A line that begins with "From " or is a
// dot alone is encoded so that no program on the way misreads it
// (RFC 2049 section 3). A CR that does not end a line is kept, as =0D.
type qpEncoder struct {
	w      *bufio.Writer // it keeps its first error
	narrow bool          // write no literal blanks
	column int
	held   []byte // the end of a piece: what it becomes depends on what follows
}

// lookahead is how many bytes decide how the first of them is written.
const lookahead = len("From ")

// write takes a line, or a piece of one.
func (q *qpEncoder) write(b []byte) {
	if len(q.held) > 0 {
		b, q.held = append(q.held, b...), nil
	}
	line, ends := bytes.CutSuffix(b, []byte{'\n'})
	if !ends {
		n := max(len(b)-lookahead, 0)
		q.held = bytes.Clone(b[n:])
		q.text(b, n)
		return
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	q.text(line, len(line))
	_ = q.w.WriteByte('\n')
	q.column = 0
}

// finish writes what is held: there is no line end after it.
func (q *qpEncoder) finish() {
	q.text(q.held, len(q.held))
	q.held, q.column = nil, 0
}

// text writes the first n bytes of b. Either b ends where a line ends, or at
// least lookahead bytes follow the first n.
func (q *qpEncoder) text(b []byte, n int) {
	for i, c := range b[:n] {
		blank := (c == ' ' || c == '\t') && !q.narrow && i < len(b)-1
		if !blank && (c < '!' || c > '~' || c == '=') {
			q.escape(c)
			continue
		}
		if q.column+1 > qpWidth {
			q.soft()
		}
		if q.column == 0 && mistakable(b[i:]) {
			q.escape(c)
			continue
		}
		_ = q.w.WriteByte(c)
		q.column++
	}
}

// mistakable reports whether a line must not be written as it is.
func mistakable(line []byte) bool {
	return bytes.HasPrefix(line, []byte("From ")) || len(line) == 1 && line[0] == '.'
}

func (q *qpEncoder) escape(c byte) {
	if q.column+3 > qpWidth {
		q.soft()
	}
	_ = q.w.WriteByte('=')
	_ = q.w.WriteByte(hexDigits[c>>4])
	_ = q.w.WriteByte(hexDigits[c&15])
	q.column += 3
}

// soft writes a soft line break.
func (q *qpEncoder) soft() {
	_, _ = q.w.WriteString("=\n")
	q.column = 0
}

// mend copies quoted-printable text and encodes each byte that should have been
// encoded.
func (q *qpEncoder) mend(b []byte) {
	for _, c := range b {
		switch {
		case c == '\n':
			_ = q.w.WriteByte(c)
			q.column = 0
		case c > 0x7e, c < ' ' && c != '\r' && (c != '\t' || q.narrow), c == ' ' && q.narrow:
			q.escape(c)
		default:
			_ = q.w.WriteByte(c)
			q.column++
		}
	}
}

// qpDecoder decodes quoted-printable, and finds out whether the result is
// text that may replace it.
type qpDecoder struct {
	w          *bufio.Writer // nil: only check
	boundaries []string      // that no line of the result may begin with
	line       []byte        // what is decoded of the current line
	piece      bool          // the last piece had no line end

	eight bool // the result has a byte above 127
	bad   bool // not quoted-printable, or the result is not text of lines up to maxTextLine
}

// write takes a line. A line that comes in several pieces is too long for
// quoted-printable text.
func (d *qpDecoder) write(b []byte) {
	d.bad = d.bad || d.piece
	d.piece = b[len(b)-1] != '\n'
	b = bytes.TrimRight(b, " \t\r\n")
	b, soft := bytes.CutSuffix(b, []byte{'='})
	for i := 0; i < len(b) && !d.bad; i++ {
		c := b[i]
		if c > 0x7e {
			d.bad = true
		}
		if c == '=' {
			var decoded [1]byte
			if i+2 >= len(b) {
				d.bad = true
				break
			}
			_, err := hex.Decode(decoded[:], b[i+1:i+3])
			d.bad = err != nil
			c = decoded[0]
			i += 2
		}
		if c == '\n' {
			d.endLine()
			continue
		}
		d.eight = d.eight || c > 0x7f
		d.bad = d.bad || c == 0 || c == '\r' || len(d.line) >= maxTextLine
		d.line = append(d.line, c)
	}
	if !soft && (!d.piece || len(d.line) > 0) {
		d.endLine()
	}
}

func (d *qpDecoder) endLine() {
	if text, dashes := bytes.CutPrefix(d.line, []byte("--")); dashes {
		for _, boundary := range d.boundaries {
			d.bad = d.bad || bytes.HasPrefix(text, []byte(boundary))
		}
	}
	if d.w != nil {
		_, _ = d.w.Write(d.line)
		_ = d.w.WriteByte('\n')
	}
	d.line = d.line[:0]
}

// finish ends the last line, since a boundary may follow.
func (d *qpDecoder) finish() {
	if len(d.line) > 0 {
		d.endLine()
	}
}
