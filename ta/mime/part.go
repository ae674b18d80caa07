package mime

// This file defines one part of a message: what its header says, how that header
// is rewritten, and which kinds of bytes its body has.

import (
	"mime"
	"strings"
	"unicode/utf8"
)

// kind says how a part is made up.
type kind uint8

const (
	leaf      kind = iota // no parts in it
	multipart             // parts between boundaries
	forwarded             // a message with a header of its own
)

// part is one part of a message: what its header says, and what is decided.
type part struct {
	kind     kind
	boundary string // of a multipart
	encoding string // in lower case; "" is 7bit
	text     bool
	untyped  bool // it has no Content-Type
	message  bool // the header is that of a message, not of a part in one
	signed   bool // inside a multipart/signed
	digest   bool // parts in it are messages unless they say otherwise
	fixed    bool // must not be encoded (RFC 2045 section 6.4), or is nested too deeply

	changed     bool   // this part or one in it is converted
	eightAfter  bool   // decoded text in it has bytes above 127
	newEncoding string // Content-Transfer-Encoding that the header gets; "": no change
	newCharset  string // of a Content-Type that the header gets; "": none
}

// newPart reads the header of a part. fallback is its type where it names none.
func newPart(header, fallback string) *part {
	p := &part{encoding: strings.ToLower(firstValue(header, "Content-Transfer-Encoding"))}
	value := firstValue(header, "Content-Type")
	p.untyped = value == ""
	if p.untyped {
		value = fallback
	}
	// If a parameter is malformed, the type is still returned, and perhaps the
	// boundary.
	mediaType, params, _ := mime.ParseMediaType(value)
	major, minor, _ := strings.Cut(mediaType, "/")
	p.text = major == "text" || mediaType == ""
	p.fixed = mediaType == "message/partial" || mediaType == "message/external-body" || major == "multipart"
	switch {
	case p.identity() && major == "multipart" && params["boundary"] != "":
		p.kind, p.boundary = multipart, params["boundary"]
		p.signed, p.digest = minor == "signed", minor == "digest"
	case p.identity() && mediaType == "message/rfc822":
		p.kind = forwarded
	}
	return p
}

// identity reports whether the body is not encoded.
func (p *part) identity() bool {
	switch p.encoding {
	case "", "7bit", "8bit", "binary":
		return true
	}
	return false
}

// rewrite is the part's header, adapted to the conversion of its body.
func (p *part) rewrite(header string) string {
	if !p.changed {
		return header
	}
	var b strings.Builder
	encoded, versioned := p.newEncoding == "", !p.message
	for name, field := range Fields(header) {
		switch {
		case p.newEncoding != "" && strings.EqualFold(name, "Content-Transfer-Encoding"):
			if !encoded {
				b.WriteString("Content-Transfer-Encoding: " + p.newEncoding + "\n")
			}
			encoded = true
			continue
		case strings.EqualFold(name, "MIME-Version"):
			versioned = true
		}
		b.WriteString(field)
	}
	if !versioned {
		b.WriteString("MIME-Version: 1.0\n")
	}
	if p.newCharset != "" {
		b.WriteString("Content-Type: text/plain; charset=" + p.newCharset + "\n")
	}
	if !encoded {
		b.WriteString("Content-Transfer-Encoding: " + p.newEncoding + "\n")
	}
	return b.String()
}

// bytesSeen says what kinds of bytes a body has.
type bytesSeen struct {
	narrow bool // Conversion.Narrow: odd is looked for, too

	eight bool // a byte above 127
	odd   bool // a control character, or a blank at the end of a line
	blank bool // the last byte was a blank
	cr    bool // the last byte was a CR
}

// add takes the next piece of the body.
func (s *bytesSeen) add(b []byte) {
	if !s.narrow {
		s.eight = s.eight || has8(b)
		return
	}
	for _, c := range b {
		switch {
		case c == '\n':
			s.odd = s.odd || s.blank
		case s.cr, c < ' ' && c != '\r', c == 0x7f:
			s.odd = true
		case c > 0x7f:
			s.eight = true
		}
		s.cr = c == '\r'
		s.blank = c == ' ' || c == '\t' || s.blank && s.cr
	}
}

// charsetCheck finds out whether a text that comes in pieces is UTF-8.
type charsetCheck struct {
	partial []byte // the beginning of an incomplete character
	invalid bool
}

func (u *charsetCheck) add(b []byte) {
	if len(u.partial) > 0 {
		b, u.partial = append(u.partial, b...), nil
	}
	for len(b) > 0 && utf8.FullRune(b) {
		r, n := utf8.DecodeRune(b)
		u.invalid = u.invalid || r == utf8.RuneError && n == 1
		b = b[n:]
	}
	u.partial = append(u.partial, b...)
}

// charset names the character set of a text whose header does not.
func (u *charsetCheck) charset() string {
	if u.invalid || len(u.partial) > 0 {
		return "unknown-8bit" // RFC 1428
	}
	return "utf-8"
}
