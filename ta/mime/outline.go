package mime

// This file reads the structure of a message: the boundaries of multiparts, the
// headers of parts, and forwarded messages (RFC 2046).

import (
	"bufio"
	"bytes"
	"fmt"
)

const (
	// maxDepth is how deeply parts may be nested. A deeper part is treated as
	// one without parts.
	maxDepth = 32
	// maxPartHeader bounds the header of a part, in bytes.
	maxPartHeader = 256 << 10
	// maxParts bounds the parts of a message, and so the memory for its outline.
	maxParts = 100_000
)

// outliner reads a message line by line, divides it into segments and decides
// what becomes of each.
type outliner struct {
	how      Conversion
	in       *bufio.Reader
	segments []segment
	open     []string // boundaries of the multiparts around this line, outermost first
	depth    int
	parts    int
	refused  error // of the first part that cannot be converted

	line   []byte // the next line, or the next piece of a very long one
	begins bool   // what is read next begins a line
	at     int    // index into open of the boundary that line is, or -1
	closes bool   // it is a closing boundary
	err    error  // nothing comes after line
}

// outline returns the message as a part, and the segments of its body.
func outline(in *bufio.Reader, header string, how Conversion) (*part, []segment, error) {
	o := &outliner{how: how, in: in, begins: true, at: -1}
	o.next()
	top := newPart(header, "text/plain")
	top.message = true
	o.part(top)
	if err := readError(o.err); err != nil {
		return nil, nil, err
	}
	return top, o.segments, o.refused
}

// next reads the next line.
func (o *outliner) next() {
	if o.line = nil; o.err != nil {
		return
	}
	begins, err := o.begins, error(nil)
	o.line, err = o.in.ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull {
		o.err = err
	}
	o.begins = err == nil
	if o.at = -1; begins {
		o.findBoundary()
	}
}

// findBoundary checks whether the line is a boundary of an open multipart.
func (o *outliner) findBoundary() {
	if o.at = -1; len(o.open) == 0 || !bytes.HasPrefix(o.line, []byte("--")) {
		return
	}
	rest := string(bytes.TrimRight(o.line[2:], " \t\r\n"))
	for i := len(o.open) - 1; i >= 0; i-- {
		if rest == o.open[i] || rest == o.open[i]+"--" {
			o.at, o.closes = i, rest != o.open[i]
			return
		}
	}
}

// more reports whether there is a line and it is not a boundary.
func (o *outliner) more() bool { return len(o.line) > 0 && o.at < 0 }

// begin starts a segment, to which take adds lines.
func (o *outliner) begin(do action, p *part) *segment {
	o.segments = append(o.segments, segment{do: do, part: p})
	return &o.segments[len(o.segments)-1]
}

func (o *outliner) take() {
	o.segments[len(o.segments)-1].length += int64(len(o.line))
	o.next()
}

// part reads a part whose header was read, up to the end of the message or to
// a boundary that is not its own.
func (o *outliner) part(p *part) {
	if p.kind != leaf && o.depth >= maxDepth {
		p.kind, p.fixed = leaf, true
	}
	o.depth++
	switch p.kind {
	case multipart:
		o.multipart(p)
	case forwarded:
		o.child(p, "text/plain")
	default:
		o.leaf(p)
	}
	o.depth--
	switch {
	case p.kind == leaf:
	case p.changed && o.how.To == SevenBit && (p.encoding == "8bit" || p.encoding == "binary"):
		p.newEncoding = "7bit"
	case p.changed && o.how.To == EightBit && p.eightAfter && (p.encoding == "" || p.encoding == "7bit"):
		p.newEncoding = "8bit"
	}
}

func (o *outliner) multipart(p *part) {
	mine := len(o.open)
	o.open = append(o.open, p.boundary)
	o.findBoundary() // the line was read before this boundary was known
	o.around(p)
	for len(o.line) > 0 && o.at == mine && !o.closes {
		o.take()
		fallback := "text/plain"
		if p.digest {
			fallback = "message/rfc822"
		}
		o.child(p, fallback)
		o.begin(keep, nil)
	}
	closed := o.at == mine
	o.open = o.open[:mine]
	if closed {
		o.take()
		o.around(p)
	}
}

// around reads the text before, after or between the parts of p.
func (o *outliner) around(p *part) {
	do := keep
	if o.how.To == SevenBit {
		do = replace
	}
	for o.begin(do, nil); o.more(); o.take() {
		p.changed = p.changed || do == replace && has8(o.line)
	}
	o.begin(keep, nil) // the boundary
}

// child reads the header of a part of p, then the part.
func (o *outliner) child(p *part, fallback string) {
	if o.parts++; o.parts > maxParts {
		o.refuse("more than %d parts", maxParts)
		o.line = nil // so nothing more is read
		return
	}
	o.begin(convertHeader, nil)
	at := len(o.segments) - 1
	var header []byte
	for begins, ended := true, false; o.more() && !ended; o.take() {
		if ended = begins && isEmpty(o.line); ended {
			continue
		}
		if header = append(header, o.line...); len(header) > maxPartHeader {
			o.refuse("a part has a header of more than %d bytes", maxPartHeader)
			o.line = nil // so nothing more is read
			return
		}
		begins = o.line[len(o.line)-1] == '\n'
	}
	c := newPart(string(header), fallback)
	c.message, c.signed = p.kind == forwarded, c.signed || p.signed
	c.changed = o.how.To == SevenBit && has8(header)
	o.segments[at].part = c
	o.part(c)
	p.changed = p.changed || c.changed
	p.eightAfter = p.eightAfter || c.eightAfter
}

// isEmpty reports whether a line is the empty one that ends a header.
func isEmpty(line []byte) bool { return len(bytes.TrimRight(line, "\r\n")) == 0 }

// leaf reads a part without parts and decides what becomes of it.
func (o *outliner) leaf(p *part) {
	seen := bytesSeen{narrow: o.how.Narrow}
	var text charsetCheck
	var decoder *qpDecoder
	if o.how.To == EightBit && p.text && p.encoding == "quoted-printable" && !p.signed {
		decoder = &qpDecoder{boundaries: o.open}
	}
	s := o.begin(keep, nil)
	for o.more() {
		seen.add(o.line)
		if p.untyped {
			text.add(o.line)
		}
		if decoder != nil {
			decoder.write(o.line)
		}
		o.take()
	}
	switch {
	case decoder != nil:
		if decoder.finish(); !decoder.bad {
			s.do, p.changed, p.eightAfter, p.newEncoding = decode, true, decoder.eight, "7bit"
			if decoder.eight {
				p.newEncoding = "8bit"
			}
		}
	case o.how.To != SevenBit || !seen.eight && !(o.how.Narrow && seen.odd && (p.text || p.encoding == "quoted-printable")):
	case p.identity() && !p.fixed:
		s.do, p.changed, p.newEncoding = encode, true, "quoted-printable"
		if p.untyped {
			p.newCharset = text.charset()
		}
	case p.encoding == "quoted-printable":
		s.do, p.changed = mend, true
	case p.encoding == "base64":
		s.do, p.changed = purge, true
	default:
		o.refuse("a part of another kind, or in encoding %.40q", p.encoding)
	}
}

func (o *outliner) refuse(format string, args ...any) {
	if o.refused == nil {
		o.refused = fmt.Errorf("%w: "+format, append([]any{ErrConversion}, args...)...)
	}
}
