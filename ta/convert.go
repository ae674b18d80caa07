package ta

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Width is how many bits of a byte the way ahead carries.
type Width uint8

const (
	// AsIs leaves the message as it is.
	AsIs Width = iota
	// SevenBit makes quoted-printable of what has bytes above 127.
	SevenBit
	// EightBit decodes text in quoted-printable.
	EightBit
)

// Conversion is what shall be done to a message on its way.
type Conversion struct {
	To Width
	// Narrow, with SevenBit: control characters and blanks do not survive
	// either, so bodies with a TAB, another control character or a blank at
	// the end of a line are encoded too, and those that are have no literal
	// blank.
	Narrow bool
	// KeepHeader leaves bytes above 127 in the message's header. In the
	// headers of its parts they are converted with the parts.
	KeepHeader bool
}

// ErrConversion: the message has 8-bit data that cannot be made 7-bit. It is
// the enhanced status 5.6.3 (RFC 3463: conversion required but not supported).
var ErrConversion = errors.New("8-bit data cannot be converted")

// Plan is a message on its way and what is done to it. It is read twice: once
// to find what has to be converted, so that each header can say how its body
// is encoded, and once to write it. That follows MIME (RFC 2045 to 2049)
// through multiparts and forwarded messages to the single part:
//
//	part                        SevenBit                  EightBit
//	text or not, 7bit to binary quoted-printable          as it is
//	quoted-printable            its 8-bit bytes, =XX      decoded, if text and
//	                                                      nothing is lost by it
//	base64                      without its 8-bit bytes   as it is
//	any other encoding          ErrConversion             as it is
//	around parts                8-bit bytes become "?"    as it is
//
// A multipart/signed is no longer what was signed after SevenBit; EightBit
// does not touch it. A message with "Content-Conversion: prohibited" is not
// converted.
type Plan struct {
	// Cvt is the conversion in the words of the system's log (Logged): NONE,
	// QP, MPQP for one of a part, 8BIT, or UNKNOWN for a text that did not
	// say what it is.
	Cvt string
	// EightBitHeader and EightBitBody say that what is written has bytes
	// above 127 in its header, or after it.
	EightBitHeader, EightBitBody bool

	header string
	body   io.ReadSeeker
	how    Conversion
	parts  []part // in order of their headers; nil: the body stays
}

// NewPlan reads a message, given as a header block without the empty line that
// ends it, and a body. Lines end with LF, or CR and LF. The error is
// ErrConversion, with SevenBit only, or one of reading.
func NewPlan(header string, body io.ReadSeeker, how Conversion) (*Plan, error) {
	p := &Plan{header: header, body: body, how: how, Cvt: "NONE"}
	seen, err := p.look()
	if err != nil {
		return nil, err
	}
	p.EightBitHeader, p.EightBitBody = has8(header), seen.eight
	prohibited := strings.EqualFold(strings.TrimSpace(fieldValue(header, "Content-Conversion")), "prohibited")
	switch {
	case how.To == SevenBit && prohibited:
		if seen.eight {
			return nil, fmt.Errorf("%w: its sender has prohibited that", ErrConversion)
		}
	case how.To == SevenBit && (seen.eight || how.Narrow && seen.odd):
		err = p.survey()
		p.EightBitBody = false
	case how.To == EightBit && !prohibited:
		if err = p.survey(); errors.Is(err, ErrConversion) {
			err = nil // what cannot be decoded stays as it is
		}
		p.EightBitBody = p.EightBitBody || err == nil && len(p.parts) > 0 && p.parts[0].eightAfter
	}
	if err != nil {
		return nil, err
	}
	if how.To == SevenBit && !how.KeepHeader && !prohibited && p.EightBitHeader {
		p.header, p.EightBitHeader = header7(header), false
	}
	return p, nil
}

// look sees what bytes there are, without regard to structure.
func (p *Plan) look() (part, error) {
	var all part
	err := p.fragments(func(b []byte, _ bool) { all.see(b) })
	return all, err
}

// fragments reads the body from its start, by lines or, of those that are
// longer than the buffer, by pieces.
func (p *Plan) fragments(each func(b []byte, begins bool)) error {
	in, err := p.reader()
	if err != nil {
		return err
	}
	for begins := true; ; {
		b, err := in.ReadSlice('\n')
		if len(b) > 0 {
			each(b, begins)
		}
		begins = err == nil
		if err != nil && err != bufio.ErrBufferFull {
			return readError(err)
		}
	}
}

func (p *Plan) reader() (*bufio.Reader, error) {
	if _, err := p.body.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	return bufio.NewReaderSize(p.body, 32<<10), nil
}

func readError(err error) error {
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("read the message: %w", err)
}

// survey walks through the parts and decides for each of them.
func (p *Plan) survey() error {
	in, err := p.reader()
	if err != nil {
		return err
	}
	s := &surveyor{how: p.how}
	if err := walk(in, p.header, s); err != nil {
		return err
	}
	if s.failed != nil {
		return s.failed
	}
	if !s.parts[0].changed {
		return nil // and so it is copied
	}
	p.parts = s.parts
	top := &s.parts[0]
	switch {
	case p.how.To == EightBit:
		p.Cvt = "8BIT"
	case top.kind != leaf:
		p.Cvt = "MPQP"
	case top.untyped:
		p.Cvt = "UNKNOWN"
	default:
		p.Cvt = "QP"
	}
	return nil
}

// Header is the header block as it is written, without the empty line after
// it. The caller writes it first, with lines of his own before or after it.
func (p *Plan) Header() string {
	if p.parts != nil {
		return p.parts[0].rewrite(p.header)
	}
	return p.header
}

// WriteBody writes the body. Lines end as they came, those that were converted
// with LF. It may be called again. The error is that of the writer, or one of
// reading.
func (p *Plan) WriteBody(w io.Writer) error {
	if p.parts == nil {
		if _, err := p.body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read the message: %w", err)
		}
		_, err := io.Copy(w, p.body)
		return err
	}
	in, err := p.reader()
	if err != nil {
		return err
	}
	out := &rewriter{parts: p.parts, how: p.how, w: bufio.NewWriterSize(w, 32<<10)}
	if err := walk(in, p.header, out); err != nil {
		return err
	}
	return out.w.Flush()
}
