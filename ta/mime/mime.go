// Package mime converts messages in two directions. For a next hop that accepts
// only 7-bit data, it encodes headers and bodies (RFC 6152). For a reader that
// wants 8-bit text, it decodes quoted-printable. It follows MIME (RFC 2045 to
// 2049) through multiparts and forwarded messages down to the single part:
//
//	part                        SevenBit                  EightBit
//	7bit, 8bit or binary        quoted-printable          as it is
//	quoted-printable            8-bit bytes become =XX    decoded, if it is text
//	                                                      and nothing is lost
//	base64                      8-bit bytes are dropped   as it is
//	any other encoding          ErrConversion             as it is
//	around parts                8-bit bytes become "?"    as it is
//
// What needs no conversion stays as it is, byte for byte. A multipart/signed
// is no longer what was signed if SevenBit must convert a part of it; EightBit
// does not touch it. A message with "Content-Conversion: prohibited" is not
// converted.
//
// The package has its own reader of multiparts and its own quoted-printable.
// The reader of go-message drops the text around parts, wraps and re-encodes
// parts that need no conversion, which breaks their signatures, and gives up on
// multiparts that are not closed. The writer of mime/quotedprintable turns
// a single CR into a line end, and cannot protect a "From " that begins a line.
//
// Memory is bounded: a message is read line by line, twice, and only the
// outline of its parts is kept (maxDepth, maxParts, maxPartHeader).
package mime

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Target says what bytes the next hop or reader accepts.
type Target uint8

const (
	// AsIs leaves the message as it is.
	AsIs Target = iota
	// SevenBit encodes whatever has bytes above 127 as quoted-printable.
	SevenBit
	// EightBit decodes text in quoted-printable.
	EightBit
)

// Conversion says how a message is to be converted.
type Conversion struct {
	To Target
	// Narrow, with SevenBit, says that control characters and blanks would not reach
	// the recipient unchanged either. Bodies with a TAB, another control character or a
	// blank at the end of a line are encoded too, and no encoded body has a literal blank.
	Narrow bool
	// KeepHeader leaves bytes above 127 in the message's header. The headers of
	// its parts are converted with the parts.
	KeepHeader bool
}

// ErrConversion says that the message has 8-bit data that cannot be made 7-bit:
// enhanced status 5.6.3 (RFC 3463: conversion required but not supported).
var ErrConversion = errors.New("8-bit data cannot be converted")

// Plan is a message and the conversion that it needs. Making the plan reads the
// message once, because a header, which is written first, has to say how its
// body will be encoded. WriteBody reads it again.
type Plan struct {
	// Cvt names the conversion in the system's log: NONE, QP, MPQP (a part was
	// encoded), 8BIT, or UNKNOWN (the text had no Content-Type).
	Cvt string
	// EightBitHeader and EightBitBody say that what is written has bytes
	// above 127 in its header, or after it.
	EightBitHeader, EightBitBody bool

	header   string
	body     io.ReadSeeker
	how      Conversion
	top      *part     // the message itself; nil: the body is not converted
	segments []segment // the whole body in order; nil: the body is not converted
}

// NewPlan plans the conversion of a message: a header block without the empty
// line that ends it, and a body. Lines end with LF, or CR and LF. The error is
// ErrConversion, with SevenBit only, or a read error.
func NewPlan(header string, body io.ReadSeeker, how Conversion) (*Plan, error) {
	p := &Plan{header: header, body: body, how: how, Cvt: "NONE"}
	bytes, err := p.scan()
	if err != nil {
		return nil, err
	}
	p.EightBitHeader, p.EightBitBody = has8(header), bytes.eight
	prohibited := strings.EqualFold(firstValue(header, "Content-Conversion"), "prohibited")
	switch {
	case how.To == SevenBit && prohibited:
		if bytes.eight {
			return nil, fmt.Errorf("%w: its sender has prohibited that", ErrConversion)
		}
		return p, nil
	case how.To == SevenBit && (bytes.eight || how.Narrow && bytes.odd):
		err = p.outline()
		p.EightBitBody = false
	case how.To == EightBit && !prohibited:
		if err = p.outline(); errors.Is(err, ErrConversion) {
			err = nil // what cannot be decoded stays as it is
		}
		p.EightBitBody = p.EightBitBody || p.top != nil && p.top.eightAfter
	}
	if err != nil {
		return nil, err
	}
	if how.To == SevenBit && !how.KeepHeader && p.EightBitHeader {
		p.header, p.EightBitHeader = header7(header), false
	}
	return p, nil
}

