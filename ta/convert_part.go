package ta

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// action is what becomes of a leaf's body.
type action uint8

const (
	keep   action = iota
	encode        // into quoted-printable
	mend          // quoted-printable: encode what is in it as it should not be
	purge         // base64: drop what does not belong there
	decode        // from quoted-printable
)

// part is what the survey knows of a part, and what it has decided.
type part struct {
	shape
	eight bool // a byte above 127 is in the body
	odd   bool // a control character, or a blank at the end of a line
	blank bool // the last byte seen was a blank
	cr    bool // ... a CR
	utf8  utf8State

	do         action
	changed    bool   // it or a part in it
	eightAfter bool   // as eight, when all is done
	newCode    string // Content-Transfer-Encoding that the header gets; "": stays
}

// see takes note of a piece of the body.
func (p *part) see(b []byte) {
	for _, c := range b {
		switch {
		case c == '\n':
			p.odd = p.odd || p.blank
		case p.cr, c < ' ' && c != '\r', c == 0x7f:
			p.odd = true
		case c > 0x7f:
			p.eight = true
		}
		p.cr = c == '\r'
		p.blank = c == ' ' || c == '\t' || p.blank && p.cr
	}
}

// utf8State checks a text that comes in pieces.
type utf8State struct {
	rest    []byte // of a character that is not yet complete
	invalid bool
}

func (u *utf8State) see(b []byte) {
	if len(u.rest) > 0 {
		u.rest = append(u.rest, b...)
		b = u.rest
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(b) {
				break
			}
			u.invalid = true
		}
		b = b[n:]
	}
	u.rest = append(u.rest[:0], b...)
}

// charset names the text's character set, for a header that does not.
func (u *utf8State) charset() string {
	if u.invalid || len(u.rest) > 0 {
		return "unknown-8bit" // RFC 1428
	}
	return "utf-8"
}

// rewrite is a part's header as it becomes.
func (p *part) rewrite(header string) string {
	if !p.changed {
		return header
	}
	var b strings.Builder
	coded, versioned := p.newCode == "", !p.message
	for name, field := range HeaderFields(header) {
		switch {
		case p.newCode != "" && strings.EqualFold(name, "Content-Transfer-Encoding"):
			if !coded {
				b.WriteString("Content-Transfer-Encoding: " + p.newCode + "\n")
			}
			coded = true
			continue
		case strings.EqualFold(name, "MIME-Version"):
			versioned = true
		}
		b.WriteString(field)
	}
	if !versioned {
		b.WriteString("MIME-Version: 1.0\n")
	}
	if p.untyped && p.do == encode {
		b.WriteString("Content-Type: text/plain; charset=" + p.utf8.charset() + "\n")
	}
	if !coded {
		b.WriteString("Content-Transfer-Encoding: " + p.newCode + "\n")
	}
	return b.String()
}

// surveyor is the first who goes through a message.
type surveyor struct {
	how    Conversion
	parts  []part
	open   []int      // indices of the parts that are open
	trial  *qpDecoder // of the leaf that is open, with EightBit
	failed error
}

func (s *surveyor) enter(sh shape, header, _ string) {
	s.open = append(s.open, len(s.parts))
	s.parts = append(s.parts, part{shape: sh, changed: s.how.To == SevenBit && has8(header)})
	s.trial = nil
	if s.how.To == EightBit && sh.text && sh.encoding == "quoted-printable" && !sh.sealed {
		s.trial = &qpDecoder{}
		for _, i := range s.open {
			s.trial.bounds = append(s.trial.bounds, s.parts[i].boundary)
		}
	}
}

func (s *surveyor) here() *part { return &s.parts[s.open[len(s.open)-1]] }

func (s *surveyor) data(b []byte, _ bool) {
	p := s.here()
	p.see(b)
	if p.untyped {
		p.utf8.see(b)
	}
	if s.trial != nil {
		s.trial.write(b)
	}
}

func (s *surveyor) outer(b []byte) {
	if s.how.To == SevenBit && has8(b) {
		s.here().changed = true
	}
}

func (s *surveyor) leave() {
	p := s.here()
	s.open = s.open[:len(s.open)-1]
	switch {
	case p.kind == leaf && s.how.To == SevenBit:
		s.narrow(p)
	case p.kind == leaf && s.trial != nil:
		s.trial.finish()
		if s.trial.sound() {
			p.do, p.changed, p.eightAfter, p.newCode = decode, true, s.trial.eight, "7bit"
			if p.eightAfter {
				p.newCode = "8bit"
			}
		}
		s.trial = nil
	case p.changed && s.how.To == SevenBit && (p.encoding == "8bit" || p.encoding == "binary"):
		p.newCode = "7bit"
	case p.changed && s.how.To == EightBit && p.eightAfter && (p.encoding == "" || p.encoding == "7bit"):
		p.newCode = "8bit"
	}
	if len(s.open) > 0 {
		up := s.here()
		up.changed = up.changed || p.changed
		up.eightAfter = up.eightAfter || p.eightAfter
	}
}

// narrow decides how a leaf becomes 7-bit.
func (s *surveyor) narrow(p *part) {
	if !p.eight && !(s.how.Narrow && p.odd && (p.text || p.encoding == "quoted-printable")) {
		return
	}
	p.changed = true
	switch {
	case p.identity() && !p.fixed:
		p.do, p.newCode = encode, "quoted-printable"
	case p.encoding == "quoted-printable":
		p.do = mend
	case p.encoding == "base64":
		p.do = purge
	case s.failed == nil:
		s.failed = fmt.Errorf("%w: a part of another kind, or in encoding %.40q", ErrConversion, p.encoding)
	}
}

// rewriter is the second who goes through a message.
type rewriter struct {
	how    Conversion
	parts  []part
	next   int // index of the part that is entered next
	now    part
	w      *bufio.Writer // keeps its first error
	encode qpEncoder
	decode qpDecoder
}

func (r *rewriter) enter(_ shape, header, end string) {
	r.now = r.parts[r.next]
	if r.next > 0 { // the first header is not part of the body
		header = r.now.rewrite(header)
		if r.how.To == SevenBit && has8(header) {
			header = header7(header)
		}
		_, _ = r.w.WriteString(header)
		_, _ = r.w.WriteString(end)
	}
	r.next++
	r.encode = qpEncoder{narrow: r.how.Narrow, w: r.w}
	r.decode = qpDecoder{w: r.w}
}

func (r *rewriter) data(b []byte, begins bool) {
	switch r.now.do {
	case encode:
		r.encode.write(b, begins)
	case mend:
		r.encode.mend(b)
	case decode:
		r.decode.write(b)
	case purge:
		for _, c := range b {
			if c < 0x80 {
				_ = r.w.WriteByte(c)
			}
		}
	default:
		_, _ = r.w.Write(b)
	}
}

func (r *rewriter) outer(b []byte) {
	if r.how.To == SevenBit && has8(b) {
		b = bytes.Clone(b)
		for i, c := range b {
			if c > 0x7f {
				b[i] = '?'
			}
		}
	}
	_, _ = r.w.Write(b)
}

func (r *rewriter) leave() {
	switch r.now.do {
	case encode:
		r.encode.finish()
	case decode:
		r.decode.finish()
	}
	r.now.do = keep
}
