package ta

import "bufio"

// qpWidth is how long a line in quoted-printable becomes, without the "=" of a
// soft line break (RFC 2045 section 6.7, rule 5: 76 in all).
const qpWidth = 75

const hexDigits = "0123456789ABCDEF"

// qpEncoder writes quoted-printable of a text that comes in pieces. A line
// that begins with "From " or is a dot alone is written so that nobody on the
// way takes it for something else (RFC 2049 section 3).
type qpEncoder struct {
	w      *bufio.Writer
	narrow bool // no literal blanks
	column int
	blank  byte // a blank that waits to see whether it ends the line, or 0
	cr     bool // a CR after it that waits too
	broken bool // the line continues after a soft line break
}

// write takes a piece; begins says whether it begins a line.
func (q *qpEncoder) write(b []byte, begins bool) {
	for i, c := range b {
		if c == '\n' {
			q.cr = false // it belongs to the line end
			q.finish()
			_ = q.w.WriteByte('\n')
			q.column, q.broken = 0, false
			continue
		}
		if q.cr || q.blank != 0 && c != '\r' {
			q.release()
		}
		switch {
		case c == '\r':
			q.cr = true
		case (c == ' ' || c == '\t') && !q.narrow:
			q.blank = c
		case c < '!' || c > '~' || c == '=' || i == 0 && begins && mistaken(b):
			q.escape(c)
		default:
			q.literal(c)
		}
	}
}

// mistaken says that a line must not stand as it is.
func mistaken(line []byte) bool {
	switch s := string(line[:min(len(line), 5)]); {
	case s == "From ", s == ".", s == ".\n", s == ".\r\n":
		return true
	}
	return false
}

// release writes what has waited, now that it does not end the line.
func (q *qpEncoder) release() {
	if q.blank != 0 {
		q.literal(q.blank)
		q.blank = 0
	}
	if q.cr {
		q.escape('\r')
		q.cr = false
	}
}

// finish writes what has waited at the end of a line, or of the text.
func (q *qpEncoder) finish() {
	if q.cr {
		q.release()
	}
	if q.blank != 0 {
		q.escape(q.blank)
		q.blank = 0
	}
}

// fit makes room for so many bytes.
func (q *qpEncoder) fit(n int) {
	if q.column+n > qpWidth {
		_, _ = q.w.WriteString("=\n")
		q.column, q.broken = 0, true
	}
	q.column += n
}

func (q *qpEncoder) literal(c byte) {
	q.fit(1)
	if q.broken && q.column == 1 && (c == 'F' || c == '.') {
		q.column = 0
		q.escape(c)
		return
	}
	_ = q.w.WriteByte(c)
}

func (q *qpEncoder) escape(c byte) {
	q.fit(3)
	_ = q.w.WriteByte('=')
	_ = q.w.WriteByte(hexDigits[c>>4])
	_ = q.w.WriteByte(hexDigits[c&15])
}

// mend passes on quoted-printable text, with an escape for each byte that
// should have been one.
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

// qpDecoder decodes quoted-printable text that comes in pieces, and sees
// whether the result can stand on its own.
type qpDecoder struct {
	w      *bufio.Writer // nil: only look
	bounds []string      // that must not appear in the result
	state  byte          // 0, '=' after it, 'x' after it and a digit, 'b' after it and blanks
	digit  byte          // the first of two
	blanks []byte        // perhaps the end of the line, where they mean nothing

	eight bool   // there is a byte above 127
	bad   bool   // it is not quoted-printable, or not a text of lines
	line  []byte // begin of a line that could be a boundary
	width int    // of the line so far
	last  byte
}

func (d *qpDecoder) write(b []byte) {
	for _, c := range b {
		switch d.state {
		case '=', 'b':
			d.afterEqual(c)
		case 'x':
			d.state = 0
			if v, ok := unhex(c); ok {
				d.emit(d.digit<<4 | v)
				continue
			}
			d.bad = true
		default:
			d.plain(c)
		}
	}
}

func (d *qpDecoder) afterEqual(c byte) {
	v, ok := unhex(c)
	switch {
	case c == '\n':
		d.state = 0
	case c == ' ', c == '\t', c == '\r':
		d.state = 'b'
	case ok && d.state == '=':
		d.state, d.digit = 'x', v
	default:
		d.state, d.bad = 0, true
	}
}

func (d *qpDecoder) plain(c byte) {
	switch c {
	case '=':
		d.flush()
		d.state = '='
	case ' ', '\t', '\r':
		d.blanks = append(d.blanks, c)
		d.bad = d.bad || len(d.blanks) > maxTextLine
		if d.bad {
			d.blanks = d.blanks[:0] // nobody will want the result
		}
	case '\n':
		d.blanks = d.blanks[:0]
		d.emit(c)
	default:
		d.flush()
		d.bad = d.bad || c > 0x7e
		d.emit(c)
	}
}

func (d *qpDecoder) flush() {
	for _, c := range d.blanks {
		d.emit(c)
	}
	d.blanks = d.blanks[:0]
}

// maxTextLine is how long a line of 8bit text may be (RFC 5322 section 2.1.1).
const maxTextLine = 998

func (d *qpDecoder) emit(c byte) {
	if d.w != nil {
		_ = d.w.WriteByte(c)
	}
	d.last = c
	if c == '\n' {
		d.checkBoundary()
		d.width = 0
		return
	}
	d.width++
	d.eight = d.eight || c > 0x7f
	d.bad = d.bad || c == 0 || c == '\r' || d.width > maxTextLine
	if d.width == 1 {
		d.line = d.line[:0]
	}
	if d.width <= 80 {
		d.line = append(d.line, c)
	}
}

func (d *qpDecoder) checkBoundary() {
	if d.width < 3 || string(d.line[:2]) != "--" {
		return
	}
	for _, b := range d.bounds {
		if rest := string(d.line[2:]); b != "" && (len(rest) >= len(b) && rest[:len(b)] == b) {
			d.bad = true
		}
	}
}

// finish ends the text with a line end, after which a boundary may stand.
func (d *qpDecoder) finish() {
	d.bad = d.bad || d.state == 'x'
	if d.last != '\n' && d.last != 0 || len(d.blanks) > 0 {
		d.blanks = d.blanks[:0]
		d.emit('\n')
	}
}

// sound says that the result can take the place of what was decoded.
func (d *qpDecoder) sound() bool { return !d.bad }

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