// scan finds which kinds of bytes the body has, in all of its parts together.
func (p *Plan) scan() (seen bytesSeen, err error) {
	seen.narrow = p.how.Narrow
	in, err := p.reader()
	if err != nil {
		return seen, err
	}
	for {
		b, err := in.ReadSlice('\n')
		seen.add(b)
		if err != nil && err != bufio.ErrBufferFull {
			return seen, readError(err)
		}
		if seen.eight && !seen.narrow {
			return seen, nil // the rest makes no difference
		}
	}
}

// outline finds the parts and decides for each of them.
func (p *Plan) outline() error {
	in, err := p.reader()
	if err != nil {
		return err
	}
	top, segments, err := outline(in, p.header, p.how)
	if err != nil || !top.changed {
		return err
	}
	p.top, p.segments = top, segments
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

func (p *Plan) reader() (*bufio.Reader, error) {
	if _, err := p.body.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	return bufio.NewReaderSize(p.body, 32<<10), nil
}

func readError(err error) error {
	if err == nil || err == io.EOF {
		return nil
	}
	return fmt.Errorf("read the message: %w", err)
}

// Header is the header block as it is written, without the empty line after
// it. The caller writes it, with fields of its own before or after it, then an
// empty line, then the body.
func (p *Plan) Header() string {
	if p.top != nil {
		return p.top.rewrite(p.header)
	}
	return p.header
}

// WriteBody writes the body. Lines keep their ends, except that lines which
// were encoded or decoded end with LF. It may be called again. The error is that
// of the writer, or a read error.
func (p *Plan) WriteBody(w io.Writer) error {
	if p.segments == nil {
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
	out := bufio.NewWriterSize(w, 32<<10) // it keeps its first error
	for i := range p.segments {
		if err := p.segments[i].write(in, out, p.how); err != nil {
			return err
		}
	}
	return out.Flush()
}

// segment is a range of the body, whole lines, that is written in one way.
type segment struct {
	length int64
	do     action
	part   *part // whose header it is, for convertHeader
}

// action is the way in which a segment is written.
type action uint8

const (
	keep          action = iota
	replace              // write "?" for 8-bit bytes
	purge                // drop 8-bit bytes, which base64 cannot have
	encode               // encode as quoted-printable
	mend                 // encode what quoted-printable cannot have
	decode               // decode quoted-printable
	convertHeader        // rewrite the header of segment.part
)

func (s *segment) write(in *bufio.Reader, out *bufio.Writer, how Conversion) error {
	encoder := qpEncoder{w: out, narrow: how.Narrow}
	decoder := qpDecoder{w: out}
	var header []byte
	end := ""
	for left := s.length; left > 0; {
		b, err := in.ReadSlice('\n')
		left -= int64(len(b))
		if err == io.EOF && left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && err != bufio.ErrBufferFull && err != io.EOF {
			return readError(err)
		}
		switch s.do {
		case convertHeader:
			if left == 0 && isEmpty(b) {
				end = string(b)
			} else {
				header = append(header, b...)
			}
		case encode:
			encoder.write(b)
		case mend:
			encoder.mend(b)
		case decode:
			decoder.write(b)
		case replace:
			_, _ = out.WriteString(withQuestionMarks(string(b)))
		case purge:
			for _, c := range b {
				if c < 0x80 {
					_ = out.WriteByte(c)
				}
			}
		default:
			_, _ = out.Write(b)
		}
	}
	encoder.finish()
	decoder.finish()
	if s.do == convertHeader {
		text := s.part.rewrite(string(header))
		if how.To == SevenBit {
			text = header7(text)
		}
		_, _ = out.WriteString(text + end)
	}
	return nil
}
