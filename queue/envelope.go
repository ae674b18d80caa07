package queue

// Envelopes: reading the envelope with which a submission in $POSTOFFICE/router
// begins: lines of one keyword and its value, up to "env-end" or to the first line of
// the header.
//
//	external                                     no recipient gets a privilege, as here always
//	rcvdfrom client.example ([192.0.2.7])        for the Received field
//	with ESMTP
//	identinfo SOURCE=192.0.2.0/24 CLIENT=192.0.2.7   as in an S line
//	envid QQ314159                               DSN parameters (RFC 3461)
//	notaryret HDRS
//	from <alice@sender.example>                  or "channel error", the null sender
//	todsn NOTIFY=SUCCESS ORCPT=rfc822;b@old.example   for the next recipient
//	to <bob@smtp.example>
//	env-end
//
// Other keywords of ZMailer's programs are known and skipped. The values may contain
// text from outside, so nothing here trusts them: addresses are checked when they are
// routed. An unknown keyword, a control character and a line without an end are
// errors with a position: if reading went on, a recipient could be lost.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"zsched/ctlfile"
)

// Limits of an envelope. A line of the longest address with all its DSN
// parameters is far shorter.
const (
	maxEnvelopeLine = 16 << 10 // bytes
	maxEnvelope     = 64 << 20 // bytes
	maxRecipients   = 250000
	maxOtherLines   = 1000 // besides two for each recipient
)

// Envelope is the envelope of a submission.
type Envelope struct {
	// From is the address of the sender as it was written. It is "" if Null is set,
	// and if there is no from line.
	From       string
	Null       bool   // the sender is the null sender
	EnvID, Ret string // "" for none
	RcvdFrom   string // the client that the message came from, "" if unknown
	With       string // the protocol, for the Received field
	Source     ctlfile.Source
	To         []EnvelopeRecipient
	Size       int64 // of the envelope in bytes; the header follows it
}

// EnvelopeRecipient is a "to" line with the "todsn" line before it.
type EnvelopeRecipient struct {
	Address string // as it was written
	DSN     string // value of an N line, "" for none
}

// EnvelopeError says where an envelope cannot be read.
type EnvelopeError struct {
	Line   int // from 1
	Reason string
}

func (e *EnvelopeError) Error() string { return fmt.Sprintf("%d: %s", e.Line, e.Reason) }

// skipped are keywords that mean nothing to a static router.
var skipped = map[string]bool{
	"bodytype": true, "external": true, "via": true, "comment": true, "errormsg": true, "fullname": true, "loginname": true,
	"user": true, "verbose": true, "authname": true, "smtputf8": true,
}

// ReadEnvelope reads an envelope and returns a reader for the rest, which is the message.
// An error that is no *EnvelopeError comes from reading.
func ReadEnvelope(from io.Reader) (*Envelope, io.Reader, error) {
	p := envelopeReader{in: bufio.NewReaderSize(from, maxEnvelopeLine), envelope: new(Envelope)}
	for {
		line, end, err := p.next()
		if err != nil {
			return nil, nil, err
		}
		if end {
			p.envelope.Source = ctlfile.ParseSource(p.source)
			return p.envelope, p.in, nil
		}
		if err := p.apply(line); err != nil {
			return nil, nil, err
		}
	}
}

type envelopeReader struct {
	in       *bufio.Reader
	envelope *Envelope
	line     int
	dsn      string // of the next recipient
	source   string // value of the last identinfo line
}

func (p *envelopeReader) fail(format string, args ...any) error {
	return &EnvelopeError{p.line, fmt.Sprintf(format, args...)}
}

