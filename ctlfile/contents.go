package ctlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Contents is a control file to be written.
type Contents struct {
	Name      string // i line; Submit and Enqueue know better
	Body      int64  // offset of the body in the message file
	LogID     string // the Message-ID, or ""
	Verbose   string // file that wants a log of the delivery, or ""
	ErrorTo   string // address for error messages, "" for the last sender's
	Obsoletes []string
	Triggers  []string
	Blocks    []HeaderBlock
}

// HeaderBlock is the recipients that share a header block.
type HeaderBlock struct {
	Envelopes []Envelope
	Header    string // lines without an empty one between them
}

// Envelope is a sender and its recipients. A sender in channel "error" is the
// null sender. The words of quads may be as they are in a file or not yet
// quoted.
type Envelope struct {
	Sender     Address
	Recipients []EnvelopeRecipient
}

// EnvelopeRecipient is a recipient of an Envelope.
type EnvelopeRecipient struct {
	Address
	Class           int    // from 1 for alternatives of each other, else 0
	DSN, Ret, EnvID string // N, R and n lines, "" for none
}

// Encode is the control file as the router would write it, in its order. It
// refuses what could not be read back: a line end in a value, an empty line
// in a header block, a privilege that is no number.
func (d *Contents) Encode() ([]byte, error) {
	e := encoder{b: make([]byte, 0, 1024)}
	e.draft(d)
	if e.err == nil && len(e.b) > MaxSize {
		e.fail(fmt.Errorf("%d bytes are too many", len(e.b)))
	}
	if e.err != nil {
		return nil, fmt.Errorf("write control file %q: %w", d.Name, e.err)
	}
	return e.b, nil
}

// encoder remembers the first error, so that lines can be written in a row.
type encoder struct {
	b          []byte
	recipients int
	err        error
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) draft(d *Contents) {
	e.line('@', fmt.Sprintf("0x%08x", uint64(Supported)))
	e.optional('v', d.Verbose)
	if !isName(d.Name) {
		e.fail(errors.New("that is not the name of a message file"))
	}
	e.line('i', d.Name)
	if d.Body < 0 {
		e.fail(fmt.Errorf("body offset %d", d.Body))
	}
	e.line('o', strconv.FormatInt(d.Body, 10))
	e.optional('l', d.LogID)
	for _, id := range d.Obsoletes {
		e.line('x', id)
	}
	for _, host := range d.Triggers {
		e.line('T', host)
	}
	for i := range d.Blocks {
		e.group(&d.Blocks[i], d.ErrorTo)
	}
	if e.recipients == 0 {
		e.fail(errors.New("no recipient"))
	}
}

func (e *encoder) group(g *HeaderBlock, errorTo string) {
	for i := range g.Envelopes {
		envelope := &g.Envelopes[i]
		if envelope.Sender.Channel != "error" {
			e.optional('e', errorTo)
		}
		e.line('s', e.quad(envelope.Sender).String())
		for j := range envelope.Recipients {
			e.recipient(&envelope.Recipients[j])
		}
	}
	e.header(g.Header)
}

func (e *encoder) recipient(a *EnvelopeRecipient) {
	const pidAndDelay = "          "
	quad := e.quad(a.Address)
	if !quad.routable() {
		e.fail(errEndless)
	}
	switch {
	case a.Class > 0:
		e.line('X', pidAndDelay+strconv.Itoa(a.Class)+" "+quad.String())
	case a.Class == 0:
		e.line('r', pidAndDelay+quad.String())
	default:
		e.fail(fmt.Errorf("class %d", a.Class))
	}
	e.optional('N', a.DSN)
	e.optional('R', a.Ret)
	e.optional('n', a.EnvID)
	e.recipients++
}

func (e *encoder) header(text string) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if strings.HasPrefix(text, "\n") || strings.Contains(text, "\n\n") {
		e.fail(fmt.Errorf("header block %.200q has an empty line", text))
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		e.fail(fmt.Errorf("header block %.200q has a NUL at byte %d", text, i))
	}
	e.b = append(e.b, "m\n"...)
	e.b = append(e.b, text...)
	e.b = append(e.b, '\n')
}

// quad quotes the words where they need it.
func (e *encoder) quad(q Address) Address {
	words := [...]string{q.Channel, q.Host, q.User}
	for i, word := range words {
		quoted, err := Quote(word)
		if err != nil {
			e.fail(err)
		}
		words[i] = quoted
	}
	if strings.HasPrefix(words[1], "(") {
		e.fail(fmt.Errorf("host %q reads as a list of hosts", q.Host))
	}
	if !isPrivilege(q.Privilege) {
		e.fail(fmt.Errorf("privilege %q of %s is not a number", q.Privilege, q.User))
	}
	return Address{words[0], words[1], words[2], q.Privilege}
}

func (e *encoder) optional(letter byte, value string) {
	if value != "" {
		e.line(letter, value)
	}
}

func (e *encoder) line(letter byte, value string) {
	if err := checkLine(value); err != nil {
		e.fail(err)
	}
	e.b = append(e.b, letter, byte(Open))
	e.b = append(e.b, value...)
	e.b = append(e.b, '\n')
}
