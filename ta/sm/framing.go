package sm

// The lines of a message as a program reads them: CRLF, doubled dots, quoted From.

import "bufio"

// framer writes lines to another writer as the flags CRLF, HideDots and QuoteFrom say.
// Lines may come with LF or CR LF as their end, in pieces of any size.
type framer struct {
	w      *bufio.Writer // it keeps its first error
	how    Flags
	within bool // a line has begun and is not ended
	from   int  // bytes of fromLine that begin the line and are not written yet
	cr     bool // a CR is not written yet: it may belong to the line end
}

const fromLine = "From "

// Write writes a piece of the message. The error is the writer's.
func (f *framer) Write(b []byte) (int, error) {
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
func (f *framer) literal(c byte) {
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
	if !f.within && c == '.' && f.how&HideDots != 0 {
		_ = f.w.WriteByte('.')
	}
	f.release()
	f.within = true
	_ = f.w.WriteByte(c)
}

// release writes what was held back.
func (f *framer) release() {
	_, _ = f.w.WriteString(fromLine[:f.from])
	f.from = 0
}

func (f *framer) endLine() {
	f.release()
	if f.how&CRLF != 0 {
		_ = f.w.WriteByte('\r')
	}
	_ = f.w.WriteByte('\n')
	f.within, f.cr = false, false
}

// end adds the line end if the last line has none.
func (f *framer) end() {
	if f.cr {
		f.literal('\r')
	}
	if f.within {
		f.endLine()
	}
}
