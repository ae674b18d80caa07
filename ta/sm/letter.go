package sm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
	"zsched/ta/mime"
)

// letter is a message as a group of recipients gets it.
type letter struct {
	agent *Agent
	group []*ta.Recipient
	plan  *mime.Plan
	size  int64 // of the message as it came
}

// letter looks how the message is to be converted. What cannot be is passed on
// as it is, unless flag 7 says that the program cannot take it.
func (a *Agent) letter(group []*ta.Recipient, body *io.SectionReader) (*letter, error) {
	flags := a.Mailer.Flags
	how := mime.Conversion{To: mime.SevenBit, Narrow: a.Narrow, KeepHeader: a.KeepHeader}
	switch {
	case flags&Seven != 0:
		how.KeepHeader = false
	case flags&Decode != 0 || a.EightBit:
		how.To = mime.EightBit
	case flags&Eight != 0:
		how.To = mime.AsIs
	}
	header := group[0].Headers()
	plan, err := mime.NewPlan(header, body, how)
	if errors.Is(err, mime.ErrConversion) && flags&Seven == 0 {
		plan, err = mime.NewPlan(header, body, mime.Conversion{})
	}
	if err != nil {
		return nil, err
	}
	return &letter{agent: a, group: group, plan: plan, size: int64(len(header)) + body.Size()}, nil
}

// write writes what the program reads.
func (l *letter) write(w *bufio.Writer) error {
	flags := l.agent.Mailer.Flags
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
		for _, line := range l.envelope() {
			_, _ = w.WriteString(line + end)
		}
	}
	if flags&NoFrom == 0 || flags&UUCPFrom != 0 {
		_, _ = w.WriteString(l.fromLine() + end)
	}
	text := mime.NewFramer(w, framing)
	if _, err := io.WriteString(text, l.header()+"\n"); err != nil {
		return err
	}
	if err := l.plan.WriteBody(text); err != nil {
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

func (l *letter) sender() string { return l.agent.address(l.group[0]).sender }

// reversePath is the sender between angle brackets.
func (l *letter) reversePath() string { return smtpPath(senderOf(l.group[0])) }

func (l *letter) fromLine() string {
	line := "From " + l.sender() + " " + l.agent.Now().Format(time.ANSIC)
	if l.agent.Mailer.Flags&UUCPFrom != 0 {
		name, _, _ := strings.Cut(l.agent.Host, ".")
		line += " remote from " + name
	}
	return line
}

// header is the header block with the fields that flags add to it.
func (l *letter) header() string {
	flags := l.agent.Mailer.Flags
	header := l.plan.Header()
	if flags&ReturnPath != 0 {
		header = "Return-Path: " + l.reversePath() + "\n" + mime.WithoutField(header, "Return-Path")
	}
	if flags&Envelope != 0 {
		header = mime.WithoutField(header, "X-Envelope-To")
		for _, r := range l.group {
			uid, _, _ := strings.Cut(r.Privilege, " ")
			header += fmt.Sprintf("X-Envelope-To: %s (uid %s)\n", smtpPath(r.User), uid)
		}
	}
	return header
}

// envelope is the batch SMTP before the message.
func (l *letter) envelope() (lines []string) {
	flags := l.agent.Mailer.Flags
	switch {
	case flags&BatchHello != 0 && flags&BatchESMTP != 0:
		lines = append(lines, "EHLO "+l.agent.Host)
	case flags&BatchHello != 0:
		lines = append(lines, "HELO "+l.agent.Host)
	}
	mail := "MAIL FROM:" + l.reversePath()
	if flags&BatchESMTP != 0 {
		mail += fmt.Sprintf(" SIZE=%d", l.size+l.size/32) // for line ends and conversion
		if l.plan.EightBitBody || l.plan.EightBitHeader {
			mail += " BODY=8BITMIME"
		}
	}
	if first := l.group[0]; flags&BatchDSN != 0 {
		if ret := strings.ToUpper(first.Ret); ret == "FULL" || ret == "HDRS" {
			mail += " RET=" + ret
		}
		mail += parameter("ENVID", first.EnvID)
	}
	lines = append(lines, mail)
	for _, r := range l.group {
		rcpt := "RCPT TO:" + smtpPath(r.User)
		if flags&BatchDSN != 0 {
			for _, key := range []string{"NOTIFY", "ORCPT"} {
				value, _ := ctlfile.DSNWord(r.DSN, key)
				rcpt += parameter(key, value)
			}
		}
		lines = append(lines, rcpt)
	}
	return append(lines, "DATA")
}

// smtpPath is an address between angle brackets. It has its quotes and
// backslashes even with flag s, for without them it could be two words.
func smtpPath(address string) string {
	if address == "-" { // the file's word for nothing
		address = ""
	}
	return "<" + strings.TrimSuffix(strings.TrimPrefix(address, "<"), ">") + ">"
}

// validPath reports whether nothing within a path ends it, or the line.
func validPath(path string) bool {
	address, quoted := path[1:len(path)-1], false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case c < ' ' || c == 0x7f:
			return false
		case c == '\\':
			if i++; i == len(address) || address[i] < ' ' {
				return false
			}
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '<' || c == '>') && !quoted:
			return false
		}
	}
	return !quoted
}

// parameter is one parameter of a command, or nothing for a value that a
// command cannot have.
func parameter(key, value string) string {
	if !ctlfile.DSNValue(value) {
		return ""
	}
	return " " + key + "=" + value
}
