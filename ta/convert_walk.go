package ta

import (
	"bufio"
	"bytes"
	"fmt"
	"mime"
	"strings"
)

const (
	// maxDepth is how many parts may be inside each other. What is deeper is
	// taken for a part without parts.
	maxDepth = 32
	// maxPartHeader bounds the header of a part, in bytes.
	maxPartHeader = 256 << 10
	// maxParts bounds the parts of a message.
	maxParts = 100_000
)

// kind is how a part is made.
type kind uint8

const (
	leaf      kind = iota // no parts in it
	multipart             // parts between boundaries
	forwarded             // a message with a header of its own
)

// shape is what a header says of the part that it begins.
type shape struct {
	kind     kind
	boundary string // of a multipart
	encoding string // in lower case; "" is 7bit
	text     bool
	untyped  bool // there is no Content-Type
	message  bool // the header is that of a message, not of a part in one
	sealed   bool // inside a multipart/signed
	digest   bool // parts in it are messages unless they say otherwise
	fixed    bool // may not be encoded: it would be another part then
}

// readShape reads a header. fallback is the type that stands where none is
// named.
func readShape(header, fallback string) shape {
	s := shape{encoding: strings.ToLower(strings.TrimSpace(fieldValue(header, "Content-Transfer-Encoding")))}
	value := fieldValue(header, "Content-Type")
	s.untyped = value == ""
	if s.untyped {
		value = fallback
	}
	// An error in a parameter leaves the type; the parameters that matter are
	// there then or they are not.
	kind, params, _ := mime.ParseMediaType(value)
	major, minor, _ := strings.Cut(kind, "/")
	s.text = major == "text" || kind == ""
	s.fixed = kind == "message/partial" || kind == "message/external-body" || major == "multipart"
	switch {
	case s.identity() && major == "multipart" && params["boundary"] != "":
		s.kind, s.boundary = multipart, params["boundary"]
		s.sealed, s.digest = minor == "signed", minor == "digest"
	case s.identity() && kind == "message/rfc822":
		s.kind = forwarded
	}
	return s
}

// identity says that the body is not encoded.
func (s *shape) identity() bool {
	switch s.encoding {
	case "", "7bit", "8bit", "binary":
		return true
	}
	return false
}

// visitor is told what walk finds, in order. The bytes are good for the call.
type visitor interface {
	// enter begins a part. All of its header is given, and the empty line
	// after it if there is one; of the first part, nothing.
	enter(s shape, header, end string)
	data(b []byte, begins bool) // of a leaf; whether b begins a line
	outer(b []byte)             // boundaries and what is around parts
	leave()
}

// walker goes through a body, line by line.
type walker struct {
	in    *bufio.Reader
	visit visitor
	open  []string // boundaries, outermost first
	depth int
	parts int

	line   []byte // the line, or the piece of it, that comes next
	begins bool   // line begins a line
	at     int    // index into open of the boundary that line is, or -1
	last   bool   // it is a closing one
	err    error  // after line there is nothing more
}

// walk tells v of the parts of a message.
func walk(in *bufio.Reader, header string, v visitor) error {
	w := &walker{in: in, visit: v, begins: true, at: -1}
	w.next()
	s := readShape(header, "text/plain")
	s.message = true
	w.part(s, "", "")
	return readError(w.err)
}

// next reads on.
func (w *walker) next() {
	if w.line = nil; w.err != nil {
		return
	}
	var err error
	w.line, err = w.in.ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull {
		w.err = err
	}
	w.at = -1
	if w.begins && len(w.open) > 0 && bytes.HasPrefix(w.line, []byte("--")) {
		w.find()
	}
	w.begins = err == nil
}

// find looks whether the line is a boundary of a part that is open.
func (w *walker) find() {
	rest := string(bytes.TrimRight(w.line[2:], " \t\r\n"))
	for i := len(w.open) - 1; i >= 0; i-- {
		if rest == w.open[i] || rest == w.open[i]+"--" {
			w.at, w.last = i, rest != w.open[i]
			return
		}
	}
}

// more says that the line belongs to what is being read: it is there and no
// boundary.
func (w *walker) more() bool { return len(w.line) > 0 && w.at < 0 }

// part goes through a part whose header was read, up to the end or a boundary
// that is not its own.
func (w *walker) part(s shape, header, end string) {
	if w.parts++; s.kind != leaf && (w.depth >= maxDepth || w.parts >= maxParts) {
		s.kind, s.fixed = leaf, true
	}
	w.depth++
	w.visit.enter(s, header, end)
	switch s.kind {
	case multipart:
		w.multipart(s)
	case forwarded:
		w.child(shape{message: true, sealed: s.sealed}, "text/plain")
	default:
		for begins := true; w.more(); w.next() {
			w.visit.data(w.line, begins)
			begins = w.line[len(w.line)-1] == '\n'
		}
	}
	w.visit.leave()
	w.depth--
}

func (w *walker) multipart(s shape) {
	mine := len(w.open)
	w.open = append(w.open, s.boundary)
	if bytes.HasPrefix(w.line, []byte("--")) {
		w.at = -1
		w.find() // it was read before that boundary was known
	}
	w.outer()
	for len(w.line) > 0 && w.at == mine && !w.last {
		w.visit.outer(w.line)
		w.next()
		fallback := "text/plain"
		if s.digest {
			fallback = "message/rfc822"
		}
		w.child(shape{sealed: s.sealed}, fallback)
	}
	closed := w.at == mine
	w.open = w.open[:mine]
	if closed {
		w.visit.outer(w.line)
		w.next()
		w.outer()
	}
}

// outer passes on what stands around parts.
func (w *walker) outer() {
	for ; w.more(); w.next() {
		w.visit.outer(w.line)
	}
}

// child reads the header of an inner part, then the part.
func (w *walker) child(from shape, fallback string) {
	var header []byte
	end := ""
	for begins := true; w.more(); w.next() {
		if begins && len(bytes.TrimRight(w.line, "\r\n")) == 0 {
			end = string(w.line)
			w.next()
			break
		}
		if len(header)+len(w.line) > maxPartHeader {
			if w.err == nil {
				w.err = fmt.Errorf("%w: a part has a header of more than %d bytes", ErrConversion, maxPartHeader)
			}
			w.line = nil
			return
		}
		header = append(header, w.line...)
		begins = w.line[len(w.line)-1] == '\n'
	}
	s := readShape(string(header), fallback)
	s.message, s.sealed = from.message, s.sealed || from.sealed
	w.part(s, string(header), end)
}
