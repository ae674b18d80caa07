package sm

// The message as a program reads it: From line and header fields.

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/ta"
)

// message is a message for a group of recipients.
type message struct {
	agent *Agent
	group []*ta.Recipient
	body  *io.SectionReader
}

// write writes what the program reads.
func (m *message) write(w *bufio.Writer) error {
	flags := m.agent.Mailer.Flags
	end := "\n"
	if flags&CRLF != 0 {
		end = "\r\n"
	}
	if flags&NoFrom == 0 {
		_, _ = w.WriteString(m.fromLine() + end)
	}
	framing := ta.Framing{CRLF: flags&CRLF != 0, Dots: flags&HideDots != 0, From: flags&QuoteFrom != 0}
	header := m.header() + "\n"
	if err := framing.Write(w, strings.NewReader(header), int64(len(header))); err != nil {
		return err
	}
	return framing.Write(w, m.body, m.body.Size())
}

func (m *message) fromLine() string {
	return "From " + m.agent.address(m.group[0]).sender + " " + m.agent.Now().Format(time.ANSIC)
}

// header is the header block with the fields that flags add to it.
func (m *message) header() string {
	flags := m.agent.Mailer.Flags
	fields := header.Split(m.group[0].Headers())
	if flags&ReturnPath != 0 {
		from := "Return-Path: " + path(senderOf(m.group[0])) + "\n"
		fields = append(header.Fields{from}, fields.Without("Return-Path")...)
	}
	if flags&Envelope != 0 {
		fields = fields.Without("X-Envelope-To")
		for _, r := range m.group {
			uid, _, _ := strings.Cut(r.Privilege, " ")
			fields = append(fields, fmt.Sprintf("X-Envelope-To: %s (uid %s)\n", path(r.User), uid))
		}
	}
	return fields.String()
}

// path is an address in angle brackets, for a field of the header. It keeps its quotes
// and backslashes even with flag s: without them it could be read as two words.
func path(address string) string {
	if address == "-" { // an empty word of the control file
		address = ""
	}
	return "<" + ctlfile.Unbracketed(address) + ">"
}
