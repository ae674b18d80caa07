// This file holds the message as it is sent.

package smtp

import (
	"bufio"
	"io"
	"strings"

	"zsched/ta"
)

// content is a message as it is sent: the header of the control file, an empty
// line, and the body from its offset on, which is read while it is sent.
type content struct {
	header string // with LF line ends and the empty line after it
	body   *io.SectionReader
}

func newContent(header string, body *io.SectionReader) *content {
	// A CR within a field must not begin another field.
	return &content{strings.ReplaceAll(strings.ReplaceAll(header, "\r\n", "\n"), "\r", " ") + "\n", body}
}

// size is the length of the message in bytes as it is in the files.
func (c *content) size() int64 { return int64(len(c.header)) + c.body.Size() }

// send sends the message with a dot before each that begins a line, up to the final dot
// (RFC 5321 section 4.5.2). If it cannot be read, the error is a ta.ReadError.
func (c *content) send(to *bufio.Writer) error {
	framing := ta.Framing{CRLF: true, Dots: true}
	if err := framing.Write(to, strings.NewReader(c.header), int64(len(c.header))); err != nil {
		return err
	}
	return framing.Write(to, c.body, c.body.Size())
}
