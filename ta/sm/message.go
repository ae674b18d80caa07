package sm

// The message as a program reads it: From line, header fields, 8-bit data.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/ta"
	"zsched/ta/mime"
)

// message is a message for a group of recipients.
type message struct {
	agent *Agent
	group []*ta.Recipient
	plan  *mime.Plan
	size  int64 // before conversion, with its header
}

// message finds out how the message is to be converted. A message that cannot
// be converted is passed on as it is, unless the mailer has flag 7, which says
// that its program takes no 8-bit data.
func (a *Agent) message(group []*ta.Recipient, body *io.SectionReader) (*message, error) {
	flags := a.Mailer.Flags
	conversion := mime.Conversion{To: mime.SevenBit, Narrow: a.Narrow, KeepHeader: a.KeepHeader}
	switch {
	case flags&SevenBit != 0:
		conversion.KeepHeader = false
	case flags&Decode != 0 || a.EightBit:
		conversion.To = mime.EightBit
	case flags&EightBit != 0:
		conversion.To = mime.AsIs
	}
	header := group[0].Headers()
	plan, err := mime.NewPlan(header, body, conversion)
	if errors.Is(err, mime.ErrConversion) && flags&SevenBit == 0 {
		plan, err = mime.NewPlan(header, body, mime.Conversion{})
	}
	if err != nil {
		return nil, err
	}
	return &message{agent: a, group: group, plan: plan, size: int64(len(header)) + body.Size()}, nil
}

// write writes what the program reads.
func (m *message) write(w *bufio.Writer) error {
	flags := m.agent.Mailer.Flags
	end := "\n"
	var framing mime.Framing
	if flags&CRLF != 0 {
		framing, end = mime.CRLF, "\r\n"
	}
	if flags&HideDots != 0 {
		framing |= mime.DotStuff
	}
	if flags&QuoteFrom != 0 {
		framing |= mime.QuoteFrom
	}
	if flags&Batch != 0 {
		for _, line := range m.commands() {
			_, _ = w.WriteString(line + end)
		}
	}
	if flags&NoFrom == 0 || flags&UUCPFrom != 0 {
		_, _ = w.WriteString(m.fromLine() + end)
	}
	text := mime.NewFramer(w, framing)
	if _, err := io.WriteString(text, m.header()+"\n"); err != nil {
		return err
	}
	if err := m.plan.WriteBody(text); err != nil {
		return err
	}
	if err := text.Close(); err != nil {
		return err
	}
	if flags&Batch != 0 {
		_, _ = w.WriteString("." + end)
	}
	return nil // w keeps its first error
}

func (m *message) fromLine() string {
	line := "From " + m.agent.address(m.group[0]).sender + " " + m.agent.Now().Format(time.ANSIC)
	if m.agent.Mailer.Flags&UUCPFrom != 0 {
		name, _, _ := strings.Cut(m.agent.Host, ".")
		line += " remote from " + name
	}
	return line
}

// header is the header block with the fields that flags add to it.
func (m *message) header() string {
	flags := m.agent.Mailer.Flags
	header := m.plan.Header()
	if flags&ReturnPath != 0 {
		header = "Return-Path: " + path(senderOf(m.group[0])) + "\n" + mime.WithoutField(header, "Return-Path")
	}
	if flags&Envelope != 0 {
		header = mime.WithoutField(header, "X-Envelope-To")
		for _, r := range m.group {
			uid, _, _ := strings.Cut(r.Privilege, " ")
			header += fmt.Sprintf("X-Envelope-To: %s (uid %s)\n", path(r.User), uid)
		}
	}
	return header
}
