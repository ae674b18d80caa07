package ctlfile

// Contents: the values in a new control file, and how they are written.

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Nobody is the privilege that Extract gives to an address without one: the uid
// of the user nobody.
const Nobody = "65534"

// Contents holds the values for a new control file.
type Contents struct {
	Name      string // i line; package queue sets it itself
	Body      int64  // offset of the body in the message file
	MessageID string // the Message-ID, or ""
	Source    string // S line, "" for none
	ErrorTo   string // address for error messages; "": the last sender's address
	Obsoletes []string
	Blocks    []HeaderBlock
	// HostLists allows hosts that are lists, ((mx1)(mx2 mx3)), as a router writes
	// them.
	HostLists bool
}

// HeaderBlock is an m block and the recipients that it is for.
type HeaderBlock struct {
	Envelopes []Envelope
	Header    string // complete lines, none of them empty
}

// Envelope is a sender and its recipients. A sender in channel "error" is the
// null sender. The words of addresses may be quoted as in a control file, or not
// quoted yet.
type Envelope struct {
	Sender     Address
	ErrorTo    string // in place of Contents.ErrorTo
	Recipients []EnvelopeRecipient
}

// EnvelopeRecipient is a recipient of an Envelope.
type EnvelopeRecipient struct {
	Address
	Class           int    // alternatives share a class, from 1; 0: not an alternative
	Delays          int    // delay notices that the sender has got
	DSN, Ret, EnvID string // N, R and n lines, "" for none
	Origin          string // O line, "" for none
}

// All yields the recipients in the order of the file. They may be changed.
func (c *Contents) All() iter.Seq[*EnvelopeRecipient] {
	return func(yield func(*EnvelopeRecipient) bool) {
		for i := range c.Blocks {
			for _, e := range c.Blocks[i].Envelopes {
				for j := range e.Recipients {
					if !yield(&e.Recipients[j]) {
						return
					}
				}
			}
		}
	}
}

// Extract returns the contents of a control file for some recipients of f, given by
// index in ascending order, with everything that the router wrote about them. The T
// lines are left out, because the scheduler has already acted on them, and so is the v line.
func (f *File) Extract(recipients []int) *Contents {
	c := &Contents{Body: f.Body, MessageID: f.MessageID, Source: f.Source, ErrorTo: f.ErrorTo, Obsoletes: f.Obsoletes}
	if len(f.Senders) > 1 {
		c.ErrorTo = "" // each has its own
	}
	header, sender := int64(-2), -1
	for _, i := range recipients {
		r := &f.Recipients[i]
		if r.Header != header {
			header, sender = r.Header, -1
			c.Blocks = append(c.Blocks, HeaderBlock{Header: f.Headers(i)})
		}
		b := &c.Blocks[len(c.Blocks)-1]
		if r.Sender != sender {
			sender = r.Sender
			e := Envelope{Sender: withNumericPrivilege(f.Senders[sender].Address)}
			if len(f.Senders) > 1 {
				e.ErrorTo = f.Senders[sender].ErrorTo
			}
			b.Envelopes = append(b.Envelopes, e)
		}
		e := &b.Envelopes[len(b.Envelopes)-1]
		e.Recipients = append(e.Recipients, EnvelopeRecipient{
			Address: withNumericPrivilege(r.Address), Class: r.Class, Delays: r.Delays,
			DSN: r.DSN, Ret: r.Ret, EnvID: r.EnvID, Origin: r.Origin,
		})
	}
	return c
}

// withNumericPrivilege reduces the privilege of an address to its first word, the
// number. An address without a privilege gets Nobody.
func withNumericPrivilege(a Address) Address {
	a.Privilege, _, _ = strings.Cut(a.Privilege, " ")
	if a.Privilege == "" {
		a.Privilege = Nobody
	}
	return a
}

// Encode returns the control file, in the router's order (ctlfile(5)). It fails
// for what Parse could not read back: a line end in a value, an empty line in a
// header block, a privilege that is not a number.
func (c *Contents) Encode() ([]byte, error) {
	e := encoder{b: make([]byte, 0, 1024)}
	e.contents(c)
	if e.err == nil && len(e.b) > MaxSize {
		e.fail(fmt.Errorf("%d bytes are too many", len(e.b)))
	}
	if e.err != nil {
		return nil, fmt.Errorf("write control file %q: %w", c.Name, e.err)
	}
	return e.b, nil
}

// encoder keeps the first error, so that its methods need not return one.
type encoder struct {
	b          []byte
	recipients int
	hostLists  bool
	err        error
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) contents(c *Contents) {
	e.hostLists = c.HostLists
	e.line('@', fmt.Sprintf("0x%08x", uint64(Supported)))
	if !isName(c.Name) {
		e.fail(errors.New("it is not the name of a message file"))
	}
	e.line('i', c.Name)
	if c.Body < 0 {
		e.fail(fmt.Errorf("body offset %d", c.Body))
	}
	e.line('o', strconv.FormatInt(c.Body, 10))
	e.optional('l', c.MessageID)
	e.optional('S', c.Source)
	for _, id := range c.Obsoletes {
		e.line('x', id)
	}
	for i := range c.Blocks {
		e.block(&c.Blocks[i], c.ErrorTo)
	}
	if e.recipients == 0 {
		e.fail(errors.New("no recipient"))
	}
}

func (e *encoder) block(b *HeaderBlock, errorTo string) {
	for i := range b.Envelopes {
		envelope := &b.Envelopes[i]
		if envelope.Sender.Channel != "error" {
			e.optional('e', cmp.Or(envelope.ErrorTo, errorTo))
		}
		e.line('s', e.address(envelope.Sender).String())
		for j := range envelope.Recipients {
			e.recipient(&envelope.Recipients[j])
		}
	}
	e.header(b.Header)
}

func (e *encoder) recipient(r *EnvelopeRecipient) {
	pidAndDelay := strings.Repeat(" ", pidWidth+delayWidth)
	if r.Delays > 0 {
		pidAndDelay = fmt.Sprintf("%*d", pidWidth+delayWidth, min(r.Delays, 9999))
	}
	to := e.address(r.Address)
	if !to.routable() {
		e.fail(errTooLong)
	}
	switch {
	case r.Class > 0:
		e.line('X', pidAndDelay+strconv.Itoa(r.Class)+" "+to.String())
	case r.Class == 0:
		e.line('r', pidAndDelay+to.String())
	default:
		e.fail(fmt.Errorf("class %d", r.Class))
	}
	e.optional('N', r.DSN)
	e.optional('R', r.Ret)
	e.optional('n', r.EnvID)
	e.optional('O', r.Origin)
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

// address quotes the words that need it.
func (e *encoder) address(a Address) Address {
	words := [...]string{a.Channel, a.Host, a.User}
	isList := e.hostLists && a.Host != "" && mxListLen(a.Host) == len(a.Host)
	for i, word := range words {
		if i == 1 && isList {
			continue
		}
		quoted, err := Quote(word)
		if err != nil {
			e.fail(err)
		}
		words[i] = quoted
	}
	if strings.HasPrefix(words[1], "(") && !isList {
		e.fail(fmt.Errorf("host %q reads as a list of hosts", a.Host))
	}
	if !isPrivilege(a.Privilege) {
		e.fail(fmt.Errorf("privilege %q of %s is not a number", a.Privilege, a.User))
	}
	return Address{words[0], words[1], words[2], a.Privilege}
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
