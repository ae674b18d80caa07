package ctlfile

import (
	"errors"
	"io"
)

// Draft is a control file to be written.
type Draft struct {
	Name    string // i line; Submit and Enqueue set it
	Body    int64  // offset of the body in the message file
	LogID   string
	Verbose string
	ErrorTo string // address for error messages, "" for the sender's
	// Obsoletes and Triggers as in File.
	Obsoletes, Triggers []string
	Groups              []Group
}

// Group is the recipients that share a header block.
type Group struct {
	Envelopes []Envelope
	Header    string // lines, each with its line end; no empty line
}

// Envelope is a sender and its recipients. The words of the quads are given
// with or without quotes; Encode adds the missing ones.
type Envelope struct {
	Sender     Quad
	Recipients []Addressee
}

// Addressee is a recipient of an Envelope.
type Addressee struct {
	Quad
	Class           int    // from 1 for alternatives, 0 otherwise
	DSN, Ret, EnvID string // N, R and n lines
}

// Encode is the control file in the router's order.
func (d *Draft) Encode() ([]byte, error) { return nil, errors.ErrUnsupported }

// Submit stores a message read from message. It returns the control file's
// path below transport/.
func Submit(postoffice string, levels int, d *Draft, message io.Reader) (path string, err error) {
	return "", errors.ErrUnsupported
}

// Enqueue is Submit for a message file that exists: it is moved into queue/,
// and back if the control file cannot be put in place.
func Enqueue(postoffice string, levels int, d *Draft, file string) (path string, err error) {
	return "", errors.ErrUnsupported
}

// ReadHeader takes the header off a message, as the router does.
func ReadHeader(message io.Reader) (header string, body int64, whole io.Reader, err error) {
	return "", 0, nil, errors.ErrUnsupported
}

// Announce tells the scheduler of a new control file: datagram "NEW path".
func Announce(socket, path string) error { return errors.ErrUnsupported }
