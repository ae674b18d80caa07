// This file holds the checks and preparations before MAIL: addresses, SIZE, and the
// conversion for servers without 8BITMIME.

package smtp

import (
	"errors"
	"fmt"
	"time"

	"zsched/ta"
	"zsched/ta/mime"
)

// prepare prepares the envelope and the content, and reports the recipients to whom
// nothing can be sent. It returns false if no other recipient is left.
func (t *transaction) prepare() bool {
	t.ext = t.s.ext
	if t.a.pool.record(t.s.target.name).NoChunking {
		t.ext.chunking = false
	}
	if t.plain {
		t.ext = t.necessary(t.ext)
	}
	var failed *failure
	switch {
	case t.from != "" && !validAddress(t.from):
		failed = unsendable("5.1.7", "the sender's address cannot be sent")
	case t.utf8 && !t.ext.utf8:
		failed = unsendable("5.6.7", "an address is not ASCII, but the next host accepts only those that are")
	}
	if failed == nil {
		t.by, failed = t.byParameter(t.ext, time.Since(t.d.message.ModifiedAt))
	}
	if failed == nil {
		failed = t.prepareContent()
	}
	for _, r := range t.recipients {
		switch {
		case failed != nil:
			t.a.report(r, failed.result(ta.Deferred), t.cvt)
		case !validAddress(withoutBrackets(r.User)):
			t.a.report(r, unsendable("5.1.3", "the recipient's address cannot be sent").result(ta.Error), t.cvt)
		default:
			t.states = append(t.states, recipientState{Recipient: r})
		}
	}
	return len(t.states) > 0
}

// unsendable is a permanent failure that the agent itself finds.
func unsendable(code, text string) *failure {
	return &failure{permanent: true, code: code, diagnostic: "smtp; 550 (" + text + ")", text: text}
}

// prepareContent measures the message, and converts it if the server accepts only
// seven bits.
func (t *transaction) prepareContent() *failure {
	o := &t.a.o
	how := mime.Conversion{KeepHeader: o.KeepHeaders}
	if !t.ext.eightBit && (!o.EightClean || o.Disabled.EightBit) {
		how.To = mime.SevenBit
	}
	c, err := t.d.content(t.header, how, &t.a.buffers)
	var local *localError
	switch {
	case errors.As(err, &local):
		return &failure{code: "4.3.0", diagnostic: "x-local; 430 (" + local.Error() + ")", text: local.Error()}
	case err != nil:
		return unsendable("5.6.3", "the next host does not accept eight bits: "+err.Error())
	case t.ext.size > 0 && c.size > t.ext.size:
		return unsendable("5.3.4", fmt.Sprintf("the message has %d bytes, but the next host accepts no more than %d", c.size, t.ext.size))
	}
	t.content, t.cvt = c, c.cvt
	return nil
}

// content returns the message with a header, measured and converted. It keeps the
// result for further transactions of the delivery.
func (d *delivery) content(header string, how mime.Conversion, b *buffers) (*content, error) {
	for _, kept := range d.contents {
		if kept.how == how && kept.header == header {
			return kept.content, nil
		}
	}
	body, err := d.message.Body()
	if err != nil {
		return nil, &localError{err}
	}
	c, err := measure(header, body, how, b)
	if err != nil {
		return nil, err
	}
	d.contents = append(d.contents, keptContent{header, how, c})
	return c, nil
}

// keptContent is a content and what it was made from.
type keptContent struct {
	header string
	how    mime.Conversion
	*content
}