// next returns the next line of the envelope. end is true at the end of the envelope,
// when the reader is at the header.
func (p *envelopeReader) next() (line string, end bool, err error) {
	p.line++
	raw, err := p.peekLine()
	if err != nil {
		return "", false, err
	}
	line = strings.TrimSuffix(string(raw), "\n")
	word, after := cutWord(line)
	if line == "" || strings.HasPrefix(after, ":") {
		return "", true, nil
	}
	if raw[len(raw)-1] != '\n' {
		return "", false, p.fail("the line has no end")
	}
	if p.line > 2*len(p.envelope.To)+maxOtherLines {
		return "", false, p.fail("there are more than %d lines besides those of recipients", maxOtherLines)
	}
	_, _ = p.in.Discard(len(raw))
	if p.envelope.Size += int64(len(raw)); p.envelope.Size > maxEnvelope {
		return "", false, p.fail("the envelope is longer than %d bytes", maxEnvelope)
	}
	return line, word == "env-end" || word == "env-eof", nil
}

// peekLine returns the next line, with its end, without consuming it. If the line is
// longer than the reader's buffer and belongs to the header, peekLine returns its
// beginning.
func (p *envelopeReader) peekLine() ([]byte, error) {
	for size := 256; ; size *= 2 {
		size = min(size, maxEnvelopeLine)
		raw, err := p.in.Peek(size)
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			return raw[:i+1], nil
		}
		switch {
		case errors.Is(err, io.EOF) && len(raw) == 0:
			return nil, p.fail("the file ends within the envelope")
		case errors.Is(err, io.EOF) || size == maxEnvelopeLine:
			if _, after := cutWord(string(raw)); strings.HasPrefix(after, ":") {
				return raw, nil
			}
			return nil, p.fail("the line has no end within %d bytes", maxEnvelopeLine)
		case err != nil:
			return nil, fmt.Errorf("read the envelope: %w", err)
		}
	}
}

// cutWord cuts the keyword off a line.
func cutWord(line string) (word, after string) {
	i := strings.IndexAny(line, " \t:")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimLeft(line[i:], " \t")
}

func (p *envelopeReader) apply(line string) error {
	e := p.envelope
	word, value := cutWord(line)
	value = strings.TrimRight(value, " \t\r")
	if strings.ContainsFunc(value, func(c rune) bool { return c != '\t' && ctlfile.IsControl(c) }) {
		return p.fail("a control character in the value of %q", word)
	}
	switch word {
	case "from":
		e.From, e.Null = value, value == "<>"
		if e.Null {
			e.From = ""
		} else if value == "" {
			return p.fail("the sender is missing")
		}
	case "channel":
		// Its other values say how the sender's mail arrived, which does not matter here.
		e.Null = e.Null || value == "error"
	case "todsn":
		p.dsn = parameters(value)
	case "to":
		if value == "" {
			return p.fail("the recipient is missing")
		}
		if len(e.To) == maxRecipients {
			return p.fail("more than %d recipients", maxRecipients)
		}
		e.To = append(e.To, EnvelopeRecipient{value, p.dsn})
		p.dsn = ""
	case "envid":
		e.EnvID = parameter(value)
	case "notaryret":
		e.Ret = parameter(value)
	case "rcvdfrom":
		e.RcvdFrom = value
	case "with":
		e.With = value
	case "identinfo":
		p.source = value
	default:
		if !skipped[word] {
			return p.fail("unknown keyword %.100q", word)
		}
	}
	return nil
}

// parameter returns a DSN parameter if it is valid in an SMTP command, else "": it is
// better to lose a parameter than the mail.
func parameter(value string) string {
	if !ctlfile.DSNValue(value) {
		return ""
	}
	return value
}

// parameters returns the words of an N line that a todsn line may have, or of a todsn line that an
// N line may have. Of two words with one key, the first counts. The value is read once: an
// envelope may have many megabytes of such lines.
func parameters(value string) string {
	keys := [...]string{"NOTIFY", "ORCPT", "INRCPT", "INFROM", "EZMLM", "BY"}
	var seen [len(keys)]bool
	var words [len(keys)]string
	for name, v := range ctlfile.DSNWords(value) {
		i := slices.IndexFunc(keys[:], func(key string) bool { return len(name) == len(key) && strings.EqualFold(name, key) })
		if i < 0 || seen[i] {
			continue
		}
		if seen[i] = true; ctlfile.DSNValue(v) {
			words[i] = keys[i] + "=" + v
		}
	}
	return strings.Join(slices.DeleteFunc(words[:], func(word string) bool { return word == "" }), " ")
}
